"""Seven policies that run all rules under Pulumi's analyzer protocol, with the verdicts of `inferplan check`.

A policy a rule would decode each resource a hundred times. The SDK's own answer to an unknown, advice instead of refusal,
is never reached: inputs are turned into plain data with marks first, and a dispatcher of its own refuses what was not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from policies.engine.evaluate import Outcome, State, evaluate_resource, evaluate_stack
from policies.engine.registry import all_rules
from policies.engine.report import exemption_message, expiry_message
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Level
from policies.engine.settings import Exemption, Settings, SettingsError, parse_settings, read_settings, today
from policies.remedies import remedied
from policies.wire import plain

NAME = "inferplan"
_STACK_OF = re.compile(r"urn:pulumi:([^:]+)::")
_FOLDER = Path(__file__).parent / "stacks"


class _Pack:
    """What the dispatchers share: the settings of each stack, and what was not evaluated or was exempt so far, by resource."""

    def __init__(self) -> None:
        self._settings: dict[tuple[str, str], Settings] = {}
        self._unjudged: dict[str, list[Outcome]] = {}
        self._exempt: dict[tuple[str, Level], set[Exemption]] = {}

    def settings(self, stack: str, config: Mapping[str, Any]) -> Settings:
        """The stack's file with `config`, which `--policy-pack-config` gives, over it."""
        key = (stack, repr(sorted(config.items())))
        if key not in self._settings:
            day = today()
            from_file = read_settings(_FOLDER / f"{stack}.json", all_rules(), day)
            given = {name: value for name, value in config.items() if name != "enforcementLevel"}
            over = parse_settings(_whole(given), all_rules(), day, where="--policy-pack-config")
            self._settings[key] = Settings(
                today=day,
                levels={**from_file.levels, **over.levels},
                parameters={**from_file.parameters, **over.parameters},
                exemptions=(*from_file.exemptions, *over.exemptions),
                allow_not_evaluated=from_file.allow_not_evaluated | over.allow_not_evaluated,
            )
        return self._settings[key]

    def resource(self, level: Level, args: ResourceValidationArgs, report: ReportViolation) -> None:
        """The rules of `level` on one resource; what they could not judge is kept for the stack."""
        resource = _resource(args)
        try:
            settings = self.settings(_stack_of(resource.urn), args.get_config())
        except SettingsError as faults:
            # Without settings nothing can be judged, so nothing passes.
            if level is Level.MANDATORY:
                report(str(faults), None)
            return
        unjudged = []
        for outcome in self._live(evaluate_resource(resource, settings, [level]), settings, (resource.urn, level)):
            if outcome.state is State.NOT_EVALUATED and level is Level.MANDATORY:
                unjudged.append(outcome)
            else:
                report(outcome.message, None)
        if level is Level.MANDATORY:
            self._unjudged[resource.urn] = unjudged

    def stack(self, level: Level, args: StackValidationArgs, report: ReportViolation) -> None:
        """The stack rules of `level` on all resources; without resources there is nothing to say."""
        resources = [_resource(each) for each in args.resources]
        if not resources:
            return
        stack = Stack(_stack_of(resources[0].urn), resources)
        try:
            settings = self.settings(stack.name, args.get_config())
        except SettingsError as faults:
            if level is Level.MANDATORY:
                report(str(faults), None)
            return
        outcomes = self._live(evaluate_stack(stack, settings, [level]), settings, ("", level))
        for outcome in outcomes:
            if outcome.state is not State.NOT_EVALUATED or level is Level.ADVISORY:
                report(outcome.message, outcome.urn or None)
        if level is Level.MANDATORY:
            self._unjudged[""] = [outcome for outcome in outcomes if outcome.state is State.NOT_EVALUATED]
            for exemption in settings.expired:
                report(expiry_message(exemption), None)

    def _live(self, outcomes: Iterable[Outcome], settings: Settings, place: tuple[str, Level]) -> list[Outcome]:
        """The outcomes that no exemption covers; the exemptions that cover the others are kept for the list of them."""
        live: list[Outcome] = []
        self._exempt[place] = set()
        for outcome in outcomes:
            exemption = settings.exemption(outcome.rule.id, outcome.resource)
            if exemption is None:
                live.append(outcome)
            else:
                self._exempt[place].add(exemption)
        return live

    def exemptions(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Lists the exemptions that cover something, each once."""
        urns = {"", *(each.urn for each in args.resources)}
        used = {exemption for (urn, _level), listed in self._exempt.items() if urn in urns for exemption in listed}
        for message in sorted(map(exemption_message, used)):
            report(message, None)

    def unjudged(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Refuses what mandatory rules could not judge, unless the stack allows it."""
        urns = [each.urn for each in args.resources]
        if not urns:
            return
        try:
            settings = self.settings(_stack_of(urns[0]), args.get_config())
        except SettingsError:
            return
        for urn in (*urns, ""):
            for outcome in self._unjudged.get(urn, ()):
                if outcome.rule.id not in settings.allow_not_evaluated:
                    report(f"not evaluated: {outcome.message}", outcome.urn or None)

    def remediate(self, args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        """The resource with the safe changes made that its rules ask for; None where there is none to make."""
        resource = _resource(args)
        try:
            settings = self.settings(_stack_of(resource.urn), args.get_config())
        except SettingsError:
            return None
        return remedied(resource, settings, args.props)


def dispatchers() -> list[Policy]:
    """The policies to register."""
    pack = _Pack()
    schema = config_schema()
    policies: list[Policy] = []
    for level in (Level.MANDATORY, Level.ADVISORY):
        policies += [
            ResourceValidationPolicy(
                name=f"{NAME}-{level}",
                description=f"Rules on single resources that are {level} in this stack.",
                validate=lambda args, report, level=level: pack.resource(level, args, report),
                enforcement_level=EnforcementLevel(level.value),
                config_schema=schema,
            ),
            StackValidationPolicy(
                name=f"{NAME}-stack-{level}",
                description=f"Rules on the whole stack that are {level} in it.",
                validate=lambda args, report, level=level: pack.stack(level, args, report),
                enforcement_level=EnforcementLevel(level.value),
                config_schema=schema,
            ),
        ]
    return [
        *policies,
        StackValidationPolicy(
            name=f"{NAME}-not-evaluated",
            description="Mandatory rules that could not be evaluated.",
            validate=pack.unjudged,
            enforcement_level=EnforcementLevel.MANDATORY,
            config_schema=schema,
        ),
        StackValidationPolicy(
            name=f"{NAME}-exemptions",
            description="Exemptions in force: who owns them, why, and until when.",
            validate=pack.exemptions,
            enforcement_level=EnforcementLevel.ADVISORY,
            config_schema=schema,
        ),
        ResourceValidationPolicy(
            name=f"{NAME}-remediate",
            description="Safe changes that rules ask for; made only where this policy's level is remediate.",
            remediate=pack.remediate,  # pyrefly: ignore[bad-argument-type] - the SDK's annotation forgets plain maps, its code takes them
            enforcement_level=EnforcementLevel.DISABLED,
            config_schema=schema,
        ),
    ]


def config_schema() -> PolicyConfigSchema:
    """The schema of the settings, which `policies/stacks/<stack>.json` shares."""
    exemption = {key: {"type": "string"} for key in ("rule", "resource", "reason", "owner", "expires")}
    return PolicyConfigSchema(
        properties={
            "levels": {"type": "object", "additionalProperties": {"enum": [level.value for level in Level]}},
            "parameters": {"type": "object", "additionalProperties": {"type": "object"}},
            "exemptions": {"type": "array", "items": {"type": "object", "properties": exemption, "required": list(exemption)}},
            "allowNotEvaluated": {"type": "array", "items": {"type": "string"}},
        }
    )


def _resource(given: Any) -> Resource:
    options, provider = given.opts, given.provider
    urn = given.urn
    dependencies = tuple(each.urn for each in getattr(given, "dependencies", ()))
    sources = getattr(given, "property_dependencies", {})
    return Resource(
        type=given.resource_type,
        urn=urn,
        name=given.name,
        inputs=plain(given.props),
        parent=options.parent or "",
        dependencies=dependencies,
        property_dependencies={name: tuple(each.urn for each in listed) for name, listed in sources.items()},
        provider=provider.urn if provider is not None else "",
        protect=options.protect,
    )


def _stack_of(urn: str) -> str:
    match = _STACK_OF.match(urn)
    return match.group(1) if match else ""


def _whole(value: Any) -> Any:
    """`value` with whole numbers as such: the protocol carries every number as a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value
