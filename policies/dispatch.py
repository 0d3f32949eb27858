"""Seven policies that run all rules under Pulumi's analyzer protocol, with the verdicts of `inferplan check`.

One Pulumi policy per rule would decode each resource a hundred times. The SDK reports an unknown as advice instead of a violation, so
inputs become plain data with marks for unknowns first, and a separate policy blocks what could not be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

from policies.engine.evaluate import Outcome, evaluate_resource, evaluate_stack, remedied
from policies.engine.registry import all_rules
from policies.engine.report import changes_of, exemption_message, expiry_message
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Level, State
from policies.engine.settings import EXEMPTION_KEYS, Exemption, Settings, SettingsError, parse_settings, read_settings, today
from policies.wire import inputs_kept_by, plain, resource_of, stack_name, whole

NAME = "inferplan"
_FOLDER = Path(__file__).parent / "stacks"


class _Pack:
    """State that the dispatchers share: the settings of each stack, and for each resource its inputs, unevaluated outcomes and exemptions."""

    def __init__(self) -> None:
        self._inputs: dict[str, Mapping[str, Any]] = {}
        self._mandatory: dict[str, Resource] = {}
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
            over = parse_settings(whole(given), all_rules(), day, where="--policy-pack-config")
            self._settings[key] = Settings(
                today=day,
                levels={**from_file.levels, **over.levels},
                parameters={**from_file.parameters, **over.parameters},
                exemptions=(*from_file.exemptions, *over.exemptions),
            )
        return self._settings[key]

    def resource(self, level: Level, args: ResourceValidationArgs, report: ReportViolation) -> None:
        """Runs the rules of `level` on one resource; keeps what they could not evaluate for the stack policies."""
        # Both levels of one resource follow each other: the second one shares what the first one took apart.
        resource = self._mandatory.pop(args.urn, None) if level is Level.ADVISORY else None
        if resource is None:
            resource = resource_of(args, plain(args.props))
        if level is Level.MANDATORY:
            self._mandatory[resource.urn] = resource
        self._inputs[resource.urn] = resource.inputs
        try:
            settings = self.settings(stack_name(resource.urn), args.get_config())
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
        """Runs the stack rules of `level` on all resources."""
        # The engine sends the inputs of each resource before the outputs of all; a targeted run leaves out those it does not touch.
        resources = [
            resource_of(each, self._inputs[each.urn] if each.urn in self._inputs else inputs_kept_by(each)) for each in args.resources
        ]
        if not resources:
            return
        stack = Stack(stack_name(resources[0].urn), resources)
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
            exemption = settings.exemption(outcome.rule.id, outcome.resource, outcome.path, outcome.state)
            if exemption is None:
                live.append(outcome)
            else:
                self._exempt[place].add(exemption)
        return live

    def exemptions(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Lists what the settings of the stack lower, and the exemptions that cover something, each once."""
        # The last policy of a run: the next run sends every resource again.
        exempt, self._exempt, self._inputs, self._unjudged, self._mandatory = self._exempt, {}, {}, {}, {}
        if not args.resources:
            return
        try:
            settings = self.settings(stack_name(args.resources[0].urn), args.get_config())
        except SettingsError:
            return
        for change in changes_of(settings, all_rules()):
            if change.lowered:
                report(f"lowered by the settings of this stack: {change.message}", None)
        urns = {"", *(each.urn for each in args.resources)}
        used = {exemption for (urn, _level), listed in exempt.items() if urn in urns for exemption in listed}
        for message in sorted(map(exemption_message, used)):
            report(message, None)

    def unjudged(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Refuses what mandatory rules could not judge, not even by what the stack says about it: the resources that a value comes from."""
        left: list[Outcome] = []
        for each in args.resources:
            if self._unjudged.get(each.urn):
                left += self._judged_again(each, args)
        for outcome in (*left, *self._unjudged.get("", ())):
            report(f"not evaluated: {outcome.message}", outcome.urn or None)

    def _judged_again(self, given: Any, args: StackValidationArgs) -> Iterator[Outcome]:
        resource = resource_of(given, self._inputs[given.urn])
        settings = self.settings(stack_name(given.urn), args.get_config())
        outcomes = self._live(evaluate_resource(resource, settings, [Level.MANDATORY]), settings, (given.urn, Level.MANDATORY))
        return (each for each in outcomes if each.state is State.NOT_EVALUATED)

    def remediate(self, args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        """The resource with the safe changes made that its rules ask for; None where there is none to make."""
        resource = resource_of(args, plain(args.props))
        try:
            settings = self.settings(stack_name(resource.urn), args.get_config())
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
                description=f"Rules on single resources with level {level} in this stack.",
                validate=lambda args, report, level=level: pack.resource(level, args, report),
                enforcement_level=EnforcementLevel(level.value),
                config_schema=schema,
            ),
            StackValidationPolicy(
                name=f"{NAME}-stack-{level}",
                description=f"Rules on the whole stack with level {level}.",
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
            description="Rules that the stack's settings lower, and its exemptions with owner, reason and expiry date.",
            validate=pack.exemptions,
            enforcement_level=EnforcementLevel.ADVISORY,
            config_schema=schema,
        ),
        ResourceValidationPolicy(
            name=f"{NAME}-remediate",
            description="Safe changes that satisfy rules. They are made only if this policy's level is remediate.",
            remediate=pack.remediate,  # pyrefly: ignore[bad-argument-type] - the SDK's annotation forgets plain maps, its code takes them
            enforcement_level=EnforcementLevel.DISABLED,
            config_schema=schema,
        ),
    ]


def config_schema() -> PolicyConfigSchema:
    """The schema of the settings, which `policies/stacks/<stack>.json` shares."""
    exemption = {key: {"type": "string"} for key in EXEMPTION_KEYS}
    return PolicyConfigSchema(
        properties={
            "levels": {"type": "object", "additionalProperties": {"enum": [level.value for level in Level]}},
            "parameters": {"type": "object", "additionalProperties": {"type": "object"}},
            "exemptions": {"type": "array", "items": {"type": "object", "properties": exemption, "required": list(exemption)}},
        }
    )
