"""Removes a stack, even if its file is gone or has errors, and names what blocks a deletion: pods,
finalizers, contents of a namespace.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inferplan.components.naming import NAMESPACE
from inferplan.errors import OperationError, RequestError
from inferplan.kube.contents import foreign_contents
from inferplan.kube.names import MANAGED_BY_LABEL, cluster_of
from inferplan.kube.objects import label
from inferplan.progress import Progress
from inferplan.stackfile.reader import PROJECT, read_stack
from inferplan.updating import pulumi_cli
from inferplan.updating.containers import containers_of
from inferplan.updating.pulumi_stack import cancel_dead_locks
from inferplan.updating.update import UpdateOptions, real_target, simulated_target
from inferplan.workspace.file_backend import discard_cut_attributes
from inferplan.workspace.live import LiveCluster, ObjectKey
from inferplan.workspace.project import (
    child_environment,
    project_name,
    project_root,
    stack_file,
    stack_name,
)

if TYPE_CHECKING:
    from inferplan.rehearsal.apply.run import Outcome
    from inferplan.rehearsal.wait.object_events import Listener

_PROTECTED = (
    "note: protected resources stay, and so does what they depend on; to delete a store or the"
    " cluster as well, write retain: false or protect: false under it, run inferplan up {stack},"
    " then inferplan down {stack}"
)

_UNKNOWN_NAMESPACE = (
    "note: Pulumi's state of {stack} has no objects, so nothing was deleted from the cluster, where"
    " inferplan created namespace {namespace}. If the state is in another backend, set"
    " PULUMI_BACKEND_URL. If it was lost, restore a copy: pulumi stack import --stack {stack} --file"
    " COPY"
)


@dataclass(frozen=True, kw_only=True)
class ExistingStack:
    """A stack to remove, even if its file has errors."""

    name: str
    cluster: str
    """The name of its simulated cluster."""
    simulated: bool
    namespace: str
    context: str | None = None
    old_cluster: str = ""
    """A cluster of the same stack that an earlier version of inferplan made; "" if there is none.
    """


def existing_stack(stack: str) -> ExistingStack:
    """The stack to remove. Its file may be gone if its simulated cluster is not. Raises
    RequestError for an unknown stack, and outside of any project.
    """
    from inferplan.rehearsal.cluster import clusters
    from inferplan.workspace.simulated_cluster import old_cluster

    root = project_root()
    try:
        path = stack_file(root, stack)
    except RequestError:
        for cluster in (cluster_of(project_name(root), stack), stack):
            if cluster in clusters():
                return ExistingStack(
                    name=stack, cluster=cluster, simulated=True, namespace=NAMESPACE
                )
        raise
    if not path.is_file():
        raise RequestError(
            f"There is no file {path}. Give the name of a stack, or the path of its file"
        )
    config = _config(path)
    cluster = config.get("cluster") if isinstance(config.get("cluster"), dict) else {}
    return ExistingStack(
        name=stack_name(path),
        cluster=cluster_of(project_name(root), stack_name(path)),
        simulated=cluster.get("provider") == "simulated",
        namespace=str(config.get("namespace") or NAMESPACE),
        context=cluster.get("context"),
        old_cluster=old_cluster(project_name(root), stack_name(path)),
    )


def _config(path: Path) -> Any:
    """The keys of the file that can be read, without the project's prefix."""
    try:
        texts = read_stack(path).config
    except ValueError:
        return {}
    values: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            values[key.removeprefix(f"{PROJECT}:")] = json.loads(text)
        except ValueError:
            values[key.removeprefix(f"{PROJECT}:")] = text
    return values


def destroy(stack: ExistingStack, options: UpdateOptions, say: Callable[[str], None]) -> None:
    """Run `pulumi destroy` on everything that is not protected; `say` receives what blocks
    deletions. Raises OperationError.
    """
    from inferplan.rehearsal.cluster import start
    from inferplan.rehearsal.serving.programs import end

    arguments, simulated = ["--yes", "--skip-preview"], None
    if stack.simulated:
        end(stack.cluster)
        simulated = simulated_target(start(stack.cluster))
    else:
        # A real stack that was rehearsed here has a simulated cluster too, and is destroyed only
        # when the user confirms.
        options.check_confirmation(f"inferplan down {stack.name}")
        # Without --exclude-protected Pulumi rejects the whole destroy if one resource is protected,
        # and stores are by default. It takes --target or --exclude-protected, not both.
        arguments = [
            *([] if options.targets else ["--exclude-protected"]),
            *(["--yes"] if options.yes else []),
        ]
    for line in discard_cut_attributes(
        project_root(), child_environment() if simulated is None else simulated.environment
    ):
        say(line)
    target = simulated or real_target(stack.name, stack.context)
    for lock in cancel_dead_locks(stack.name, target.environment):
        say(f"{stack.name} was locked by {lock}, which no longer runs; the lock is cancelled")
    containers = containers_of(
        stack.name, target.environment, target.live, target.delete, kept=options.keep_namespace
    )
    leaving = containers.leaving()
    if not options.targets:
        containers.check(leaving, f"inferplan down {stack.name}")
    containers.protect(leaving)
    with naming_blockers(target.live, stack.namespace, say):
        pulumi_cli.run(
            ["destroy", "--stack", stack.name, *arguments, *options.pulumi_arguments()],
            target.environment,
            output=options.output,
        )
        containers.remove(leaving, say)
    if not stack.simulated:
        say(_PROTECTED.format(stack=stack.name))
    if not containers.own and _exists(target.live, stack.namespace):
        say(_UNKNOWN_NAMESPACE.format(stack=stack.name, namespace=stack.namespace))


