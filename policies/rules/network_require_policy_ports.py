"""Network policies name ports and peers."""

from __future__ import annotations

from policies.addresses import is_everybody
from policies.engine.fields import Field
from policies.engine.resource import Resource
from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.isolation import admits_everybody, block_of, opens
from policies.subjects.objects import objects
from policies.subjects.placement import labels_at

# The lowest port that a program which does not run as root is given.
LOWEST = 1024

CILIUM = "kubernetes:cilium.io:CiliumNetworkPolicy"
COMPONENT = "app.kubernetes.io/component"
EVERYBODY = ("world", "world-ipv4", "world-ipv6", "all")
SIDES = (("ingress", "from"), ("egress", "to"))


def _check(policy: Resource, _: Parameters) -> Findings:
    if policy.kind == CILIUM:
        for spec in (policy.at("spec"), *policy.at("specs").each()):
            yield from _of_cilium(spec)
        return
    for side, _peers in SIDES:
        for rule in policy.at("spec", side).each():
            if not any(True for _ in rule.at("ports").each()):
                yield found(rule.at("ports"), "is not set, so every port is open")
            for port in rule.at("ports").each():
                ranged = port.at("port").absent or not port.at("endPort").absent
                if ranged and not (_is_high(port) and _is_among_its_own(policy, rule.at("from" if side == "ingress" else "to"))):
                    yield found(port, "opens more than one port")
    yield from _openings(policy.at("spec"))


def _openings(spec: Field) -> Findings:
    """Rules that allow any source, alone or together. The gateway may allow any source."""
    if spec.at("podSelector", "matchLabels", COMPONENT).text() == "gateway":
        return
    rules = list(spec.at("ingress").each())
    for rule in rules:
        peers = list(rule.at("from").each())
        if not peers or opens(each for each in peers if not each.at("namespaceSelector").absent or not each.at("ipBlock").absent):
            yield found(rule.at("from"), "allows any source")
    if len(rules) > 1 and admits_everybody(
        peer.at("ipBlock") for rule in rules for peer in rule.at("from").each() if not peer.at("ipBlock").absent
    ):
        yield found(spec.at("ingress"), "allows any address, through several rules together")


def _of_cilium(spec: Field) -> Findings:
    for side, peers_at in SIDES:
        for rule in spec.at(side).each():
            given = [name for name, _field in rule.entries() if name.startswith(peers_at) and not name.endswith("Ports")]
            if not given:
                yield found(rule, "names no peer, so it allows any source")
            if not {*EVERYBODY}.isdisjoint(rule.at(f"{peers_at}Entities").texts()):
                yield found(rule.at(f"{peers_at}Entities"), "allows any source")
            named = [block_of(each) for each in rule.at(f"{peers_at}CIDR").each()]
            sets = rule.at(f"{peers_at}CIDRSet")
            if is_everybody(named) or admits_everybody(sets.each()):
                yield found(rule, "covers all addresses")


def _is_high(port: Field) -> bool:
    return (port.at("port").number() or 0) >= LOWEST


def _is_among_its_own(policy: Resource, peers: Field) -> bool:
    """True if the only peers are the very pods that the policy is about: one engine's, which pick their ports when they start."""
    own = labels_at(policy.at("spec", "podSelector", "matchLabels"))
    listed = list(peers.each())
    if not own or len(listed) != 1 or set(listed[0].value) != {"podSelector"}:
        return False
    selector = listed[0].at("podSelector")
    return set(selector.value) == {"matchLabels"} and labels_at(selector.at("matchLabels")) == own


RULE = Rule(
    id="network-require-policy-ports",
    title="Network policies name ports and peers",
    severity=Severity.MEDIUM,
    refs=(
        "NSA-CISA: network separation",
        "inference",
    ),
    why=(
        "A rule without ports also opens the metrics, debug and administration ports, and a rule without peers opens them to "
        "every pod. Pods that one policy selects may use a range of ports above 1023 among themselves, because torch, NCCL and "
        "Ray choose ports at start"
    ),
    remedy=(
        "list each port under the rule's ports, for example {port: 8000, protocol: TCP}, and name the pods or networks that may connect"
    ),
    subject=objects("kubernetes:networking.k8s.io:NetworkPolicy", CILIUM),
    check=_check,
)
