"""Checks before an update whether a cluster has the operators and rights that a stack needs. It changes nothing.

An authorizer that lists no rules cannot be checked; the update itself reports missing rights then.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from operations.errors import OperationError

if TYPE_CHECKING:
    from operations.live import LiveCluster, ObjectKey

# The projects behind the API groups of our stacks, and how each is installed (their own instructions, read 2026-11-22).
_OPERATORS: Final = {
    "gateway.networking.k8s.io": (
        "Gateway API",
        "kubectl apply --server-side -f https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.6.1/standard-install.yaml",
    ),
    "gateway.envoyproxy.io": (
        "Envoy Gateway",
        "helm install eg oci://docker.io/envoyproxy/gateway-helm --version v1.9.0 -n envoy-gateway-system --create-namespace",
    ),
    "leaderworkerset.x-k8s.io": (
        "LeaderWorkerSet",
        "kubectl apply --server-side -f https://github.com/kubernetes-sigs/lws/releases/download/v0.10.0/manifests.yaml",
    ),
    "ray.io": ("KubeRay", "helm install kuberay-operator kuberay/kuberay-operator --version 1.7.0"),
    "kueue.x-k8s.io": (
        "Kueue",
        "kubectl apply --server-side -f https://github.com/kubernetes-sigs/kueue/releases/download/v0.19.2/manifests.yaml",
    ),
    "keda.sh": ("KEDA", "helm install keda kedacore/keda -n keda --create-namespace"),
    "monitoring.coreos.com": ("Prometheus Operator", "helm install kube-prometheus-stack prometheus-community/kube-prometheus-stack"),
}
_VERBS: Final = ("get", "create", "patch", "delete")


@dataclass(frozen=True)
class Rule:
    """Verbs that an account may use on resources (`deployments.apps`); `*` stands for any."""

    resources: frozenset[str]
    verbs: frozenset[str]

    def allows(self, verb: str, resource: str) -> bool:
        """True if this rule allows `verb` on `resource`, written as `plural.group`."""
        plural, _, group = resource.partition(".")
        names = {resource, "*.*", "*", f"*.{group}", f"{plural}.*"}
        return bool(self.resources & names) and bool(self.verbs & {verb, "*"})


def check_operators(objects: Iterable[ObjectKey], live: LiveCluster, *, stack: str, simulated: bool) -> None:
    """Raise OperationError that names each operator whose kinds `objects` need and the cluster does not serve."""
    missing: dict[str, set[str]] = defaultdict(set)
    for each in objects:
        if not live.serves(each.api_version, each.kind):
            missing[each.api_version].add(each.kind)
    if not missing:
        return
    lines = []
    for api_version, kinds in sorted(missing.items()):
        group = api_version.rpartition("/")[0]
        name, install = _OPERATORS.get(group, (f"the operator of {group or 'the core API'}", ""))
        lines.append(
            f"  {name}: the cluster does not serve {', '.join(sorted(kinds))} of {api_version}"
            + (f"; install it: {install}" if install else "")
        )
    remedy = (
        "Under the Pulumi CLI the simulated cluster runs no operator. Rehearse the stack with: inferplan up {stack} --engine rehearsal"
        if simulated
        else "Install what is missing, then run: inferplan up {stack}"
    )
    raise OperationError(
        "\n".join([f"{stack} needs operators that its cluster does not have. Nothing was changed.", *lines, remedy.format(stack=stack)]),
    )


def check_rights(objects: Iterable[ObjectKey], live: LiveCluster, context: str, *, stack: str) -> None:
    """Raise OperationError naming the rights on `objects` that the account of `context` lacks; do nothing if they cannot be listed."""
    needed: dict[str, set[str]] = defaultdict(set)
    for each in objects:
        resource = f"{live.plural(each.api_version, each.kind)}{'.' if each.group else ''}{each.group}"
        needed[each.namespace].add(resource)
    lacking: list[str] = []
    for namespace, resources in sorted(needed.items()):
        rules = _rules(context, namespace or "default")
        if rules is None:
            return
        for resource in sorted(resources):
            verbs = [verb for verb in _VERBS if not any(rule.allows(verb, resource) for rule in rules)]
            if verbs:
                lacking.append(f"  {', '.join(verbs)} {resource}" + (f" in namespace {namespace}" if namespace else ""))
    if lacking:
        raise OperationError(
            "\n".join(
                [
                    f"Your account in context {context} lacks rights that {stack} needs. Nothing was changed.",
                    *lacking,
                    f"Ask an administrator for them. To check one: kubectl --context {context} auth can-i create RESOURCE -n NAMESPACE",
                ]
            ),
        )


def _rules(context: str, namespace: str) -> list[Rule] | None:
    """The rules of the account in `namespace`; None if the cluster does not list all of them."""
    if shutil.which("kubectl") is None:
        return None
    command = ["kubectl", "--context", context, "--request-timeout", "15s", "auth", "can-i", "--list", "--no-headers", "-n", namespace]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode or "may be incomplete" in done.stderr:
        return None
    return list(parse_rules(done.stdout.splitlines()))


def parse_rules(lines: Collection[str]) -> Iterable[Rule]:
    """The rules in the table of `kubectl auth can-i --list`: resources, non-resource URLs, resource names, verbs."""
    for line in lines:
        cells = [cell.strip() for cell in line.replace("[", "\t[").split("\t")]
        if len(cells) != 4 or not cells[0] or cells[2] != "[]":
            # Rules for single names or for URLs do not apply to what a stack creates.
            continue
        yield Rule(frozenset({cells[0]}), frozenset(cells[3].strip("[]").split()))
