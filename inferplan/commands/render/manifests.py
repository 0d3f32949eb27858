"""The objects of a stack as plain manifests with a kustomization, for Argo CD and Flux.

Every object is in its own file, in the order of its dependencies. A Secret of the stack becomes a
reference: an ExternalSecret, or a name that must exist. No value of a secret is in the result.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from inferplan.errors import OperationError
from inferplan.kube.paths import leaves, text_of
from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.pulumi_engine.values import UNKNOWN, Secret, secret_texts
from inferplan.workspace.declared import registered_objects

KUSTOMIZATION = "kustomization.yaml"
MARK = (
    "# Written by `inferplan render`. Do not edit: the next run replaces every file that is listed"
    " here."
)
# Argo CD applies a wave when every object of the wave before is healthy. Flux and kustomize apply
# in the order of the kustomization.
WAVE = "argocd.argoproj.io/sync-wave"
_SHORTEST_SECRET = 8


@dataclass(frozen=True, kw_only=True)
class RenderedSecret:
    """A Secret that the manifests read and do not hold: its namespace, name and the keys of its
    data.
    """

    namespace: str
    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """The files by name, the Secrets, and the types of resources that are not Kubernetes objects."""

    files: Mapping[str, bytes]
    secrets: tuple[RenderedSecret, ...]
    others: tuple[str, ...]


def manifests_of(
    recording: Recording, namespace: str, *, secret_store: str | None = None
) -> Manifests:
    """The manifests of `recording`. With `secret_store`, Secrets are ExternalSecrets of that
    ClusterSecretStore.

    Raises OperationError for a value that only an update knows, and for a secret outside of a
    Secret.
    """
    pairs = list(registered_objects(recording, namespace))
    problems = [problem for each, _ in pairs for problem in _problems(each)]
    if problems:
        raise OperationError(
            f"{recording.stack} cannot be rendered: {'; '.join(problems[:10])}. Deploy this stack"
            " with Pulumi"
        )
    waves = _waves(recording)
    secrets, documents = [], {}
    for each, key in pairs:
        document = each.inputs
        if key.kind == "Secret":
            secrets.append(RenderedSecret(namespace=key.namespace, name=key.name, keys=_keys(each)))
            if secret_store is None:
                continue
            document = _external(each, recording, key.namespace, key.name, secret_store)
        name = (
            "-".join(part for part in (document["kind"].lower(), key.namespace, key.name) if part)
            .replace("/", "-")
            .replace(":", "-")
        )
        documents[f"{name}.yaml"] = _with_wave(document, waves[each.urn])
    files = {name: _yaml(document) for name, document in documents.items()}
    lines = "".join(
        f"# - Secret {each.namespace}/{each.name}: {', '.join(each.keys)}\n" for each in secrets
    )
    needs = (
        f"# These Secrets must exist, or come from the ExternalSecrets:\n{lines}" if secrets else ""
    )
    kustomization = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    kustomization |= {"sortOptions": {"order": "fifo"}, "resources": list(files)}
    files[KUSTOMIZATION] = f"{MARK}\n{needs}".encode() + _yaml(kustomization)
    _check_no_secret(files, recording)
    others = {
        each.type
        for each in recording
        if each.custom and not each.read and not each.type.startswith(("kubernetes:", "pulumi:"))
    }
    return Manifests(files=files, secrets=tuple(secrets), others=tuple(sorted(others)))


def _problems(each: Registration) -> Iterator[str]:
    kind = f"{each.inputs['kind']} {each.name}"
    for path, value in leaves(each.inputs):
        if value is UNKNOWN:
            yield f"{kind} has a value in {text_of(path)} that only an update knows"
        elif isinstance(value, Secret) and not (
            each.inputs["kind"] == "Secret" and path[0] in ("data", "stringData")
        ):
            yield f"{kind} has a secret in {text_of(path)}, which no manifest may hold"


def _waves(recording: Recording) -> dict[str, int]:
    """The wave of each resource by URN: 0, or one more than that of the objects that it depends on.
    Components pass theirs on.
    """
    waves: dict[str, int] = {}
    for each in recording:
        before = [
            waves[urn] for urn in (each.parent, each.provider, *each.dependencies) if urn in waves
        ]
        own = 1 if each.custom and each.type.startswith("kubernetes:") else 0
        waves[each.urn] = max(before, default=-1 if own else 0) + own
    return waves


def _keys(each: Registration) -> tuple[str, ...]:
    data = {}
    for field in ("data", "stringData"):
        value = each.inputs.get(field)
        data |= (value.value if isinstance(value, Secret) else value) or {}
    return tuple(sorted(data))


def _external(
    each: Registration, recording: Recording, namespace: str, name: str, store: str
) -> dict[str, Any]:
    remote = f"{recording.project}/{recording.stack}/{namespace}/{name}"
    metadata = each.inputs.get("metadata") or {}
    template = {
        "metadata": {
            field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)
        }
    }
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": store},
            "target": {
                "name": name,
                "template": {**template, "type": each.inputs.get("type", "Opaque")},
            },
            "data": [
                {"secretKey": key, "remoteRef": {"key": remote, "property": key}}
                for key in _keys(each)
            ],
        },
    }


def _with_wave(document: Mapping[str, Any], wave: int) -> dict[str, Any]:
    metadata = document.get("metadata") or {}
    return {
        **document,
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), WAVE: str(wave)},
        },
    }


def _yaml(document: Mapping[str, Any]) -> bytes:
    return yaml.safe_dump(document, sort_keys=True, allow_unicode=True, width=160).encode()


def _check_no_secret(files: Mapping[str, bytes], recording: Recording) -> None:
    """Raise OperationError if the value of a secret is in a file, as it is or in base64."""
    texts = {text for each in recording for text in secret_texts(each.inputs)}
    for text in sorted(texts):
        if len(text) >= _SHORTEST_SECRET:
            for form in (text.encode(), b64encode(text.encode())):
                if name := next((name for name, content in files.items() if form in content), None):
                    raise OperationError(
                        f"{name} would hold the value of a secret, so nothing was written. This is"
                        " a defect of inferplan"
                    )
