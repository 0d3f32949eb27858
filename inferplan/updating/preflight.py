"""Checks before an update whether a cluster has the operators and rights that a stack needs. It
changes nothing.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from inferplan.errors import OperationError, one_line
from inferplan.tables import table
from inferplan.workspace.kubectl import Kubectl
from inferplan.workspace.live import LiveCluster, ObjectKey

_VERBS: Final = ("get", "create", "patch", "delete")


@dataclass(frozen=True)
class Rule:
    """Verbs that an account may use on resources (`deployments.apps`); `*` stands for any."""

    resources: frozenset[str]
    verbs: frozenset[str]

    def allows(self, verb: str, resource: str) -> bool:
        plural, _, group = resource.partition(".")
        names = {resource, "*.*", "*", f"*.{group}", f"{plural}.*"}
        return bool(self.resources & names) and bool(self.verbs & {verb, "*"})


@dataclass(frozen=True, kw_only=True)
class MissingOperator:
    """An operator whose kinds a stack needs and the cluster does not serve; `install` is a command,
    "" if none is known.
    """

    name: str
    api_version: str
    kinds: tuple[str, ...]
    install: str

    def __str__(self) -> str:
        return (
            f"{self.name}: the cluster does not serve {', '.join(self.kinds)} of {self.api_version}"
        )


@dataclass(frozen=True, kw_only=True)
class LackingRight:
    """Verbs that an account lacks on a resource (`deployments.apps`); `namespace` is "" for
    cluster-scoped kinds.
    """

    namespace: str
    resource: str
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.verbs)} {self.resource}" + (
            f" in namespace {self.namespace}" if self.namespace else ""
        )


def missing_operators(objects: Iterable[ObjectKey], live: LiveCluster) -> list[MissingOperator]:
    missing: dict[str, set[str]] = defaultdict(set)
    for each in objects:
        if not live.serves(each.api_version, each.kind):
            missing[each.api_version].add(each.kind)
    operators = []
    for api_version, kinds in sorted(missing.items()):
        group = api_version.rpartition("/")[0]
        operator = table("workspace/remedies.toml")["operators"].get(
            group, {"name": f"the operator of {group or 'the core API'}", "install": ""}
        )
        operators.append(
            MissingOperator(api_version=api_version, kinds=tuple(sorted(kinds)), **operator)
        )
    return operators


def check_operators(
    objects: Iterable[ObjectKey], live: LiveCluster, *, stack: str, simulated: bool
) -> None:
    """Raise OperationError that names each operator whose kinds `objects` need and the cluster does
    not serve.
    """
    missing = missing_operators(objects, live)
    if not missing:
        return
    lines = [
        f"  {each}" + (f"; install it: {each.install}" if each.install else "") for each in missing
    ]
    remedy = (
        "Under the Pulumi CLI the simulated cluster runs no operator. Rehearse the stack with:"
        " inferplan up {stack} --engine rehearsal"
        if simulated
        else "Install what is missing, then run: inferplan up {stack}"
    )
    raise OperationError(
        "\n".join(
            [
                f"{stack} needs operators that its cluster does not have. Nothing was changed.",
                *lines,
                remedy.format(stack=stack),
            ]
        )
    )


def lacking_rights(
    objects: Iterable[ObjectKey], live: LiveCluster, context: str
) -> list[LackingRight]:
    needed: dict[str, set[str]] = defaultdict(set)
    for each in objects:
        resource = (
            f"{live.plural(each.api_version, each.kind)}{'.' if each.group else ''}{each.group}"
        )
        needed[each.namespace].add(resource)
    unproven = []
    for namespace, resources in sorted(needed.items()):
        rules, complete = _rules(context, namespace or "default")
        for resource in sorted(resources):
            verbs = tuple(
                verb for verb in _VERBS if not any(rule.allows(verb, resource) for rule in rules)
            )
            if verbs:
                unproven.append(
                    (LackingRight(namespace=namespace, resource=resource, verbs=verbs), complete)
                )
    lacking = [right for right, complete in unproven if complete]
    return lacking + _denied(context, [right for right, complete in unproven if not complete])


def check_rights(
    objects: Iterable[ObjectKey], live: LiveCluster, context: str, *, stack: str
) -> None:
    """Raise OperationError naming the rights on `objects` that the account of `context` lacks; do
    nothing if they cannot be asked for.
    """
    try:
        lacking = lacking_rights(objects, live, context)
    except OperationError:
        return
    if lacking:
        problem = (
            f"Your account in context {context} lacks rights that {stack} needs. Nothing was"
            " changed."
        )
        check = f"kubectl --context {context} auth can-i create RESOURCE -n NAMESPACE"
        lines = [
            problem,
            *(f"  {each}" for each in lacking),
            f"Ask an administrator for them. To check one: {check}",
        ]
        raise OperationError("\n".join(lines))


def _rules(context: str, namespace: str) -> tuple[list[Rule], bool]:
    """The rules of the account in `namespace`, and whether the cluster lists all of them."""
    done = Kubectl(context).run("auth", "can-i", "--list", "--no-headers", "-n", namespace)
    return (
        list(parse_rules(done.stdout.splitlines())),
        not done.returncode and "may be incomplete" not in done.stderr,
    )


def _denied(context: str, rights: Sequence[LackingRight]) -> list[LackingRight]:
    """The rights that the cluster denies in a SelfSubjectAccessReview of each verb."""
    if not rights:
        return []
    questions = [(right, verb) for right in rights for verb in right.verbs]
    reviews = [_review(right, verb) for right, verb in questions]
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})
    done = Kubectl(context).run(
        "create",
        "--validate=false",
        "-o",
        "jsonpath={.status.allowed}{'\\n'}",
        "-f",
        "-",
        text=document,
    )
    answers = done.stdout.split()
    if done.returncode or len(answers) != len(questions):
        raise OperationError(
            f"The cluster of context {context!r} does not review rights: {one_line(done.stderr)}"
        )
    denied = {
        question for question, answer in zip(questions, answers, strict=True) if answer != "true"
    }
    narrowed = (
        replace(right, verbs=tuple(verb for verb in right.verbs if (right, verb) in denied))
        for right in rights
    )
    return [right for right in narrowed if right.verbs]


def _review(right: LackingRight, verb: str) -> dict[str, Any]:
    plural, _, group = right.resource.partition(".")
    attributes = {"namespace": right.namespace, "verb": verb, "resource": plural, "group": group}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def parse_rules(lines: Collection[str]) -> Iterable[Rule]:
    """The rules in the table of `kubectl auth can-i --list`: resources, non-resource URLs, resource
    names, verbs.
    """
    for line in lines:
        cells = [cell.strip() for cell in line.replace("[", "\t[").split("\t")]
        if len(cells) != 4 or not cells[0] or cells[2] != "[]":
            # Rules for single names or for URLs do not apply to what a stack creates.
            continue
        yield Rule(frozenset({cells[0]}), frozenset(cells[3].strip("[]").split()))
