"""Notes for the person who plans or applies a stack: missing capacity, open egress, keys that
expire, messages of the program.
"""

from collections.abc import Iterator
from datetime import date, timedelta

from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.exposure_spec import route_notes
from inferplan.components.handles import speaks_grpc
from inferplan.components.stores import WeightsSpec
from inferplan.images.catalogue import family_of
from inferplan.images.floors import below_floor
from inferplan.kube.paths import leaves
from inferplan.kube.quantity import bytes_of
from inferplan.planning.policy_check import settings_file
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.checks.capacity import nodes
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace import keys
from inferplan.workspace.contract import contract_of
from inferplan.workspace.declared import declared_keys
from inferplan.workspace.project import stack_files
from inferplan.workspace.simulated_nodes import CPU_NODES, needs_cpu_nodes, nodes_wanted
from inferplan.workspace.workspace import Workspace

# A month to add a version and to move clients over.
NOTICE_DAYS = 30
_OPEN = "can reach every IPv4 address on port"


def program_notes(recording: Recording) -> Iterator[str]:
    for each in recording.diagnostics:
        name = each.urn.rpartition("::")[2]
        about = "" if each.message.startswith(name) else f"{name}: "
        yield f"{about}{each.message}"
    images = {
        value
        for registration in recording.registrations
        for path, value in leaves(registration.inputs)
        if path[-1:] == ("image",) and isinstance(value, str)
    }
    for image in sorted(images):
        yield from below_floor(image, keys.today())


def stack_notes(workspace: Workspace) -> Iterator[str]:
    """Notes on the stack file: keys that expire, missing capacity, scaling and open egress."""
    yield from gateway_notes(workspace)
    yield from capacity_notes(workspace.settings)
    yield from scaling_notes(workspace.settings)
    yield from router_notes(workspace.settings)
    yield from egress_notes(workspace.settings)
    yield from settings_notes(workspace)


def settings_notes(workspace: Workspace) -> Iterator[str]:
    """A note if the stack has no settings of policies and one stack left some: `pulumi stack
    rename` does not rename them.
    """
    own = settings_file(workspace.root, workspace.stack)
    left = (
        []
        if own.exists()
        else [
            each
            for each in own.parent.glob("*.json")
            if each.stem not in stack_files(workspace.root)
        ]
    )
    if len(left) == 1:
        old, new = (each.relative_to(workspace.root) for each in (left[0], own))
        yield (
            f"{workspace.stack} has no settings of policies, and {old} belongs to no stack. If"
            f" {workspace.stack} was renamed from {left[0].stem}, rename them too: git mv {old}"
            f" {new}"
        )


def gateway_notes(workspace: Workspace) -> Iterator[str]:
    """A note for each key that is expired or expires within NOTICE_DAYS, and for what the gateway
    leaves to others.
    """
    settings, gateway = workspace.settings, workspace.settings.gateway
    yield from expiring(settings.consumers, workspace.typed, keys.today())
    if gateway is not None:
        grpc = gateway.carries_grpc and speaks_grpc(contract_of(settings).endpoints.values())
        yield from route_notes(gateway.access, grpc=grpc, differences=gateway.differences)
    yield from server_notes(settings)


def server_notes(settings: StackSettings) -> Iterator[str]:
    """A note about responses that outlast a model's drainSeconds, and one about servers that check
    no key.
    """
    promised = getattr(settings.gateway, "drain_seconds", 0)
    shorter = {
        name: model.drain_seconds
        for name, model in settings.models.items()
        if model.drain_seconds < promised
    }
    if shorter:
        listed = ", ".join(f"{name} {seconds} s" for name, seconds in shorter.items())
        yield (
            f"a replaced model server ends its running responses after its drainSeconds ({listed});"
            f" gateway.drainSeconds ({promised} s) holds only while gateway pods are replaced. For"
            " longer responses, raise drainSeconds of the model."
        )
    if open_servers := [
        name for name, each in contract_of(settings).endpoints.items() if each.server_key is None
    ]:
        yield (
            f"servers that check no key: {', '.join(open_servers)}. A NetworkPolicy admits only the"
            " gateway's pods to them: use a network plugin that enforces policies."
        )


