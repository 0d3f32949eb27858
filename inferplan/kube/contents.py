"""The objects that go along when a namespace or a CustomResourceDefinition is deleted: the objects
in it that a stack did not create.

A deletion of either takes everything in it along, and the reclaim policy Delete takes the data of a
claim's volume. Sources: Kubernetes documentation, Namespaces, Garbage Collection and Persistent
Volumes (read 2026-11).
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

Get = Callable[[str], Any]
"""Reads a path of the API server. It raises any exception if the server does not answer, or denies
the request.
"""
Identity = tuple[str, str, str, str]
"""API group, kind, namespace and name of an object."""
CONTAINERS: Final = ("Namespace", "CustomResourceDefinition")
"""Kinds whose deletion deletes other objects too."""
CLAIM: Final = "PersistentVolumeClaim"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PAGE: Final = 500
_WORKERS: Final = 8
_MOST_NAMED: Final = 40
# Objects that Kubernetes and its distributions put into every namespace.
_DEFAULTS: Final = {
    ("ServiceAccount", "default"),
    *(
        ("ConfigMap", name)
        for name in ("kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert")
    ),
}
# By kind, what controllers write on objects that they make without an owner: the end of a label or
# annotation, and the kind that it names.
_MADE_FOR: Final = {
    "Secret": {
        "cert-manager.io/certificate-name": "Certificate",
        "kubernetes.io/service-account.name": "ServiceAccount",
    },
    "TargetGroupBinding": {"service": "Service", "ingress": "Ingress"},
}


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The objects of others in a container, claims first, and the kinds that could not be listed."""

    container: str
    foreign: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.foreign or self.unlisted)

    def __str__(self) -> str:
        lines = [
            *self.foreign[:_MOST_NAMED],
            *([f"and {more} more"] if (more := len(self.foreign) - _MOST_NAMED) > 0 else []),
        ]
        denied = [
            f"kinds that could not be listed, so their objects are unknown: {', '.join(self.unlisted)}"
        ] * bool(self.unlisted)
        return "\n".join(
            [
                f"{self.container} has objects that the stack did not create:",
                *(f"  {each}" for each in (*lines, *denied)),
            ]
        )


class _Kind(NamedTuple):
    group: str
    name: str
    path: str

    def __str__(self) -> str:
        return ".".join(filter(None, (self.path.rpartition("/")[2], self.group)))


@dataclass(kw_only=True)
class _Listing:
    """Every object of some kinds by uid, and what could not be listed."""

    get: Get
    items: dict[str, tuple[_Kind, Mapping[str, Any]]] = field(default_factory=dict)
    kinds: set[tuple[str, str]] = field(default_factory=set)
    unlisted: list[str] = field(default_factory=list)

    def ask(self, path: str, about: str) -> Mapping[str, Any]:
        """The answer to GET `path`; {} if there is none, and then what it is `about` is unlisted."""
        try:
            return self.get(path)
        except Exception:  # noqa: BLE001 - whatever the reason, the objects there are unknown
            self.unlisted.append(about)
            return {}

    def add(self, kind: _Kind) -> None:
        query: dict[str, Any] = {"limit": _PAGE}
        while query:
            page = self.ask(f"{kind.path}?{urlencode(query)}", str(kind))
            self.items |= {
                each["metadata"]["uid"]: (kind, each)
                for each in page.get("items") or ()
                if each["metadata"]["uid"] not in self.items
            }
            following = (page.get("metadata") or {}).get("continue")
            query = {"limit": _PAGE, "continue": following} if following else {}
        self.kinds.add((kind.group, kind.name))


def foreign_contents(
    get: Get, container: Identity, own: Collection[Identity], *, after: bool = False
) -> Contents:
    """Return what is in `container` and not in `own`. `after` the deletion of `own`, what is left
    of `own` counts too.
    """
    _, kind, _, name = container
    listing = _Listing(get=get)
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="list") as pool:
        list(
            pool.map(
                listing.add,
                _namespaced_kinds(listing, name)
                if kind == "Namespace"
                else _defined_kinds(listing, name),
            )
        )
    names = {
        (owned_kind, owned_name)
        for _, owned_kind, place, owned_name in own
        if kind != "Namespace" or place == name
    }
    judge = _Judge(listing, set() if after else {*own}, names)
    foreign = {uid: each for uid, each in listing.items.items() if not judge.is_ours(uid)}
    # All claims, and the other objects that have no owner in the list; every object if they own
    # each other.
    roots = [
        each
        for each in foreign.values()
        if each[0].name == CLAIM or not _owners(each[1]) & foreign.keys()
    ] or foreign.values()
    texts = sorted({(each[0].name != CLAIM, _text(get, *each)) for each in roots})
    return Contents(
        container=f"{kind} {name}",
        foreign=tuple(text for _, text in texts),
        unlisted=tuple(sorted({*listing.unlisted})),
    )


