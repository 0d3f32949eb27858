"""Makes the safe changes that rules offer. It touches only the places that a rule names, and keeps every other value as it was."""

from __future__ import annotations

from typing import Any

from policies.engine.evaluate import label
from policies.engine.fields import FieldError
from policies.engine.registry import rules_for
from policies.engine.resource import Resource
from policies.engine.rule import Edit, Level, State
from policies.engine.settings import Settings


def edits_for(resource: Resource, settings: Settings) -> list[Edit]:
    """The changes that rules in force offer for `resource` where they are broken; none where a field cannot be read."""
    edits: list[Edit] = []
    name = label(resource.urn)
    for rule in rules_for(resource):
        if rule.remediate is None or settings.level(rule) is Level.DISABLED:
            continue
        try:
            for part in resource.parts(rule.subject):
                findings = rule.check(part, settings.parameters_of(rule))
                if any(settings.exemption(rule.id, name, each.path, State.VIOLATION) is None for each in findings):
                    edits += rule.remediate(part)
        except FieldError:
            continue
    return edits


def remedied(resource: Resource, settings: Settings, properties: Any) -> Any:
    """`properties`, the inputs of `resource` as a mutable map, with the changes made in place; None where there are none.

    Nothing is copied: what the map holds as secret or unknown stays exactly that.
    """
    edits = edits_for(resource, settings)
    for edit in edits:
        *before, last = edit.keys
        here = properties
        for key in before:
            if isinstance(key, str) and (key not in here or here[key] is None):
                here[key] = {}
            here = here[key]
        here[last] = edit.value
    return properties if edits else None