def expiring(consumers: dict[str, ConsumerSpec], stack: str, today: date) -> Iterator[str]:
    """A line for each such key, and what to type next, by consumer and version. A key is valid on
    its last day (UTC).
    """
    for consumer, spec in sorted(consumers.items()):
        for version, last_day in sorted(spec.expires.items()):
            if last_day > today + timedelta(days=NOTICE_DAYS):
                continue
            add, retire = (
                f"inferplan keys {what} --stack {stack}"
                for what in (f"add {consumer}", f"retire {consumer} {version}")
            )
            command = add if version == spec.newest else retire
            if last_day < today:
                yield (
                    f"key {version} of {consumer} expired on {last_day} and is rejected; next:"
                    f" {command}"
                )
            else:
                days = (last_day - today).days
                when = "today" if not days else f"in {days} day{'' if days == 1 else 's'}"
                move = (
                    add
                    if version == spec.newest
                    else f"move its clients to version {spec.newest}, then {retire}"
                )
                yield f"key {version} of {consumer} expires {when} ({last_day}); next: {move}"


def capacity_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each pool that grows for its models, for nodes that the stack file does not list,
    and for a load balancer that nothing creates.
    """
    cluster = settings.cluster
    yield from cluster.notes(settings)
    for name, wanted in nodes_wanted(settings).items():
        first = settings.node_pools[name].initial_nodes
        if wanted > first:
            yield (
                f"nodePools.{name} starts with {nodes(first)}, and its pods need {wanted}:"
                f" {'EKS Auto Mode' if settings.node_pools[name].is_auto_mode else 'an autoscaler'}"
                " adds the rest. "
                + (
                    f"A rehearsal starts {nodes(wanted)}, or those that Karpenter chooses with up"
                    " --karpenter."
                    if settings.node_pools[name].is_auto_mode
                    else f"A rehearsal runs no autoscaler and starts {nodes(wanted)}."
                )
            )
    if needs_cpu_nodes(settings) and not cluster.is_simulated:
        yield (
            "nodePools lists no nodes without an accelerator, for the gateway and preheats. A"
            f" rehearsal adds {nodes(CPU_NODES)} of its own."
        )
    access = None if settings.gateway is None else settings.gateway.access
    if access is not None and (problem := cluster.unserved(access)) is not None:
        yield f"gateway: {problem}"


def scaling_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each model that can have no replica: how long its first request takes, and what
    callers meet until then.
    """
    from inferplan.components.serving.first_request import first_request

    for name, model in settings.models.items():
        if model.scaling is None or model.scaling.min > 0:
            continue
        pool = settings.node_pools[model.pool]
        parts = first_request(model.pool, model, pool, adds_nodes=settings.cluster.adds_nodes(pool))
        listed = ", ".join(f"{each.name} {each.seconds} s ({each.source})" for each in parts)
        waits = getattr(settings.gateway, "start_wait_seconds", 0)
        until = (
            f"Requests wait for at most {waits} s (gateway.startWaitSeconds), then"
            if waits
            else "Until then"
        )
        yield (
            f"{name}: at 0 replicas, the first answer takes about"
            f" {sum(each.seconds for each in parts)} s: {listed}. {until} the gateway answers 503."
        )


