"""Create a cluster, repair one, or upgrade its control plane. On failure all end every process that
they started, and keep the logs.
"""

import hashlib
import shutil
import time
from dataclasses import replace
from pathlib import Path

from inferplan.documents.files import write_atomically
from inferplan.errors import ClusterError
from inferplan.progress import Notice, Progress
from inferplan.rehearsal.cluster import node_traces, processes
from inferplan.rehearsal.cluster.components import (
    API_SERVER,
    COMPONENTS,
    ETCD,
    LISTENING,
    Layout,
    arguments,
    scheduler_configuration,
    stage_configuration,
)
from inferplan.rehearsal.cluster.pki import kubeconfig_text, write_pki
from inferplan.rehearsal.cluster.record import (
    Cluster,
    Record,
    boot_id,
    forget_record,
    handle,
    write_record,
)
from inferplan.rehearsal.cluster.startup import (
    PortTakenError,
    Startup,
    free_ports,
    is_free,
    is_served,
)
from inferplan.rehearsal.toolchain.build import Toolchain, ensure, ensure_source, toolchain_digest
from inferplan.rehearsal.toolchain.pins import Source

_ATTEMPTS = 3
_PORT_SECONDS = 10.0
_POLL_SECONDS = 0.02


def programs_digest() -> str:
    """The digest of the programs and their arguments; a cluster with another digest is not reused."""
    layout = Layout(Path("/"), dict.fromkeys(LISTENING, 0))
    words = [word for component in COMPONENTS for word in arguments(component, layout)]
    text = "\0".join([*words, scheduler_configuration(layout).decode()])
    return f"{toolchain_digest()}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def clear(directory: Path) -> None:
    """End the cluster's processes and delete its directory, the record first, and what its real
    node left elsewhere.
    """
    forget_record(directory)
    processes.end(directory)
    node_traces.remove(directory)
    if directory.exists():
        shutil.rmtree(directory)


def make(directory: Path, reason: str, progress: Progress) -> Cluster:
    """A new cluster in `directory`, which must not exist; `reason` is why the previous one was
    deleted, or "". Raises RehearsalError.
    """
    toolchain = ensure(progress)
    for attempt in range(1, _ATTEMPTS + 1):
        layout = Layout(directory, free_ports())
        try:
            record = _bring_up(layout, toolchain, progress)
        except PortTakenError:
            if attempt == _ATTEMPTS:
                raise
            progress(
                Notice(
                    "another program took a port that was free a moment ago; starting again with"
                    " other ports"
                )
            )
            clear(directory)
            continue
        return handle(
            directory, record, "recreated" if reason else "created", (reason,) if reason else ()
        )
    raise AssertionError


def _bring_up(
    layout: Layout,
    toolchain: Toolchain,
    progress: Progress,
    components: tuple[str, ...] = COMPONENTS,
) -> Record:
    _write_files(layout, toolchain)
    try:
        uid = Startup(layout, toolchain.programs, progress).bring_up(components)
    except BaseException:
        processes.end(layout.directory)
        raise
    record = Record(uid, toolchain.version, layout.ports, programs_digest(), boot_id())
    write_record(layout.directory, record)
    return record


def _write_files(layout: Layout, toolchain: Toolchain) -> None:
    layout.directory.mkdir(mode=0o700, exist_ok=True)
    if not (layout.pki / "admin.csv").exists():  # written last of all files
        write_pki(layout.pki)
    write_atomically(
        layout.kubeconfig,
        kubeconfig_text(layout.pki, layout.server, f"inferplan-{layout.directory.name}"),
    )
    write_atomically(layout.directory / "scheduler.json", scheduler_configuration(layout))
    write_atomically(layout.directory / "stages.yaml", stage_configuration(toolchain.stages))


def repair(
    directory: Path, record: Record, failing: dict[str, str], progress: Progress
) -> Cluster | None:
    """The recorded cluster with its failing components restarted and its data kept; None if that
    failed. Raises DiskFullError.
    """
    toolchain = ensure(progress)
    repairs = _repairs(record, failing)
    for text in repairs:
        progress(Notice(text))
    # Controllers reconnect to a restarted API server after a back-off; restarting them is faster.
    everything = bool(failing.keys() & {ETCD, API_SERVER}) or any(
        text.startswith("runs ") for text in failing.values()
    )
    components = COMPONENTS if everything else tuple(failing)
    processes.end(directory, components)
    new = _restart(directory, record.ports, toolchain, progress, components, repairs)
    return (
        handle(directory, new, "repaired", tuple(repairs))
        if new and new.uid == record.uid
        else None
    )


def _restart(
    directory: Path,
    ports: dict[str, int],
    toolchain: Toolchain,
    progress: Progress,
    components: tuple[str, ...],
    repairs: list[str],
) -> Record | None:
    """Start `components` on their `ports`, or all on other ports if one is taken. Returns None if
    that failed.
    """
    problem = ""
    for _ in range(_ATTEMPTS):
        if taken := _taken(ports, components):
            repairs.append(
                f"port {ports[taken[0]]} of {taken[0]} was taken by another program, so the cluster"
                " moved to other ports"
            )
            progress(Notice(repairs[-1]))
            processes.end(directory)
            ports, components = free_ports(), COMPONENTS
        try:
            return _bring_up(Layout(directory, ports), toolchain, progress, components)
        except PortTakenError as error:
            # Another program took the port after the check, and all components were stopped.
            problem, components = error.message, COMPONENTS
        except ClusterError as error:
            problem = error.message
            break
    progress(Notice(f"the repair failed: {problem}"))
    return None


def _taken(ports: dict[str, int], components: tuple[str, ...]) -> list[str]:
    """The components whose port stays taken: the kernel frees the port of a killed process a moment
    after it is gone.
    """
    deadline = time.monotonic() + _PORT_SECONDS
    while taken := [each for each in components if each in LISTENING and not is_free(ports[each])]:
        if served := [each for each in taken if is_served(ports[each])]:
            return served
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)  # there is no event for a free port
    return taken


def _repairs(record: Record, failing: dict[str, str]) -> list[str]:
    if record.boot != boot_id() and len(failing) == len(COMPONENTS):
        return ["the computer was restarted, so the control plane is started again with its data"]
    if len(failing) == len(COMPONENTS):
        return ["the control plane was stopped, so it is started again with its data"]
    return [f"{component} {text}, so it is started again" for component, text in failing.items()]


def upgrade(cluster: Cluster, target: Source, progress: Progress) -> Cluster:
    """The cluster with the control plane `target`, built if missing, on the same ports; its data
    stays in etcd. Raises RehearsalError.

    Its record keeps the old version: the next `start` of the cluster repairs it with the programs
    that this checkout pins.
    """
    directory = ensure_source(target, progress)
    programs = ensure(progress).programs | {name: directory / name for name, _ in target.programs}
    # A new kwok would wait for the leases of the nodes to end; the old one reconnects.
    components = tuple(name for name, _ in target.programs)
    processes.end(cluster.directory, components)
    Startup(Layout(cluster.directory, cluster.ports), programs, progress).bring_up(components)
    return replace(cluster, version=target.version)
