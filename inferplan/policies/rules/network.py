"""Services and network policies."""

from inferplan.kube.names import COMPONENT_LABEL
from inferplan.policies.engine.fields import Field, any_matching
from inferplan.policies.engine.resource import Resource, Stack, objects
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    stack_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.networks import (
    NETWORK_POLICY,
    Network,
    block_of,
    blocks_of,
    cover_internet,
    excludes,
    is_internet,
    is_narrow,
    isolates,
    network,
    opens,
    sides_of,
)
from inferplan.policies.subjects.placement import labels_at
from inferplan.policies.subjects.pods import PodTemplate
from inferplan.policies.subjects.serving import closed_ports, is_keyless
from inferplan.policies.subjects.workloads import (
    SERVING_WORKLOADS,
    engines_of,
    labels_of,
    pods_in,
    selecting,
)

METADATA = (network("169.254.169.254/32"), network("fd00:ec2::254/128"))
METADATA_PORT = 80
# The lowest port that a process without root can open.
LOWEST_OPEN_PORT = 1024
CILIUM = "kubernetes:cilium.io:CiliumNetworkPolicy"
ANY_SOURCE = ("world", "world-ipv4", "world-ipv6", "all")
SIDES = (("ingress", "from"), ("egress", "to"))


@resource_rule(objects("kubernetes:networking.k8s.io:NetworkPolicy"))
def network_disallow_metadata_egress(policy: Resource, _: Parameters) -> Violations:
    for rule in policy.select("spec", "egress", "*"):
        if not rule.at("to").has_items and _reaches_port(rule):
            yield violation(rule.at("to"), "is not set, so pods can reach the metadata service")
        for block, address in (
            (peer.at("ipBlock"), address) for peer in rule.at("to").each() for address in METADATA
        ):
            if block.absent or not _includes(block.at("cidr"), address):
                continue
            if not any(_includes(each, address) for each in block.at("except").each()):
                yield violation(block.at("except"), "does not exclude the metadata service")


def _reaches_port(rule: Field) -> bool:
    """True if a rule allows the port of the metadata service. A port name belongs to a pod, so it
    never does.
    """
    ports = list(rule.at("ports").each())
    for each in ports:
        port = each.at("port").text()
        if each.at("protocol").text() == "UDP" or (port and not port.isdigit()):
            continue
        if not port or int(port) <= METADATA_PORT <= (each.at("endPort").number() or int(port)):
            return True
    return not ports


def _includes(field: Field, address: Network) -> bool:
    block = block_of(field)
    return block.version == address.version and address.network_address in block


@resource_rule(objects("kubernetes:core:Service"))
def network_disallow_node_port(service: Resource, _: Parameters) -> Violations:
    kind = service.at("spec", "type").text()
    if kind == "NodePort" or (kind == "LoadBalancer" and not _is_gateway_load_balancer(service)):
        yield violation(service.at("spec", "type"), "exposes the Service outside the cluster")
    if kind == "ExternalName" and not service.at("spec", "externalName").text().endswith(
        (".svc", ".svc.cluster.local")
    ):
        yield violation(service.at("spec", "externalName"), "points to a host outside the cluster")
    if kind != "ExternalName" and not service.at("spec", "selector").value:
        yield violation(
            service.at("spec", "selector"),
            "is not set, so anyone who can write its endpoints can redirect its clients",
        )
    yield from violations(
        service.at("spec", "externalIPs"),
        lambda field: field.has_items,
        "claims addresses outside the cluster",
    )


