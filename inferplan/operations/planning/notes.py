"""Notes for the person who plans or applies a stack: missing capacity, open egress, keys that expire, messages of the program."""

from collections.abc import Iterator
from datetime import date, timedelta

from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.exposure_spec import route_notes
from inferplan.components.handles import ObjectStore
from inferplan.components.storage.spec import S3StoreSpec
from inferplan.components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from inferplan.images.catalogue import family_of
from inferplan.operations import keys
from inferplan.operations.contract import contract_of, speaks_grpc
from inferplan.operations.planning.simulated_nodes import CPU_NODES, needs_cpu_nodes, nodes_wanted
from inferplan.operations.project import stack_files
from inferplan.operations.reporting.policy_check import settings_file
from inferplan.operations.workspace import Workspace
from inferplan.rehearsal.engine.wire.recording import Recording
from inferplan.stackfile.checks.capacity import nodes
from inferplan.stackfile.stack import StackSettings

# A month to add a version and to move clients over.
NOTICE_DAYS = 30
_OPEN = "can reach every IPv4 address on port"


def program_notes(recording: Recording) -> Iterator[str]:
    for each in recording.diagnostics:
        name = each.urn.rpartition("::")[2]
        about = "" if each.message.startswith(name) else f"{name}: "
        yield f"{about}{each.message}"


def stack_notes(workspace: Workspace) -> Iterator[str]:
    """Notes on the stack file: keys that expire, missing capacity, scaling and open egress."""
    yield from gateway_notes(workspace)
    yield from capacity_notes(workspace.settings)
    yield from scaling_notes(workspace.settings)
    yield from egress_notes(workspace.settings)
    yield from settings_notes(workspace)


def settings_notes(workspace: Workspace) -> Iterator[str]:
    """A note if the stack has no settings of policies and one stack left some: `pulumi stack rename` does not rename them."""
    own = settings_file(workspace.root, workspace.stack)
    left = [] if own.exists() else [each for each in own.parent.glob("*.json") if each.stem not in stack_files(workspace.root)]
    if len(left) == 1:
        old, new = (each.relative_to(workspace.root) for each in (left[0], own))
        yield (
            f"{workspace.stack} has no settings of policies, and {old} belongs to no stack. "
            f"If {workspace.stack} was renamed from {left[0].stem}, rename them too: git mv {old} {new}"
        )


def gateway_notes(workspace: Workspace) -> Iterator[str]:
    """A note for each key that is expired or expires within NOTICE_DAYS, and for what the gateway leaves to others."""
    settings, gateway = workspace.settings, workspace.settings.gateway
    yield from expiring(settings.consumers, workspace.typed, keys.today())
    if gateway is not None:
        grpc = gateway.carries_grpc and speaks_grpc(contract_of(settings).endpoints.values())
        yield from route_notes(gateway.access, grpc=grpc, differences=gateway.differences)
    yield from server_notes(settings)


def server_notes(settings: StackSettings) -> Iterator[str]:
    """A note about responses that outlast a model's drainSeconds, and one about servers that check no key."""
    promised = getattr(settings.gateway, "drain_seconds", 0)
    shorter = {name: model.drain_seconds for name, model in settings.models.items() if model.drain_seconds < promised}
    if shorter:
        listed = ", ".join(f"{name} {seconds} s" for name, seconds in shorter.items())
        yield (
            f"a replaced model server ends its running responses after its drainSeconds ({listed}); gateway.drainSeconds ({promised} s) "
            "holds only while gateway pods are replaced. For longer responses, raise drainSeconds of the model."
        )
    if open_servers := [name for name, each in contract_of(settings).endpoints.items() if each.server_key is None]:
        yield (
            f"servers that check no key: {', '.join(open_servers)}. A NetworkPolicy admits only the gateway's pods to them: "
            "use a network plugin that enforces policies."
        )


def expiring(consumers: dict[str, ConsumerSpec], stack: str, today: date) -> Iterator[str]:
    """A line for each such key, and what to type next, by consumer and version. A key is valid on its last day (UTC)."""
    for consumer, spec in sorted(consumers.items()):
        for version, last_day in sorted(spec.expires.items()):
            if last_day > today + timedelta(days=NOTICE_DAYS):
                continue
            add, retire = (f"inferplan keys {what} --stack {stack}" for what in (f"add {consumer}", f"retire {consumer} {version}"))
            command = add if version == spec.newest else retire
            if last_day < today:
                yield f"key {version} of {consumer} expired on {last_day} and is refused; next: {command}"
            else:
                days = (last_day - today).days
                when = "today" if not days else f"in {days} day{'' if days == 1 else 's'}"
                move = add if version == spec.newest else f"move its clients to version {spec.newest}, then {retire}"
                yield f"key {version} of {consumer} expires {when} ({last_day}); next: {move}"


