"""Semantic mutants of the manifests that our stacks emit: one careless or hostile edit each, found by what a resource is.

A mutation is written once and tried wherever it applies in a stack; each mutant names the rules that must catch it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rehearsal.engine.recording import Recording, Registration
from tests.policies.edits import Inputs, Mutation
from tests.policies.mutations_objects import RESOURCES
from tests.policies.mutations_pods import CONTAINERS, PODS


@dataclass(frozen=True)
class Mutant:
    """One changed stack: at least one of `rules` must refuse it. `urn` is the resource that was changed, or taken away."""

    name: str
    urn: str
    recording: Recording
    rules: tuple[str, ...]


def mutants_of(recording: Recording) -> Iterator[Mutant]:
    """Every mutant of `recording`, one changed resource each."""
    for position, each in enumerate(recording.registrations):
        kind = each.type.rpartition(":")[2]
        for mutation in RESOURCES.get(kind, ()):
            yield from _mutant(recording, position, mutation, mutation.edit, "")
        spec = _pod(each.inputs)
        if spec is None:
            continue
        for mutation in PODS:
            yield from _mutant(recording, position, mutation, lambda inputs, edit=mutation.edit: edit(_pod(inputs)), "")
        for group in ("containers", "initContainers"):
            for index in range(len(spec.get(group, []))):
                for mutation in CONTAINERS:
                    yield from _mutant(
                        recording,
                        position,
                        mutation,
                        lambda inputs, edit=mutation.edit, group=group, index=index: edit((_pod(inputs) or {})[group][index]),
                        f" {group}[{index}]",
                    )


def without(recording: Recording) -> Iterator[Mutant]:
    """The mutants that lack a resource, an edge or an option."""
    for position, each in enumerate(recording.registrations):
        kind = each.type.rpartition(":")[2]
        rules = {
            "PodDisruptionBudget": "stack-require-disruption-budget",
            "BucketPublicAccessBlock": "s3-require-block",
            "BucketServerSideEncryptionConfiguration": "s3-require-encryption",
            "BucketVersioning": "s3-require-versioning",
            "BucketPolicy": "s3-require-tls",
        }
        rule = rules.get(kind) or ("stack-require-default-deny" if each.name.endswith("default-deny") else "")
        if rule:
            yield Mutant(f"no {kind} {each.name}", each.urn, _replaced(recording, position, None), (rule,))
        if kind == "Deployment" and any("Job::" in urn for urn in each.dependencies):
            kept = tuple(urn for urn in each.dependencies if "Job::" not in urn)
            yield Mutant(
                f"no wait {each.name}",
                each.urn,
                _replaced(recording, position, dataclasses.replace(each, dependencies=kept)),
                ("stack-require-preheat-before-serving",),
            )
        if each.type.startswith("kubernetes:") and kind in ("Deployment", "Service", "Secret"):
            yield Mutant(
                f"default provider {kind} {each.name}",
                each.urn,
                _replaced(recording, position, dataclasses.replace(each, provider="")),
                ("stack-disallow-several-providers",),
            )


def _mutant(recording: Recording, position: int, mutation: Mutation, edit: Callable[[Any], bool | None], where: str) -> Iterator[Mutant]:
    before = recording.registrations[position]
    changed = dataclasses.replace(before, inputs=copy.deepcopy(before.inputs))
    if edit(changed.inputs) is False or changed.inputs == before.inputs:
        return
    name = f"{before.type.rpartition(':')[2]} {before.name}{where}: {mutation.name}"
    yield Mutant(name, before.urn, _replaced(recording, position, changed), mutation.rules)


def _replaced(recording: Recording, position: int, changed: Registration | None) -> Recording:
    listed = list(recording.registrations)
    listed[position : position + 1] = [] if changed is None else [changed]
    return dataclasses.replace(recording, registrations=tuple(listed))


def _pod(inputs: Inputs) -> Inputs | None:
    template = (inputs.get("spec") or {}).get("template") if isinstance(inputs.get("spec"), dict) else None
    return template.get("spec") if isinstance(template, dict) and "containers" in template.get("spec", {}) else None
