"""Make a cluster from nothing, or mend one that is half dead.

Both end every process they started when they fail, and leave the logs for reading.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rehearsal.cluster import processes
from rehearsal.cluster.components import API_SERVER, COMPONENTS, ETCD, LISTENING, Layout, scheduler_configuration, stage_configuration
from rehearsal.cluster.inspection import handle, programs_digest
from rehearsal.cluster.pki import kubeconfig_text, write_pki
from rehearsal.cluster.record import Record, boot_id, forget_record, write_record
from rehearsal.cluster.startup import PortTakenError, Startup, free_ports, is_free, is_served
from rehearsal.errors import ClusterError
from rehearsal.files import write_atomically
from rehearsal.progress import Notice, Progress
from rehearsal.toolchain.build import Toolchain, ensure

if TYPE_CHECKING:
    from rehearsal.cluster.handle import Cluster

_ATTEMPTS = 3
_PORT_SECONDS = 10.0
_POLL_SECONDS = 0.02


def clear(directory: Path) -> None:
    """End the cluster's processes and remove its directory; the record goes first, so that a kill leaves a leftover."""
    forget_record(directory)
    processes.end(directory)
    if directory.exists():
        shutil.rmtree(directory)


def make(directory: Path, port: int | None, reason: str, progress: Progress) -> Cluster:
    """A new cluster in `directory`, which must not exist; `reason` says why an earlier one was given up, if any was.

    Raises:
        RehearsalError: it did not come up.
    """
    toolchain = ensure(progress)
    for attempt in range(1, _ATTEMPTS + 1):
        layout = Layout(directory, _ports(port))
        try:
            record = _bring_up(layout, toolchain, progress)
        except PortTakenError:
            if attempt == _ATTEMPTS or (port is not None and not is_free(port)):
                raise
            progress(Notice("another program took a port that was free a moment ago; starting again with other ports"))
            clear(directory)
            continue
        return handle(directory, record, "recreated" if reason else "created", (reason,) if reason else ())
    raise AssertionError


def _ports(port: int | None) -> dict[str, int]:
    ports = free_ports()
    if port is not None:
        if not is_free(port):
            raise PortTakenError(
                f"port {port} on 127.0.0.1 is in use by another program",
                f"stop that program (`ss -ltnp 'sport = :{port}'` names it), or give another port or none",
            )
        ports[API_SERVER] = port
    return ports


def _bring_up(layout: Layout, toolchain: Toolchain, progress: Progress, wanted: tuple[str, ...] = COMPONENTS) -> Record:
    _write_files(layout, toolchain)
    try:
        uid = Startup(layout, toolchain.programs, progress).bring_up(wanted)
    except BaseException:
        processes.end(layout.directory)
        raise
    record = Record(uid, toolchain.version, layout.ports, programs_digest(), boot_id())
    write_record(layout.directory, record)
    return record


def _write_files(layout: Layout, toolchain: Toolchain) -> None:
    layout.directory.mkdir(mode=0o700, exist_ok=True)
    if not (layout.pki / "tokens.key").exists():  # written last of all keys
        write_pki(layout.pki)
    write_atomically(layout.kubeconfig, kubeconfig_text(layout.pki, layout.server, f"inferplan-{layout.directory.name}"))
    write_atomically(layout.directory / "scheduler.json", scheduler_configuration(layout))
    write_atomically(layout.directory / "stages.yaml", stage_configuration(toolchain.stages))


def mend(directory: Path, record: Record, amiss: dict[str, str], progress: Progress) -> Cluster | None:
    """The recorded cluster with what is amiss started again and its data kept; None where that did not help.

    Raises:
        DiskFullError: mending failed for want of space, so making it anew would as well.
    """
    toolchain = ensure(progress)
    repairs = _findings(record, amiss)
    for text in repairs:
        progress(Notice(text))
    # The controllers find a restarted API server only after a back-off; starting them again is quicker than waiting.
    everything = bool(amiss.keys() & {ETCD, API_SERVER}) or any(text.startswith("runs ") for text in amiss.values())
    wanted = COMPONENTS if everything else tuple(amiss)
    processes.end(directory, wanted)
    mended = _bring_back(directory, record.ports, toolchain, progress, wanted, repairs)
    return handle(directory, mended, "repaired", tuple(repairs)) if mended and mended.uid == record.uid else None


def _bring_back(
    directory: Path, ports: dict[str, int], toolchain: Toolchain, progress: Progress, wanted: tuple[str, ...], repairs: list[str]
) -> Record | None:
    """Start the components `wanted` on the `ports` they had, or all on others where one is taken; None where that did not help."""
    problem = ""
    for _ in range(_ATTEMPTS):
        if taken := _taken(ports, wanted):
            repairs.append(f"port {ports[taken[0]]} of {taken[0]} was taken by another program, so the cluster moved to other ports")
            progress(Notice(repairs[-1]))
            processes.end(directory)
            ports, wanted = free_ports(), COMPONENTS
        try:
            return _bring_up(Layout(directory, ports), toolchain, progress, wanted)
        except PortTakenError as fault:
            # Somebody came between the look and the start, whose failure ended every component.
            problem, wanted = fault.message, COMPONENTS
        except ClusterError as fault:
            problem = fault.message
            break
    progress(Notice(f"mending did not help: {problem}"))
    return None


def _taken(ports: dict[str, int], wanted: tuple[str, ...]) -> list[str]:
    """The components whose port stays taken: the kernel frees those of a killed process a moment after it has vanished."""
    deadline = time.monotonic() + _PORT_SECONDS
    while taken := [each for each in wanted if each in LISTENING and not is_free(ports[each])]:
        if served := [each for each in taken if is_served(ports[each])]:
            return served
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)  # nothing tells when a port becomes free
    return taken


def _findings(record: Record, amiss: dict[str, str]) -> list[str]:
    if record.boot != boot_id() and len(amiss) == len(COMPONENTS):
        return ["the machine was restarted since, so the control plane is started again with its data"]
    if len(amiss) == len(COMPONENTS):
        return ["the control plane was stopped, so it is started again with its data"]
    return [f"{component} {text}, so it is started again" for component, text in amiss.items()]
