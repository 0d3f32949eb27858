"""Finds the Secrets that a stack reads and does not create, with the command that creates each."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from inferplan.pulumi_engine.recording import Registration
from inferplan.workspace.declared import registered_objects
from inferplan.workspace.live import LiveCluster, ObjectKey

Kind = Literal["generic", "docker-registry", "tls"]
_ISSUER = ("cert-manager.io/cluster-issuer", "cert-manager.io/issuer")


@dataclass(frozen=True, kw_only=True)
class RequiredSecret:
    """A Secret that the user creates; `keys` are those the stack reads by name, `readers` the
    objects that read it.
    """

    namespace: str
    name: str
    kind: Kind
    keys: tuple[str, ...]
    readers: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that creates the Secret from files, so that no value gets into the shell's
        history.
        """
        files = {
            "docker-registry": " --from-file=.dockerconfigjson=$HOME/.docker/config.json",
            "tls": " --cert=tls.crt --key=tls.key",
            "generic": "".join(f" --from-file={key}=FILE" for key in self.keys or ("KEY",)),
        }
        return (
            f"kubectl -n {self.namespace} create secret {self.kind} {self.name}{files[self.kind]}"
        )

    def __str__(self) -> str:
        first, *others = self.readers
        readers = f"{first} and {len(others)} more read" if others else f"{first} reads"
        # The stack creates the namespace, so before the first update there may be none.
        return (
            f"{readers} Secret {self.name}, which this stack does not create. Create it once the"
            f" namespace exists: {self.command}"
        )


def required_secrets(recording: Iterable[Registration], namespace: str) -> list[RequiredSecret]:
    """The Secrets that the objects of `recording` read and that none of them is, by namespace and
    name. `namespace` is the stack's.
    """
    objects = [(key, each.inputs) for each, key in registered_objects(recording, namespace)]
    own = {(key.namespace, key.name) for key, _ in objects if key.kind == "Secret"}
    uses: dict[tuple[str, str], list[tuple[Kind, str, str]]] = defaultdict(list)
    for key, inputs in objects:
        if key.kind == "Ingress" and any(
            name in (inputs["metadata"].get("annotations") or {}) for name in _ISSUER
        ):
            continue
        for name, kind, data_key in _references(inputs):
            if isinstance(name, str) and (key.namespace, name) not in own:
                uses[key.namespace, name].append((kind, data_key, f"{key.kind} {key.name}"))
    return [
        RequiredSecret(
            namespace=inside,
            name=name,
            kind=each[0][0],
            keys=tuple(sorted({data_key for _, data_key, _ in each if data_key})),
            readers=tuple(sorted({reader for _, _, reader in each})),
        )
        for (inside, name), each in sorted(uses.items())
    ]


def missing_secrets(required: Iterable[RequiredSecret], live: LiveCluster) -> list[RequiredSecret]:
    return [
        each
        for each in required
        if live.find(ObjectKey("v1", "Secret", each.namespace, each.name)) is None
    ]


def _references(node: Any, field: str = "") -> Iterator[tuple[Any, Kind, str]]:
    """Each mandatory reference to a Secret below `node`: its name, its kind, and the key that is
    read, "" for all keys.
    """
    if isinstance(node, list):
        for each in node:
            if field == "imagePullSecrets":
                yield each["name"], "docker-registry", ""
            elif field == "secretTargetRef":
                yield each["name"], "generic", each["key"]
            else:
                yield from _references(each, field)
        return
    if not isinstance(node, dict) or node.get("optional"):
        return
    if field in ("secretKeyRef", "secretRef"):
        yield node["name"], "generic", node.get("key", "")
    elif "secretName" in node and field in ("secret", "tls"):
        keys = [each["key"] for each in node.get("items", ())] or [""]
        for key in keys:
            yield node["secretName"], "tls" if field == "tls" else "generic", key
    for key, value in node.items():
        yield from _references(value, key)