def _is_gateway_load_balancer(service: Resource) -> bool:
    """True if the Service is a load balancer to the gateway's pods that has no node ports and
    terminates TLS.
    """
    spec = service.at("spec")
    to_gateway = spec.at("selector", COMPONENT_LABEL).text() == "gateway"
    no_node_ports = spec.at("allocateLoadBalancerNodePorts").flag() is False
    annotations = service.at("metadata", "annotations")
    certificate = annotations.at("service.beta.kubernetes.io/aws-load-balancer-ssl-cert").text()
    # Without the annotation, every port has TLS.
    encrypted = (
        annotations.at("service.beta.kubernetes.io/aws-load-balancer-ssl-ports").text() or "*"
    )
    ports = [
        {each.at("name").text(), each.at("port").text(), "*"} for each in spec.at("ports").each()
    ]
    return (
        to_gateway
        and no_node_ports
        and bool(certificate)
        and not any(map({*encrypted.split(",")}.isdisjoint, ports))
    )


@resource_rule(objects("kubernetes:networking.k8s.io:NetworkPolicy", CILIUM))
def network_require_policy_ports(policy: Resource, _: Parameters) -> Violations:
    if policy.kind == CILIUM:
        for spec in (policy.at("spec"), *policy.at("specs").each()):
            yield from _cilium_violations(spec)
        return
    for rule, peers_at in (
        (rule, peers_at) for side, peers_at in SIDES for rule in policy.select("spec", side, "*")
    ):
        if not rule.at("ports").has_items:
            yield violation(rule.at("ports"), "is not set, so every port is open")
        for port in rule.at("ports").each():
            if port.at("port").absent or not port.at("endPort").absent:
                low = (port.at("port").number() or 0) < LOWEST_OPEN_PORT
                if low or not _is_among_selected(policy, rule.at(peers_at)):
                    yield violation(port, "opens more than one port")
    yield from _any_source(policy.at("spec"))
    for peer in (
        peer for side, peers_at in SIDES for peer in policy.select("spec", side, "*", peers_at, "*")
    ):
        selectors = (peer.at("namespaceSelector"), peer.at("podSelector"))
        if any(map(excludes, selectors)) and not any(map(is_narrow, selectors)):
            yield violation(peer, "selects pods by what they are not")


def _any_source(spec: Field) -> Violations:
    """Rules that allow any source, each or together. Only the gateway may do so."""
    if spec.at("podSelector", "matchLabels", COMPONENT_LABEL).text() == "gateway":
        return
    rules = list(spec.at("ingress").each())
    for rule in rules:
        peers = list(rule.at("from").each())
        if not peers or opens(
            each
            for each in peers
            if not each.at("namespaceSelector").absent or not each.at("ipBlock").absent
        ):
            yield violation(rule.at("from"), "allows any source")
    if len(rules) > 1 and cover_internet(
        blocks_of(peer for rule in rules for peer in rule.at("from").each())
    ):
        yield violation(spec.at("ingress"), "allows any address, through several rules together")


def _cilium_violations(spec: Field) -> Violations:
    for side, peers_at in SIDES:
        for rule in spec.at(side).each():
            if not any(
                name.startswith(peers_at) and not name.endswith("Ports")
                for name, _field in rule.entries()
            ):
                yield violation(rule, "names no peer, so it allows any source")
            if any(map(excludes, rule.at(f"{peers_at}Endpoints").each())):
                yield violation(
                    rule.at(f"{peers_at}Endpoints"), "selects pods by what they are not"
                )
            if not {*ANY_SOURCE}.isdisjoint(rule.at(f"{peers_at}Entities").texts()):
                yield violation(rule.at(f"{peers_at}Entities"), "allows any source")
            blocks = map(block_of, rule.at(f"{peers_at}CIDR").each())
            if is_internet(blocks) or cover_internet(rule.at(f"{peers_at}CIDRSet").each()):
                yield violation(rule, "covers all addresses")


def _is_among_selected(policy: Resource, peers: Field) -> bool:
    """True if the only peers are the pods that the policy selects, for example those of one engine."""
    selected = labels_at(policy.at("spec", "podSelector", "matchLabels"))
    fields = list(peers.each())
    if not selected or len(fields) != 1 or set(fields[0].value) != {"podSelector"}:
        return False
    selector = fields[0].at("podSelector")
    return (
        set(selector.value) == {"matchLabels"} and labels_at(selector.at("matchLabels")) == selected
    )