def _namespaced_kinds(listing: _Listing, namespace: str) -> list[_Kind]:
    """Every kind that the server serves in a namespace and that can be listed and deleted, in the
    preferred version of its group.
    """
    bases = [("", "/api/v1")]
    for each in listing.ask("/apis", "every kind outside of the core API").get("groups") or ():
        preferred = (each.get("preferredVersion") or {}).get("groupVersion")
        versions = sorted(
            (version["groupVersion"] for version in each["versions"]),
            key=lambda version: version != preferred,
        )
        bases += [(each["name"], f"/apis/{version}") for version in versions]
    kinds: dict[tuple[str, str], _Kind] = {}
    for group, base in bases:
        for each in (
            listing.ask(base, f"the kinds of {base.removeprefix('/apis/')}").get("resources") or ()
        ):
            if (
                each["namespaced"]
                and "/" not in each["name"]
                and {"list", "delete"} <= {*each["verbs"]}
            ):
                kinds.setdefault(
                    (group, each["kind"]),
                    _Kind(group, each["kind"], f"{base}/namespaces/{namespace}/{each['name']}"),
                )
    return list(kinds.values())


def _defined_kinds(listing: _Listing, name: str) -> list[_Kind]:
    """The kind that the CustomResourceDefinition `name` defines, in all namespaces; none if it does
    not exist.
    """
    query = urlencode({"fieldSelector": f"metadata.name={name}"})
    specs = [
        each["spec"] for each in listing.ask(f"{_DEFINITIONS}?{query}", name).get("items") or ()
    ]
    served = [
        (each, version["name"])
        for each in specs
        for version in each["versions"]
        if version["served"]
    ]
    return [
        _Kind(
            each["group"],
            each["names"]["kind"],
            f"/apis/{each['group']}/{version}/{each['names']['plural']}",
        )
        for each, version in served[:1]
    ]


@dataclass(frozen=True)
class _Judge:
    listing: _Listing
    own: Collection[Identity]
    names: set[tuple[str, str]]
    """Kind and name of each object that the stack created, also of those that are deleted by now.
    """

    def is_ours(self, uid: str, owned: frozenset[str] = frozenset()) -> bool:
        """True for an object of the stack, for what controllers made of one, and for one that is
        being deleted or that no user made.
        """
        kind, each = self.listing.items[uid]
        metadata = each["metadata"]
        identity = (kind.group, kind.name, metadata.get("namespace", ""), metadata["name"])
        if (
            metadata.get("deletionTimestamp")
            or kind.name == "Event"
            or (kind.name, metadata["name"]) in _DEFAULTS
            or identity in self.own
        ):
            return True
        if owners := metadata.get("ownerReferences"):
            return uid not in owned and all(
                self._keeps_nothing(owner, owned | {uid}) for owner in owners
            )
        return self._is_made_for(kind.name, metadata)

    def _keeps_nothing(self, owner: Mapping[str, Any], owned: frozenset[str]) -> bool:
        """True for an owner of the stack, and for one that is gone: then the garbage collector
        deletes what it owned.
        """
        if owner["uid"] in self.listing.items:
            return self.is_ours(owner["uid"], owned)
        return (owner["apiVersion"].rpartition("/")[0], owner["kind"]) in self.listing.kinds

    def _is_made_for(self, kind: str, metadata: Mapping[str, Any]) -> bool:
        if kind == "Endpoints":
            services = [
                uid
                for uid, (each, service) in self.listing.items.items()
                if each.name == "Service" and service["metadata"]["name"] == metadata["name"]
            ]
            # A controller of the stack's can have made the Service: its Endpoints have no owner.
            return (
                all(map(self.is_ours, services))
                if services
                else ("Service", metadata["name"]) in self.names
            )
        marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
        makers = [
            (maker, value)
            for mark, maker in _MADE_FOR.get(kind, {}).items()
            for key, value in marks.items()
            if key == mark or (key.startswith(f"{mark}.") and key.endswith("/stack-name"))
        ]
        return not {*makers}.isdisjoint(self.names | _DEFAULTS)


def _owners(each: Mapping[str, Any]) -> set[str]:
    return {owner["uid"] for owner in each["metadata"].get("ownerReferences") or ()}


def _text(get: Get, kind: _Kind, each: Mapping[str, Any]) -> str:
    metadata = each["metadata"]
    if each.get("type") == "helm.sh/release.v1":
        return f"Helm release {(metadata.get('labels') or {}).get('name', metadata['name'])}"
    called = f"{kind.name}{f'.{kind.group}' if '.' in kind.group else ''} {metadata['name']}"
    volume = (each.get("spec") or {}).get("volumeName") if kind.name == CLAIM else None
    if volume is None:
        return called
    try:
        policy = get(f"/api/v1/persistentvolumes/{volume}")["spec"].get(
            "persistentVolumeReclaimPolicy", ""
        )
    except Exception:  # noqa: BLE001 - it only explains
        policy = ""
    return f"{called} (volume {volume}{', whose data would be deleted too' if policy == 'Delete' else ''})"
