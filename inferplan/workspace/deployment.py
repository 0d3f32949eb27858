"""Repairs the state of a stack in Pulumi's engine after an interrupted update. Pure: JSON in, JSON
out.

An interrupted update leaves three kinds of errors (Pulumi 3.260, pkg/backend/journal.go, read
2026-11): pending operations, of which `creating` ones survive every later update; resources marked
`delete` although the same object is declared again; and objects that were created and never
recorded. A repair deletes no object: the repaired state contains what exists, and the next update
does the rest.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.kube.names import MANAGED_BY_LABEL
from inferplan.kube.objects import label
from inferplan.kube.paths import mapped
from inferplan.pulumi_engine.recording import STACK_TYPE, name_of, qualified_type
from inferplan.workspace.live import ObjectKey

Live = Callable[[ObjectKey], Mapping[str, Any] | None]
"""The live object of a key, None if it does not exist."""
_PROVIDER = "pulumi:providers:kubernetes"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """An object that the stack declares. `inputs` contain no secret; `parents` are the URNs of its
    components, the outermost first.
    """

    urn: str
    type: str
    key: ObjectKey
    parents: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """Paths that updates leave as they are, because a scaler owns them."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A repaired deployment, and a sentence for each change. `foreign` names declared objects that
    inferplan did not create.
    """

    deployment: dict[str, Any]
    pending: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.pending or self.adopted)


def repair(deployment: Mapping[str, Any], declared: Iterable[Declared], live: Live) -> Repair:
    """`deployment` (of `pulumi stack export`) without pending operations, with every declared or
    half-created object that exists.
    """
    work = _Work(
        deployment=copy.deepcopy(dict(deployment)),
        live=live,
        declared={each.urn: each for each in declared},
    )
    work.settle_operations()
    work.spare_declared()
    work.rename_declared()
    work.adopt_declared()
    return Repair(
        deployment=work.deployment,
        pending=tuple(work.pending),
        adopted=tuple(work.adopted),
        foreign=tuple(work.foreign),
    )


def key_of(resource: Mapping[str, Any]) -> ObjectKey | None:
    """The object that a resource of the state stands for; None if it is not a Kubernetes object."""
    inputs = resource.get("inputs") or {}
    if not str(resource.get("type", "")).startswith("kubernetes:") or not isinstance(
        inputs.get("kind"), str
    ):
        return None
    namespace, _, name = str(resource.get("id") or "").rpartition("/")
    metadata = inputs.get("metadata") or {}
    name, namespace = name or metadata.get("name", ""), namespace or metadata.get("namespace", "")
    return ObjectKey(inputs["apiVersion"], inputs["kind"], namespace, name) if name else None


@dataclass(kw_only=True)
class _Work:
    deployment: dict[str, Any]
    live: Live
    declared: dict[str, Declared]
    pending: list[str] = field(default_factory=list)
    adopted: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def resources(self) -> list[dict[str, Any]]:
        return self.deployment.setdefault("resources", [])

    def settle_operations(self) -> None:
        """Turn each pending create into a resource where the object exists; drop every other
        pending operation.
        """
        for operation in self.deployment.pop("pending_operations", None) or []:
            resource = operation["resource"]
            verb, key = operation["type"], key_of(resource)
            about = key or name_of(resource["urn"])
            live = self.live(key) if verb == "creating" and key is not None else None
            if verb != "creating" or key is None or key.identity in self._identities():
                self.pending.append(
                    f"{about}: interrupted while {verb}; the refresh reads its present state"
                )
            elif live is None:
                self.pending.append(
                    f"{about}: interrupted before it was created; it is created again if the stack"
                    " still declares it"
                )
            else:
                # A replacement has the URN of what it replaces: it waits to be deleted unless the
                # file declares it.
                self._insert(
                    {**resource, "id": _id(key)}, live, delete=resource["urn"] in self._urns()
                )
                self.pending.append(f"{about}: created, but not recorded; it is added to the state")

    def spare_declared(self) -> None:
        """Cancel the pending deletion of an object that the stack file, or another resource, still
        has.
        """
        for resource in [each for each in self.resources if each.get("delete")]:
            key, declared = key_of(resource), self.declared.get(resource["urn"])
            if key is None or not self._is_wanted(key):
                continue
            if (
                declared is not None
                and declared.key.identity == key.identity
                and self.live(key) is not None
            ):
                # The file was reverted: the replacement must go, and its predecessor stays.
                for each in self.resources:
                    if each["urn"] == resource["urn"]:
                        each["delete"] = True
                del resource["delete"]
            else:
                self.resources.remove(resource)
            self.pending.append(
                f"{key}: waits to be deleted, but is still declared; the deletion is cancelled"
            )

    def _is_wanted(self, key: ObjectKey) -> bool:
        kept = {
            other.identity
            for each in self.resources
            if not each.get("delete") and (other := key_of(each)) is not None
        }
        return key.identity in kept | {each.key.identity for each in self.declared.values()}

    def rename_declared(self) -> None:
        """Give a resource the URN by which the program declares its object now, for states of
        earlier versions of inferplan.
        """
        holders = {
            key.identity: each
            for each in self.resources
            if not each.get("delete") and (key := key_of(each)) is not None
        }
        urns = self._urns()
        renamed: dict[str, str] = {}
        for each in self.declared.values():
            holder = holders.get(each.key.identity)
            if holder is None or each.urn in urns or holder["urn"] in self.declared:
                continue
            renamed[holder["urn"]] = each.urn
            parent = self._parents(each.parents, before=holder) or self._root()
            holder["parent"] = parent or holder.get("parent")
            self.adopted.append(
                f"{each.key}: is in the state under an earlier name; it is renamed there"
            )
        if renamed:
            # A URN is always a whole string.
            self.deployment["resources"] = mapped(
                self.resources,
                lambda each: renamed.get(each, each) if isinstance(each, str) else each,
            )

    def _root(self) -> str:
        return next((each["urn"] for each in self.resources if each["type"] == STACK_TYPE), "")

    def _parents(self, parents: tuple[str, ...], *, before: dict[str, Any] | None = None) -> str:
        """The innermost of `parents`, all of them in the state, the missing ones inserted `before`
        a resource or at the end.
        """
        parent = self._root()
        for urn in parents:
            place = len(self.resources) if before is None else self.resources.index(before)
            position = next(
                (index for index, each in enumerate(self.resources) if each["urn"] == urn), None
            )
            if position is None:
                self.resources.insert(
                    place,
                    {
                        "urn": urn,
                        "custom": False,
                        "type": qualified_type(urn).rpartition("$")[2],
                        "parent": parent,
                    },
                )
            elif position > place:
                self.resources.insert(place, self.resources.pop(position))
            parent = urn
        return parent

    def adopt_declared(self) -> None:
        """Add declared objects that exist and are missing from the state."""
        if self._provider() is None:
            return
        identities, urns = self._identities(), self._urns()
        for each in self.declared.values():
            if each.urn in urns or each.key.identity in identities:
                continue
            live = self.live(each.key)
            if live is None:
                continue
            # A namespace that an interrupted update created is a pending operation, or objects in
            # it are in the state. Any other one belongs to another stack, or to no stack since
            # `pulumi destroy`.
            unused = each.key.kind == "Namespace" and all(
                place != each.key.name for _, _, place, _ in identities
            )
            if label(live, MANAGED_BY_LABEL) != "inferplan" or unused:
                self.foreign.append(str(each.key))
                continue
            resource = {
                "urn": each.urn,
                "custom": True,
                "type": each.type,
                "id": _id(each.key),
                "inputs": dict(each.inputs),
            }
            if self._insert(resource, live):
                self.adopted.append(
                    f"{each.key}: exists, but is not in the state; it is added to the state"
                )

    def _identities(self) -> set[tuple[str, str, str, str]]:
        return {key.identity for each in self.resources if (key := key_of(each)) is not None}

    def _urns(self) -> set[str]:
        return {each["urn"] for each in self.resources if not each.get("delete")}

    def _provider(self) -> dict[str, Any] | None:
        return next(
            (
                each
                for each in self.resources
                if each["type"] == _PROVIDER and not each.get("delete")
            ),
            None,
        )

    def _insert(
        self, resource: dict[str, Any], live: Mapping[str, Any], *, delete: bool = False
    ) -> bool:
        """Put `resource` behind its parents and its provider; False if the state has no provider
        for it.
        """
        provider = self._provider()
        if provider is None or not self._root():
            return False
        declared = self.declared.get(resource["urn"])
        parent = (
            self._parents(declared.parents) if declared is not None else str(resource.get("parent"))
        )
        if parent not in self._urns():
            parent = self._root()
        fresh = {
            **resource,
            "parent": parent,
            "provider": f"{provider['urn']}::{provider['id']}",
            "outputs": _outputs(resource, live),
        }
        if delete:
            fresh["delete"] = True
        # Its dependencies may be missing from the state too; the next update declares them again.
        for volatile in ("dependencies", "propertyDependencies", "deletedWith", "initErrors"):
            fresh.pop(volatile, None)
        self.resources.append(fresh)
        return True


def _id(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def _outputs(resource: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by which the provider finds, updates and deletes an object before it has read it."""
    inputs = resource.get("inputs") or {}
    metadata = {
        name: live["metadata"][name]
        for name in ("name", "namespace", "uid")
        if name in live["metadata"]
    }
    identity = {
        "apiVersion": inputs.get("apiVersion"),
        "kind": inputs.get("kind"),
        "metadata": metadata,
    }
    outputs = {**identity, "__inputs": inputs, "__initialApiVersion": inputs.get("apiVersion")}
    managers = (each["manager"] for each in live["metadata"].get("managedFields") or ())
    # The next update owns the same fields as the provider's earlier ones.
    if manager := next((each for each in managers if each.startswith("pulumi-kubernetes-")), ""):
        outputs["__fieldManager"] = manager
    return outputs