def capacity_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each pool that grows for its models, for nodes that the stack file does not list, and for a load balancer that nothing creates."""
    cluster = settings.cluster
    yield from cluster.notes(settings)
    for name, wanted in nodes_wanted(settings).items():
        first = settings.node_pools[name].initial_nodes
        if wanted > first:
            yield (
                f"nodePools.{name} starts with {nodes(first)}, and its pods need {wanted}: "
                f"{'EKS Auto Mode' if settings.node_pools[name].is_auto_mode else 'an autoscaler'} adds the rest. "
                + (
                    f"A rehearsal starts {nodes(wanted)}, or those that Karpenter chooses with up --karpenter."
                    if settings.node_pools[name].is_auto_mode
                    else f"A rehearsal runs no autoscaler and starts {nodes(wanted)}."
                )
            )
    if needs_cpu_nodes(settings) and not cluster.is_simulated:
        yield f"nodePools lists no nodes without an accelerator, for the gateway and preheats. A rehearsal adds {nodes(CPU_NODES)} of its own."
    access = None if settings.gateway is None else settings.gateway.access
    if access is not None and (problem := cluster.unserved(access)) is not None:
        yield f"gateway: {problem}"


def scaling_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each model that can have no replica: how long its first request takes, and what callers meet until then."""
    from inferplan.components.serving.first_request import first_request

    for name, model in settings.models.items():
        if model.scaling is None or model.scaling.min > 0:
            continue
        pool = settings.node_pools[model.pool]
        parts = first_request(model.pool, model, pool, adds_nodes=settings.cluster.adds_nodes(pool))
        listed = ", ".join(f"{each.name} {each.seconds} s ({each.source})" for each in parts)
        waits = getattr(settings.gateway, "start_wait_seconds", 0)
        until = f"Requests wait for at most {waits} s (gateway.startWaitSeconds), then" if waits else "Until then"
        yield f"{name}: at 0 replicas, the first answer takes about {sum(each.seconds for each in parts)} s: {listed}. {until} the gateway answers 503."


def egress_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each image that no table describes, whose files volumes may hide, and for each store whose readers stay open."""
    for name, model in settings.models.items():
        if model.image is not None and model.scratch is None and family_of(model.image) is None:
            yield f"models.{name}: volumes hide what {model.image} keeps below /tmp and /cache. To move them, add scratch: /scratch."
    read = {weights.store for model in settings.models.values() for weights in (model.stored_files, *model.artifacts.values()) if weights}
    for name in settings.storage:
        if name in read:
            yield from _store_notes(name, settings)


def _store_notes(name: str, settings: StackSettings) -> Iterator[str]:
    from inferplan.components.network import limited, needs_sts, ports_of, url_of
    from inferplan.components.storage.model_store import remote_store

    key, spec = f"storage.{name}", settings.storage[name]
    if not isinstance(spec, S3StoreSpec | HttpStoreSpec | HubStoreSpec):
        return
    store = remote_store(spec)
    if limited(store):
        # EKS Pod Identity needs no call of AWS STS.
        amazon = isinstance(store, ObjectStore) and store.endpoint is None
        if needs_sts(store) and not (amazon and settings.cluster.assigns_pod_identities):
            yield f"{key}: its readers {_OPEN} 443, where AWS STS gives them credentials. To limit them, name a Secret in {key}.credentials."
    elif isinstance(store, ObjectStore) and store.endpoint is None:
        yield (
            f"{key}: its readers {_OPEN} 443, because a NetworkPolicy cannot match host names and Amazon S3 has no fixed addresses. "
            f"To limit them, filter host names outside Kubernetes, or set {key}.networks to the networks of an S3 interface endpoint."
        )
    else:
        url = url_of(store)
        host = url.hostname or ""
        ports = " and ".join(map(str, ports_of(store)))
        service = f" If it is a Service, write {host}.svc." if url.port and host.count(".") == 1 else ""
        yield (
            f"{key}: its readers {_OPEN} {ports}, because a NetworkPolicy cannot match the host name {host}. "
            f"To limit them, set {key}.networks to the networks of its servers.{service}"
        )