@stack_rule
def stack_require_default_deny(stack: Stack, _: Parameters) -> Violations:
    namespaces: set[str] = set()
    for workload in stack.of(*SERVING_WORKLOADS):
        with stack.unreadable:
            namespace = workload.at("metadata", "namespace")
            if namespace.text() not in namespaces:
                namespaces.add(namespace.text())
                for side in ("Ingress", "Egress"):
                    with stack.unreadable:
                        if not _denied(stack, workload, side):
                            yield violation(namespace, "has no default-deny network policy")


def _denied(stack: Stack, workload: Resource, side: str) -> bool:
    """True if policies deny that side to all pods of the workload's namespace. Raises FieldError if
    only an unreadable policy could.
    """
    policies = stack.in_namespace(workload.namespace, NETWORK_POLICY)
    if any_matching(policies, lambda each: isolates(each, side)):
        return True
    pods = pods_in(stack, workload.namespace)
    chosen = (selecting(stack, NETWORK_POLICY, pod, "spec", "podSelector") for pod in pods)
    return bool(pods) and all(
        any(isolates(policy, side, some=True) for policy in policies) for policies in chosen
    )


def _covers(port: Field, numbers: set[int]) -> bool:
    low = port.at("port").number() if port.at("port").text().isdigit() else None
    high = port.at("endPort").number() or low
    return low is not None and high is not None and any(low <= each <= high for each in numbers)


def _has_service(stack: Stack, pod: PodTemplate) -> bool:
    services = stack.in_namespace(pod.resource.namespace, "kubernetes:core:Service")
    labels = labels_of(pod).items()
    return any_matching(
        services,
        lambda each: (
            bool(selector := labels_at(each.at("spec", "selector"))) and selector.items() <= labels
        ),
    )


@stack_rule
def stack_require_policy_before_models(stack: Stack, _: Parameters) -> Violations:
    judged: set[str] = set()
    for pod in engines_of(stack):
        with stack.unreadable:
            for policy in selecting(stack, NETWORK_POLICY, pod, "spec", "podSelector"):
                if policy.urn in judged:
                    continue
                judged.add(policy.urn)
                with stack.unreadable:
                    for rule in policy.select("spec", "ingress", "*"):
                        if not rule.at("from").has_items or opens(rule.at("from").each()):
                            yield violation(rule.at("from"), "lets any pod reach a model")
                        yield from (
                            violation(port, "opens a port that administers the server")
                            for port in rule.at("ports").each()
                            if _covers(port, closed_ports(pod))
                        )
        with stack.unreadable:
            selected = list(selecting(stack, NETWORK_POLICY, pod, "spec", "podSelector"))
            if not any_matching(selected, lambda policy: "Ingress" in sides_of(policy)):
                yield violation(
                    pod.resource.at("metadata", "name"), "has no network policy for ingress"
                )
            elif any(map(is_keyless, pod.servers)):
                yield from _unnamed_clients(stack, pod, selected)


def _unnamed_clients(stack: Stack, pod: PodTemplate, policies: list[Resource]) -> Violations:
    """The ways to a server without a key that name no pods. The default deny names none: another
    policy that opens the port later would open the server to all. Workers with accelerators that
    join another server have no Service.
    """
    rules = [rule for policy in policies for rule in policy.select("spec", "ingress", "*")]
    if not rules and (not pod.demand or _has_service(stack, pod)):
        yield violation(
            pod.resource.at("metadata", "name"),
            "takes no key, and no network policy names its clients",
        )
    for peer in (peer for rule in rules for peer in rule.at("from").each()):
        named = not peer.at("ipBlock").absent or is_narrow(peer.at("podSelector"))
        if not named and is_narrow(peer.at("namespaceSelector")):
            yield violation(peer, "lets a whole namespace reach a model without a key")
