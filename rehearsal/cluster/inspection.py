"""Look at one cluster without changing it: what is amiss, and its handle when nothing is."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from rehearsal.cluster import processes
from rehearsal.cluster.client import Client
from rehearsal.cluster.components import API_SERVER, COMPONENTS, ETCD, LISTENING, Layout, arguments, health_url, scheduler_configuration
from rehearsal.cluster.handle import Cluster, Outcome
from rehearsal.cluster.record import Record
from rehearsal.cluster.startup import identity
from rehearsal.errors import ClusterError
from rehearsal.toolchain.build import toolchain_digest

_PATIENCE_SECONDS = 15.0
"""How long a component that runs may take to say that it is well: on a busy machine an answer comes late, or is no for a moment."""

_HURRY_SECONDS = 3.0
_POLL_SECONDS = 0.1


def programs_digest() -> str:
    """Names the programs and how they are started; a cluster made with another digest is not reused."""
    layout = Layout(Path("/"), dict.fromkeys(LISTENING, 0))
    words = [word for component in COMPONENTS for word in arguments(component, layout)]
    text = "\0".join([*words, scheduler_configuration(layout).decode()])
    return f"{toolchain_digest()}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def complaints(directory: Path, record: Record) -> dict[str, str]:
    """What is amiss with the cluster in `directory`, by component; empty when it is well and still the recorded one."""
    found = processes.running(directory)
    amiss = {component: "is not running" for component in COMPONENTS if component not in found}
    amiss |= {component: f"runs {len(pids)} times" for component, pids in found.items() if len(pids) > 1}
    client = Client(directory / "pki")
    layout = Layout(directory, record.ports)
    for component in found:
        if component == API_SERVER and ETCD in amiss:
            continue  # it would take its time to say what is known already
        url = health_url(component, layout)
        if url is None or component in amiss:
            continue
        # What is amiss already is mended whatever the others say.
        patience = _HURRY_SECONDS if amiss else _PATIENCE_SECONDS
        if complaint := _complaint(client, url, found[component][0], patience):
            amiss[component] = f"does not answer well: {complaint}"
    if not amiss:
        try:
            uid = identity(client, layout.server)
        except ClusterError as fault:
            return {API_SERVER: fault.message}
        if uid != record.uid:
            return {API_SERVER: f"answers for cluster {uid}, recorded is {record.uid}"}
    return amiss


def _complaint(client: Client, url: str, pid: int, patience: float) -> str | None:
    """What the component at `url` says is amiss after `patience` seconds, None once it says that it is well."""
    if processes.is_stopped(pid):
        return "its process is stopped"
    deadline = time.monotonic() + patience
    while complaint := client.complaint(url, max(deadline - time.monotonic(), _POLL_SECONDS)):
        if time.monotonic() >= deadline:
            return complaint
        time.sleep(_POLL_SECONDS)  # a health address has to be asked; nobody tells
    return None


def handle(directory: Path, record: Record, outcome: Outcome = "reused", repairs: tuple[str, ...] = ()) -> Cluster:
    """The handle of the recorded cluster in `directory`."""
    layout = Layout(directory, record.ports)
    context = f"inferplan-{directory.name}"
    return Cluster(directory.name, directory, layout.server, layout.kubeconfig, context, record.uid, record.version, outcome, repairs)