def _exists(live: LiveCluster | None, namespace: str) -> bool:
    """True if inferplan created the namespace and the cluster still has it."""
    if live is None:
        return False
    live.forget()
    manifest = live.find(ObjectKey("v1", "Namespace", "", namespace)) or {}
    return label(manifest, MANAGED_BY_LABEL) == "inferplan"


def check_cluster_contents(name: str, command: str) -> None:
    """Raise OperationError if the running simulated cluster `name` has objects in the stack's
    namespaces that no rehearsal created.
    """
    from inferplan.rehearsal.apply.journal import load
    from inferplan.rehearsal.apply.prune import identity_of
    from inferplan.rehearsal.cluster import start, status
    from inferplan.workspace.simulated_cluster import namespaces_of

    if status(name) != "running":
        return
    cluster = start(name)
    own = {identity_of(each) for each in load(cluster.directory, cluster.uid)[0]}
    contents = (
        foreign_contents(cluster.get, ("", "Namespace", "", each), own)
        for each in namespaces_of(cluster)
    )
    if problems := [str(each) for each in contents if each]:
        remedy = f"To delete the simulated cluster with everything in it: {command} --cluster --yes"
        raise OperationError("\n".join([*problems, f"Nothing was deleted. {remedy}"]))


def empty_cluster(
    name: str, *, listener: Listener, step: Progress, keep_namespace: bool = False
) -> Outcome:
    from inferplan.rehearsal.apply.run import down
    from inferplan.rehearsal.cluster import start
    from inferplan.rehearsal.cluster.karpenter import ending
    from inferplan.rehearsal.serving.programs import end
    from inferplan.workspace.simulated_cluster import namespaces_of

    end(name)
    cluster = start(name, step)
    with ending(cluster, step):
        return down(
            cluster, listener=listener, kept=namespaces_of(cluster) if keep_namespace else ()
        )


# Kubernetes sets the deletion time after the grace period, in which our pods drain; this is extra
# time for the kubelet.
PATIENCE_SECONDS: Final = 30.0
_KINDS: Final = (
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("ray.io/v1", "RayService"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
)


def blockers(live: LiveCluster, namespace: str, now: datetime) -> Iterator[str]:
    """One sentence for each object of `namespace` whose deletion is overdue, with the reason."""
    for version, kind in _KINDS:
        for (_, name), each in sorted(live.objects(version, kind, namespace).items()):
            since = _overdue(each, now)
            if since is None:
                continue
            finalizers = each["metadata"].get("finalizers") or []
            if finalizers:
                plural, them = ("s", "them") if len(finalizers) > 1 else ("", "it")
                why = (
                    f"the finalizer{plural} {', '.join(finalizers)} must be removed by the"
                    f" controller that added {them}"
                )
            elif kind == "Pod":
                node = (each.get("spec") or {}).get("nodeName") or "no node"
                why = f"its containers have not ended on {node}; is the node's kubelet running?"
            else:
                why = "no finalizer is left"
            yield f"{kind} {namespace}/{name} has been terminating for {since:.0f} s: {why}"
    home = live.objects("v1", "Namespace").get(("", namespace))
    if home is not None and _overdue(home, now) is not None:
        for condition in (home.get("status") or {}).get("conditions", []):
            if condition["status"] == "True" and condition["type"] in (
                "NamespaceContentRemaining",
                "NamespaceFinalizersRemaining",
            ):
                yield f"Namespace {namespace}: {condition['message']}"


def _overdue(each: dict[str, Any], now: datetime) -> float | None:
    """Seconds since the deletion was due, None if it is not overdue."""
    due = each["metadata"].get("deletionTimestamp")
    if not due:
        return None
    seconds = (now - datetime.fromisoformat(due)).total_seconds()
    return seconds if seconds >= PATIENCE_SECONDS else None


@contextmanager
def naming_blockers(
    live: LiveCluster | None, namespace: str, say: Callable[[str], None], *, every: float = 15.0
) -> Iterator[None]:
    """Pass each new blocker of deletions in `namespace` to `say` while the block runs."""
    done = threading.Event()
    said: set[str] = set()

    def look() -> None:
        while live is not None and not done.wait(every):
            live.forget()
            texts: list[str] = []
            # It only explains; the update itself reports a cluster that does not answer.
            with suppress(Exception):
                texts += blockers(live, namespace, datetime.now(UTC))
            for text in texts:
                # The seconds change, the cause does not.
                cause = text.partition(" has been terminating for ")[0]
                if cause not in said:
                    said.add(cause)
                    say(text)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1)