def router_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each router that has no choice."""
    for name, model in settings.models.items():
        alone = model.peer(name) is None and model.max_replicas < 2
        if model.routed_by is not None and alone:
            yield (
                f"{name}: a router chooses among replicas, and this model has"
                f" {model.max_replicas}. Raise replicas, or remove router."
            )


def egress_notes(settings: StackSettings) -> Iterator[str]:
    """A note for each image that no table describes, whose files volumes may hide, and for each
    store whose readers stay open.
    """
    for name, model in settings.models.items():
        if model.image is not None and model.scratch is None and family_of(model.image) is None:
            yield (
                f"models.{name}: volumes hide what {model.image} keeps below /tmp and /cache. To"
                " move them, add scratch: /scratch."
            )
    for name, model in settings.models.items():
        files = model.stored_files
        if files is not None and settings.storage[files.store].pulled:
            yield _image_note(name, files, settings.storage[files.store].location)
    read = {
        weights.store
        for model in settings.models.values()
        for weights in (model.stored_files, *model.artifacts.values())
        if weights
    }
    for name in settings.storage:
        if name in read:
            yield from _store_notes(name, settings)


def _image_note(name: str, files: WeightsSpec, registry: str) -> str:
    """The disk and the time that the image of model `name` needs on each node."""
    from inferplan.components.serving.demand import PULL_BYTES_PER_SECOND, pull_seconds

    size = bytes_of(files.size) if files.size else 0
    needs = (
        f"{2 * size / 2**30:.0f}Gi of its disk and about {pull_seconds(size)} s, by"
        f" {PULL_BYTES_PER_SECOND // 1_000_000} MB/s"
        if size
        else "an unknown time and disk (add weights.size)"
    )
    return (
        f"models.{name}: each node pulls {registry}/{files.path} before the first server starts"
        f" there, which takes {needs}. Nodes need Kubernetes 1.35 or the feature gate ImageVolume,"
        " and containerd 2.1 or CRI-O 1.31."
    )


def _store_notes(name: str, settings: StackSettings) -> Iterator[str]:
    from inferplan.components.network import host_of, limited, needs_sts

    key, spec = f"storage.{name}", settings.storage[name]
    if spec.is_volume:
        return
    source = spec.source()
    if limited(source):
        # EKS Pod Identity needs no call of AWS STS.
        if needs_sts(source) and not (
            source.is_cloud_service and settings.cluster.assigns_pod_identities
        ):
            yield (
                f"{key}: its readers {_OPEN} 443 to get credentials from AWS STS. To limit"
                f" them, name a Secret in {key}.credentials."
            )
    elif source.is_cloud_service:
        yield (
            f"{key}: its readers {_OPEN} 443, because a NetworkPolicy cannot match host names and"
            " Amazon S3 has no fixed addresses. To limit them, filter host names outside"
            f" Kubernetes, or set {key}.networks to the networks of an S3 interface endpoint."
        )
    else:
        host, url = host_of(source), source.url
        ports = " and ".join(map(str, source.ports))
        service = (
            f" If it is a Service, write {host}.svc."
            if url and url.port and host.count(".") == 1
            else ""
        )
        yield (
            f"{key}: its readers {_OPEN} {ports}, because a NetworkPolicy cannot match the host"
            f" name {host}. To limit them, set {key}.networks to the networks of its"
            f" servers.{service}"
        )


def rehearsal_limits(workspace: Workspace, recording: Recording) -> list[str]:
    """Notes on what a rehearsal does not show."""
    limits = []
    if workspace.secrets.placeholders:
        limits.append(
            "new keys of this rehearsal are placeholders, and existing Secrets stay as they are:"
            f" {workspace.secrets.reason}"
        )
    if not workspace.simulated:
        cloud = workspace.settings.cluster.cloud
        requests = "" if cloud is None else f", and no request goes to {cloud}"
        limits.append(
            f"this is a rehearsal of {workspace.stack}: its nodes are fake, its cluster is on this"
            f" machine{requests}"
        )
    if workspace.settings.queues:
        limits.append(
            "Kueue does not run on the simulated cluster: queues are created, and no workload waits"
            " in them"
        )
    if any(
        each.kind == "ScaledObject"
        for each in declared_keys(recording, workspace.settings.namespace)
    ):
        limits.append(
            "KEDA does not run on the simulated cluster: ScaledObjects are created, and the number"
            " of replicas stays as it is"
        )
    return limits
