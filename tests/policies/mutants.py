"""Semantic mutants of the manifests that our stacks emit: one careless or hostile edit each, found
by what a resource is.

A mutation is written once and tried wherever it applies in a stack; each mutant names the rules
that must catch it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import Secret
from tests.policies.edits import Mutation, pods_in
from tests.policies.mutations_aws import AWS
from tests.policies.mutations_objects import RESOURCES
from tests.policies.mutations_pods import CONTAINERS, PODS
from tests.policies.mutations_stack import across


@dataclass(frozen=True)
class Mutant:
    """One changed stack: at least one of `rules` must refuse it. `urn` is the resource that was
    changed, or taken away.
    """

    name: str
    urn: str
    recording: Recording
    rules: tuple[str, ...]


def mutants_of(recording: Recording) -> Iterator[Mutant]:
    """Every mutant of `recording`, one changed resource each."""
    for position, each in enumerate(recording.registrations):
        kind = each.type.rpartition(":")[2]
        is_object = each.type.startswith("kubernetes:rbac.authorization.k8s.io")
        for mutation in (RESOURCES if is_object else RESOURCES | AWS).get(kind, ()):
            yield from _mutant(recording, position, mutation, mutation.edit, "")
        for place, spec in enumerate(pods_in(each.inputs)):
            where = f" pod[{place}]" if place else ""
            for mutation in PODS:
                yield from _mutant(
                    recording,
                    position,
                    mutation,
                    lambda inputs, edit=mutation.edit, place=place: edit(pods_in(inputs)[place]),
                    where,
                )
            for group in ("containers", "initContainers"):
                for index in range(len(spec.get(group) or [])):
                    for mutation in CONTAINERS:
                        yield from _mutant(
                            recording,
                            position,
                            mutation,
                            lambda inputs, edit=mutation.edit, at=(place, group, index): edit(
                                pods_in(inputs)[at[0]][at[1]][at[2]]
                            ),
                            f"{where} {group}[{index}]",
                        )


def without(recording: Recording) -> Iterator[Mutant]:
    """The mutants that lack a resource, an edge or an option, or hold one resource too many."""
    for name, urn, changed, rules in across(recording):
        yield Mutant(name, urn, changed, rules)


def _copied(value: Any) -> Any:
    """A copy of recorded inputs, five times faster than `copy.deepcopy`: their dictionaries, lists
    and secrets.
    """
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return Secret(_copied(value.value)) if isinstance(value, Secret) else value


def _mutant(
    recording: Recording,
    position: int,
    mutation: Mutation,
    edit: Callable[[Any], bool | None],
    where: str,
) -> Iterator[Mutant]:
    before = recording.registrations[position]
    changed = dataclasses.replace(before, inputs=_copied(before.inputs))
    if edit(changed.inputs) is False or changed.inputs == before.inputs:
        return
    name = f"{before.type.rpartition(':')[2]} {before.name}{where}: {mutation.name}"
    listed = list(recording.registrations)
    listed[position] = changed
    yield Mutant(
        name,
        before.urn,
        dataclasses.replace(recording, registrations=tuple(listed)),
        mutation.rules,
    )
