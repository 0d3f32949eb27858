"""Pods mount no token for the Kubernetes API."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.engine.resource import Resource, Subject
from policies.engine.rule import Edit, Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

ROLE = "eks.amazonaws.com/role-arn"
ACCOUNT = "kubernetes:core:ServiceAccount"
# Audiences of the API server itself; a token for AWS or for another service opens nothing in the cluster.
OF_THE_API = ("", "api", "kubernetes", "https://kubernetes.default.svc", "https://kubernetes.default.svc.cluster.local")
LEGACY = re.compile(r"-token-[a-z0-9]{5}\Z")


def _check(part: PodTemplate | Resource, _: Parameters) -> Findings:
    automount = part.at("automountServiceAccountToken")
    if isinstance(part, Resource):
        if automount.flag() is not False:
            yield found(automount, "is not false")
        if part.at("metadata", "name").text() == "default" and part.at("metadata", "annotations").at(ROLE).text():
            yield found(part.at("metadata", "annotations").at(ROLE), "gives an AWS role to every pod without its own service account")
        return
    if not part.partial and automount.flag() is not False:
        yield found(automount, "is not false")
    for volume in part.at("volumes").each():
        for source in volume.at("projected", "sources").each():
            token = source.at("serviceAccountToken")
            if not token.absent and token.at("audience").text().rstrip("/") in OF_THE_API:
                yield found(token, "mounts a token for the Kubernetes API")
        if LEGACY.search(volume.at("secret", "secretName").text()):
            yield found(volume.at("secret"), "mounts a token for the Kubernetes API")


def _remediate(part: PodTemplate | Resource) -> Iterator[Edit]:
    yield Edit(part.at("automountServiceAccountToken").keys, value=False)


def _parts(resource: Resource) -> Iterator[PodTemplate | Resource]:
    yield from [resource] if resource.kind == ACCOUNT else resource.parts(PODS)


RULE = Rule(
    id="pod-disallow-token-mount",
    title="Pods mount no token for the Kubernetes API",
    severity=Severity.MEDIUM,
    refs=(
        "CIS EKS 4.1.6",
        "NSA-CISA: service account tokens",
    ),
    why="Inference servers never call the Kubernetes API, but an attacker with a stolen token would",
    remedy=(
        "set automountServiceAccountToken: false on the pod and its ServiceAccount, and give projected tokens the audience of "
        "the service that needs them"
    ),
    subject=Subject("tokens", PODS.kinds | {ACCOUNT}, _parts, PODS.excused, PODS.also),
    check=_check,
    remediate=_remediate,
)
