"""Resources and stacks as rules read them: types, names, inputs with marks for unknowns, and
dependencies.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

from inferplan.kube.facts import Subjects, read
from inferplan.policies.engine.fields import Field, FieldError, Outline, matching, outline_of


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One resource; `inputs` is plain data with secrets and `UNKNOWN` for values that an update
    makes. A component is not `custom`.
    """

    type: str
    urn: str
    name: str
    inputs: Mapping[str, Any]
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provider: str = ""
    custom: bool = True
    protect: bool = False
    retain_on_delete: bool = False
    ignore_changes: tuple[str, ...] = ()
    _parts: dict[str, tuple[Any, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        return f"Resource({self.urn})"

    @cached_property
    def root(self) -> Field:
        return Field(self.inputs, urn=self.urn)

    @cached_property
    def outline(self) -> Outline:
        """The keys and the strings of the inputs. Many rules search it for a few strings."""
        return outline_of(self.inputs)

    @cached_property
    def kind(self) -> str:
        """The type without its version: `kubernetes:apps:Deployment` for
        `kubernetes:apps/v1:Deployment`, `aws:s3:Bucket`.
        """
        package, _, rest = self.type.partition(":")
        module, _, name = rest.rpartition(":")
        return f"{package}:{module.partition('/')[0]}:{name}"

    @property
    def short_kind(self) -> str:
        """The last part of the type: `Deployment`."""
        return self.type.rpartition(":")[2]

    @cached_property
    def namespace(self) -> str:
        return self.at("metadata", "namespace").text()

    @cached_property
    def object_name(self) -> str:
        return self.at("metadata", "name").text()

    def at(self, *keys: str) -> Field:
        return self.root.at(*keys)

    def select(self, *keys: str) -> Iterator[Field]:
        return self.root.select(*keys)

    def below(self, names: Collection[str]) -> Iterable[Field]:
        """The fields at any depth whose key is one of `names`."""
        return () if self.outline.keys.isdisjoint(names) else self.root.below(names)

    def parts(self, subject: Subject) -> tuple[Any, ...]:
        """The parts of this resource that rules of `subject` check, computed once. Raises
        FieldError.
        """
        if subject.name not in self._parts:
            self._parts[subject.name] = tuple(subject.parts(self))
        return self._parts[subject.name]


class Subject(NamedTuple):
    """The resources that a rule checks, and the parts of them. `kinds` are type tokens without the
    API version.

    Rules of one subject share the parts of a resource. `inapplicable` returns the rules that a
    resource cannot obey, for example a device plugin. `also` finds such parts in resources of other
    kinds.
    """

    name: str
    kinds: frozenset[str]
    parts: Callable[[Resource], Iterable[Any]]
    inapplicable: Callable[[Resource], frozenset[str]] = lambda _: frozenset()
    also: Callable[[Resource], bool] = lambda _: False


class Spelled(NamedTuple):
    """A resource with the commands of its scripts in the arguments of its containers, and the names
    of those scripts.
    """

    resource: Resource
    files: tuple[str, ...]


class Reading(NamedTuple):
    """Another reading of a stack, which all rules judge too. `spell` returns the resources that it
    shows in another way, by URN.
    """

    spell: Callable[[Stack], Mapping[str, Spelled]]


def objects(*kinds: str) -> Subject:
    """Whole resources of `kinds`, written as `kubernetes:core:Service` or `aws:s3:Bucket`."""
    return Subject("object", frozenset(kinds), lambda resource: (resource,))


class Unreadable(dict[tuple[str, str], FieldError]):
    """The fields that a stack rule could not read. As a context manager, it records a FieldError of
    the block and suppresses it.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, FieldError):
            self.setdefault((error.urn, error.path), error)
        return isinstance(error, FieldError)


_UNREADABLE = object()
_Object = TypeVar("_Object")
_Fact = TypeVar("_Fact")


def once(read: Callable[[_Object], _Fact]) -> Callable[[_Object], _Fact]:
    """Cache the facts that `read` returns: it runs once for each resource, pod or container, though
    many rules ask for them. A FieldError is not cached: each call raises it.
    """
    name = f"_{read.__module__}.{read.__qualname__}"

    @wraps(read)
    def fact_of(each: _Object) -> _Fact:
        facts = each.__dict__
        if name not in facts:
            facts[name] = read(each)
        fact: _Fact = facts[name]
        return fact

    return fact_of


def object_names(resource: Resource) -> Iterator[Hashable]:
    """The key of `Stack.candidates` for the objects of one name. Raises FieldError."""
    yield resource.object_name


def namespaces(resource: Resource) -> Iterator[Hashable]:
    """The key of `Stack.candidates` for the objects of one namespace. Raises FieldError."""
    yield resource.namespace


class OneOf(tuple[Hashable, ...]):
    """Keys of `Stack.candidates` that a wanted object has all of, so the rarest key is enough."""

    __slots__ = ()


class Stack:
    """All resources of one stack, and its outputs. In a block `with stack.unreadable:` a field that
    cannot be read is recorded, and the rule continues after it.
    """

    def __init__(
        self, name: str, resources: Iterable[Resource], *, outputs: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self._outputs = outputs or {}
        self.resources = tuple(resources)
        self.unreadable = Unreadable()
        self._by_kind: dict[str, list[Resource]] = {}
        for each in self.resources:
            self._by_kind.setdefault(each.kind, []).append(each)
        self._by_urn = {each.urn: each for each in self.resources}
        self._indexes: dict[Any, dict[Hashable, list[tuple[int, Resource]]]] = {}

    def for_rule(self) -> Stack:
        """The same stack without recorded fields."""
        view = copy.copy(self)
        view.unreadable = Unreadable()
        return view

    def with_resources(self, others: Mapping[str, Resource]) -> Stack:
        """The same stack with other resources in the place of those with their URNs."""
        resources = (others.get(each.urn, each) for each in self.resources)
        return Stack(self.name, resources, outputs=self._outputs)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.resources)

    def of(self, *kinds: str) -> Iterator[Resource]:
        """Resources of any of `kinds`, written as `kubernetes:apps:Deployment`."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())

    def named(self, name: str, namespaced: Resource, *kinds: str) -> Iterator[Resource]:
        """Objects of any of `kinds` with that name, in the namespace of the object `namespaced`.
        Raises FieldError.
        """
        return matching(
            self.candidates(kinds, object_names, name),
            lambda each: each.object_name == name and each.namespace == namespaced.namespace,
        )

    def in_namespace(self, namespace: str, *kinds: str) -> Iterator[Resource]:
        """Objects of any of `kinds` in `namespace`. Raises FieldError."""
        return matching(
            self.candidates(kinds, namespaces, namespace), lambda each: each.namespace == namespace
        )

    def candidates(
        self,
        kinds: Iterable[str],
        keys_of: Callable[[Resource], Iterable[Hashable]],
        *wanted: Hashable,
    ) -> list[Resource]:
        """The objects of `kinds` with one of the keys `wanted`, and those whose keys cannot be
        read, in the stack's order. A caller tests each of them as it would test all objects, in a
        time that does not grow with the stack. `keys_of` is a function of a module.
        """
        place = (tuple(kinds), keys_of)
        if (index := self._indexes.get(place)) is None:
            index = self._indexes[place] = self._index(*place)

        def size(key: Hashable) -> int:
            return len(index.get(key, ()))

        keys = (min(each, key=size) if isinstance(each, OneOf) else each for each in wanted)
        by_position = dict(each for key in (*keys, _UNREADABLE) for each in index.get(key, ()))
        return [by_position[position] for position in sorted(by_position)]

    def _index(
        self, kinds: Iterable[str], keys_of: Callable[[Resource], Iterable[Hashable]]
    ) -> dict[Hashable, list[tuple[int, Resource]]]:
        """The objects of `kinds` by key, with their positions."""
        keyed: list[tuple[Resource, set[Hashable]]] = []
        for each in self.of(*kinds):
            try:
                keyed.append((each, {*keys_of(each)}))
            except FieldError:
                keyed.append((each, {_UNREADABLE}))
        counts = Counter(
            key for _, keys in keyed for one in keys if isinstance(one, OneOf) for key in one
        )
        index: dict[Hashable, list[tuple[int, Resource]]] = {}
        for position, (each, keys) in enumerate(keyed):
            rarest = (
                min(key, key=counts.__getitem__) if isinstance(key, OneOf) else key for key in keys
            )
            for key in {*rarest}:
                index.setdefault(key, []).append((position, each))
        return index

    def dependencies_of(self, resource: Resource) -> set[str]:
        """The URNs of all resources that `resource` depends on, directly or not."""
        seen: set[str] = set()
        waiting = list(resource.dependencies)
        while waiting:
            urn = waiting.pop()
            if urn not in seen:
                seen.add(urn)
                waiting += self._by_urn[urn].dependencies if urn in self._by_urn else ()
        return seen

    @cached_property
    def facts(self) -> Subjects:
        """The facts that the stack states; none if it states none that can be read."""
        try:
            return read(self._outputs) or {}
        except ValueError:
            return {}

    def by_urn(self, urn: str) -> Resource | None:
        return self._by_urn.get(urn)
