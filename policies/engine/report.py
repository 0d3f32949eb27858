"""The verdicts on a stack: what is refused, what is advised, what is exempt and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from policies.engine.evaluate import Outcome, State, evaluate_resource, evaluate_stack
from policies.engine.resource import Stack
from policies.engine.rule import Level
from policies.engine.settings import Exemption, Settings

_RUN = (Level.MANDATORY, Level.ADVISORY)


@dataclass(frozen=True, slots=True)
class Exempt:
    """An outcome that an exemption in force covers."""

    outcome: Outcome
    exemption: Exemption


@dataclass(frozen=True, slots=True)
class Report:
    """`refusals` keep a stack from being applied; `advice` does not. Each list is in the order of resources."""

    stack: str
    refusals: tuple[Outcome, ...]
    advice: tuple[Outcome, ...]
    exempt: tuple[Exempt, ...]
    expired: tuple[Exemption, ...]
    unused: tuple[Exemption, ...]

    @property
    def refused(self) -> bool:
        """Whether the stack must not be applied."""
        return bool(self.refusals or self.expired)


def check_stack(stack: Stack, settings: Settings) -> Report:
    """Every rule on every resource of `stack`, and on the stack as a whole."""
    outcomes = [outcome for resource in stack for outcome in evaluate_resource(resource, settings, _RUN)]
    return make_report(stack.name, [*outcomes, *evaluate_stack(stack, settings, _RUN)], settings)


def make_report(stack: str, outcomes: Iterable[Outcome], settings: Settings) -> Report:
    """`outcomes` sorted into what they lead to."""
    refusals: list[Outcome] = []
    advice: list[Outcome] = []
    exempt: list[Exempt] = []
    for outcome in outcomes:
        exemption = settings.exemption(outcome.rule.id, outcome.resource)
        if exemption is not None:
            exempt.append(Exempt(outcome, exemption))
        elif refuses(outcome, settings):
            refusals.append(outcome)
        else:
            advice.append(outcome)
    used = {each.exemption for each in exempt}
    unused = tuple(each for each in settings.exemptions if each not in used and each not in settings.expired)
    return Report(stack, tuple(refusals), tuple(advice), tuple(exempt), settings.expired, unused)


def refuses(outcome: Outcome, settings: Settings) -> bool:
    """Whether `outcome` keeps the stack from being applied: a mandatory rule that is broken, or could not be judged."""
    if settings.level(outcome.rule) is not Level.MANDATORY:
        return False
    return outcome.state is not State.NOT_EVALUATED or outcome.rule.id not in settings.allow_not_evaluated


def exemption_message(exemption: Exemption) -> str:
    """What an exemption in force says."""
    return (
        f"exempt until {exemption.expires} (owner: {exemption.owner}): {exemption.resource} from {exemption.rule}, since {exemption.reason}"
    )


def expiry_message(exemption: Exemption) -> str:
    """What an expired exemption says."""
    return (
        f"the exemption of {exemption.resource} from {exemption.rule} ended on {exemption.expires} (owner: {exemption.owner}); "
        f"fix the cause, or give it a new reason and a new day under exemptions in policies/stacks/<stack>.json"
    )
