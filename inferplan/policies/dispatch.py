"""Eight Pulumi policies that run all rules, with the same results as `inferplan check`.

One Pulumi policy per rule would decode each resource a hundred times. The SDK reports an unknown
value only as advice, so inputs are converted to plain data with marks for unknowns, and a separate
policy blocks what could not be evaluated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from inferplan.kube.facts import STACK_TYPE
from inferplan.kube.names import IDENTITY_POLICY
from inferplan.policies.engine.evaluate import Outcome, evaluate_resource, evaluate_stack, remedied
from inferplan.policies.engine.identity import count_judged, statement
from inferplan.policies.engine.registry import all_rules, missing_rules
from inferplan.policies.engine.report import (
    changes_of,
    exemption_message,
    expiry_message,
    missing_message,
)
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.engine.rule import Level, State
from inferplan.policies.engine.settings import (
    ACCEPTED_TYPE_KEYS,
    EXEMPTION_KEYS,
    Exemption,
    Settings,
    SettingsError,
    today,
)
from inferplan.policies.engine.settings_reader import parse_settings, read_settings
from inferplan.policies.wire import inputs_in_outputs, plain, resource_of, stack_name

NAME = "inferplan"
_Arguments = ResourceValidationArgs | StackValidationArgs


class _Pack:
    """State that the policies share: the settings of each stack; the inputs, unevaluated outcomes
    and exemptions of each resource.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inputs: dict[str, Mapping[str, Any]] = {}
        self._mandatory: dict[str, Resource] = {}
        self._settings: dict[tuple[str, str], Settings] = {}
        self._not_evaluated: dict[str, list[Outcome]] = {}
        self._exempt: dict[tuple[str, Level], set[Exemption]] = {}
        self.judged = 0

    def _settings_of(
        self, urn: str, args: _Arguments, report: ReportViolation | None = None
    ) -> Settings | None:
        """The settings of the stack of `urn`: its file, overridden by `--policy-pack-config`. If
        they have errors, it reports them.
        """
        stack, config = stack_name(urn), args.get_config()
        key = (stack, repr(sorted(config.items())))
        try:
            if key not in self._settings:
                day = today()
                from_file = read_settings(self._folder / f"{stack}.json", all_rules(), day)
                settings = {
                    name: value for name, value in config.items() if name != "enforcementLevel"
                }
                over = parse_settings(
                    plain(settings), all_rules(), day, where="--policy-pack-config"
                )
                self._settings[key] = Settings(
                    today=day,
                    levels={**from_file.levels, **over.levels},
                    parameters={**from_file.parameters, **over.parameters},
                    exemptions=(*from_file.exemptions, *over.exemptions),
                    accepted_types=(*from_file.accepted_types, *over.accepted_types),
                )
        except SettingsError as error:
            if report is not None:
                report(str(error), None)
            return None
        return self._settings[key]

    def resource(self, level: Level, args: ResourceValidationArgs, report: ReportViolation) -> None:
        """Run the rules of `level` on one resource. A stack policy reports what they could not
        evaluate.
        """
        # The advisory policy follows the mandatory one for each resource, so both share its parts.
        resource = self._mandatory.pop(args.urn, None) if level is Level.ADVISORY else None
        if resource is None:
            resource = resource_of(args, plain(args.props))
        if level is Level.MANDATORY:
            self._mandatory[resource.urn] = resource
        self._inputs[resource.urn] = resource.inputs
        # Without valid settings, nothing passes.
        settings = self._settings_of(
            resource.urn, args, report if level is Level.MANDATORY else None
        )
        if settings is None:
            return
        not_evaluated = []
        for outcome in self._live(
            evaluate_resource(resource, settings, [level]), settings, (resource.urn, level)
        ):
            if outcome.state is State.NOT_EVALUATED and level is Level.MANDATORY:
                not_evaluated.append(outcome)
            else:
                report(outcome.message, None)
        if level is Level.MANDATORY:
            self._not_evaluated[resource.urn] = not_evaluated

    def stack(self, level: Level, args: StackValidationArgs, report: ReportViolation) -> None:
        # The engine sends the inputs of each resource first, then the outputs of all. A targeted
        # run does not send all inputs.
        resources = [
            resource_of(
                each,
                self._inputs[each.urn] if each.urn in self._inputs else inputs_in_outputs(each),
            )
            for each in _remaining(args.resources, self._inputs)
        ]
        self.judged = count_judged(resources)
        if not resources:
            return
        outputs = next(
            (plain(each.props) for each in args.resources if each.resource_type == STACK_TYPE), {}
        )
        stack = Stack(stack_name(resources[0].urn), resources, outputs=outputs)
        settings = self._settings_of(
            resources[0].urn, args, report if level is Level.MANDATORY else None
        )
        if settings is None:
            return
        outcomes = self._live(evaluate_stack(stack, settings, [level]), settings, ("", level))
        for outcome in outcomes:
            if outcome.state is not State.NOT_EVALUATED or level is Level.ADVISORY:
                report(outcome.message, outcome.urn or None)
        if level is Level.MANDATORY:
            self._not_evaluated[""] = [
                outcome for outcome in outcomes if outcome.state is State.NOT_EVALUATED
            ]
            if missing := missing_rules():
                report(missing_message(missing), None)
            for exemption in settings.expired:
                report(expiry_message(exemption), None)

    def _live(
        self, outcomes: Iterable[Outcome], settings: Settings, place: tuple[str, Level]
    ) -> list[Outcome]:
        """The outcomes that no exemption covers. It records the exemptions of the others for
        `exemptions`.
        """
        by_exemption = [(outcome.exemption(settings), outcome) for outcome in outcomes]
        self._exempt[place] = {exemption for exemption, _ in by_exemption if exemption is not None}
        return [outcome for exemption, outcome in by_exemption if exemption is None]

    def exemptions(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Report the settings that lower rules, and the exemptions in use, each once."""
        # This is the last policy of a run. The next run sends every resource again.
        exempt, self._exempt, self._inputs, self._not_evaluated, self._mandatory = (
            self._exempt,
            {},
            {},
            {},
            {},
        )
        settings = self._settings_of(args.resources[0].urn, args) if args.resources else None
        if settings is None:
            return
        for change in changes_of(settings, all_rules()):
            if change.lowered:
                report(f"lowered by the settings of this stack: {change.message}", None)
        urns = {"", *(each.urn for each in args.resources)}
        used = {
            exemption
            for (urn, _level), listed in exempt.items()
            if urn in urns
            for exemption in listed
        }
        for message in sorted(map(exemption_message, used)):
            report(message, None)

    def not_evaluated(self, args: StackValidationArgs, report: ReportViolation) -> None:
        """Report what mandatory rules could not evaluate, not even with the dependencies that only
        stack policies receive.
        """
        outcomes: list[Outcome] = []
        for each in args.resources:
            settings = (
                self._settings_of(each.urn, args) if self._not_evaluated.get(each.urn) else None
            )
            if settings is not None:
                resource = resource_of(each, self._inputs[each.urn])
                outcomes += self._live(
                    evaluate_resource(resource, settings, [Level.MANDATORY]),
                    settings,
                    (each.urn, Level.MANDATORY),
                )
        for outcome in (*outcomes, *self._not_evaluated.get("", ())):
            if outcome.state is State.NOT_EVALUATED:
                report(f"not evaluated: {outcome.message}", outcome.urn or None)

    def remediate(self, args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        """The inputs of the resource with safe changes that fix violations, or None."""
        settings = self._settings_of(args.urn, args)
        return (
            None
            if settings is None
            else remedied(resource_of(args, plain(args.props)), settings, args.props)
        )


def _remaining(
    resources: Sequence[PolicyResource], known: Mapping[str, object]
) -> Sequence[PolicyResource]:
    """The resources that stay. The engine also sends those that it refreshes before it deletes them
    (CLI 3.260); it sent no inputs of them.

    A run with targets may send few inputs. Then an unknown resource may stay, as one does on which
    a known resource depends.
    """
    unknown = {
        each.urn for each in resources if each.urn not in known and each.resource_type != STACK_TYPE
    }
    needed = {
        other.urn
        for each in resources
        if each.urn in known
        for other in (each.parent, *each.dependencies)
        if other is not None
    }
    are_deleted = len(unknown) < len(known) and not needed & unknown
    return [each for each in resources if each.urn not in unknown] if are_deleted else resources


_NOT_EVALUATED = "Mandatory rules that could not be evaluated."
_LOWERED = (
    "Rules that the stack's settings lower, and its exemptions with owner, reason and expiry date."
)
_STATED = (
    "States which pack judged this stack: version, number of rules, hash of its files. Not a"
    " violation."
)
_SAFE_CHANGES = (
    "Safe changes that satisfy rules. They are made only if this policy's level is remediate."
)


def dispatchers(folder: Path) -> list[Policy]:
    """Return the policies. `folder` has the settings of each stack, in <stack>.json."""
    pack = _Pack(folder)
    schema = config_schema()

    def resource_policy(
        name: str, description: str, level: EnforcementLevel, **handler: Any
    ) -> Policy:
        return ResourceValidationPolicy(
            f"{NAME}-{name}", description, enforcement_level=level, config_schema=schema, **handler
        )

    def stack_policy(
        name: str, description: str, level: EnforcementLevel, validate: Callable[..., None]
    ) -> Policy:
        return StackValidationPolicy(
            f"{NAME}-{name}", description, validate, enforcement_level=level, config_schema=schema
        )

    policies: list[Policy] = []
    for level in (Level.MANDATORY, Level.ADVISORY):
        enforced, on_resource, on_stack = (
            EnforcementLevel(level.value),
            partial(pack.resource, level),
            partial(pack.stack, level),
        )
        policies += [
            resource_policy(
                level,
                f"Rules on single resources with level {level} in this stack.",
                enforced,
                validate=on_resource,
            ),
            stack_policy(
                f"stack-{level}",
                f"Rules on the whole stack with level {level}.",
                enforced,
                on_stack,
            ),
        ]
    mandatory, advisory = EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY
    return [
        *policies,
        stack_policy("not-evaluated", _NOT_EVALUATED, mandatory, pack.not_evaluated),
        stack_policy("exemptions", _LOWERED, advisory, pack.exemptions),
        stack_policy(
            IDENTITY_POLICY.removeprefix(f"{NAME}-"),
            _STATED,
            advisory,
            lambda _, report: report(statement(pack.judged), None),
        ),
        resource_policy(
            "remediate", _SAFE_CHANGES, EnforcementLevel.DISABLED, remediate=pack.remediate
        ),
    ]


def config_schema() -> PolicyConfigSchema:
    """The schema of the settings, which `policies/stacks/<stack>.json` shares."""
    exemption, accepted = (
        {key: {"type": "string"} for key in keys} for keys in (EXEMPTION_KEYS, ACCEPTED_TYPE_KEYS)
    )
    return PolicyConfigSchema(
        properties={
            "levels": {
                "type": "object",
                "additionalProperties": {"enum": [level.value for level in Level]},
            },
            "parameters": {"type": "object", "additionalProperties": {"type": "object"}},
            "exemptions": {
                "type": "array",
                "items": {"type": "object", "properties": exemption, "required": list(exemption)},
            },
            "acceptedTypes": {
                "type": "array",
                "items": {"type": "object", "properties": accepted, "required": list(accepted)},
            },
        }
    )
