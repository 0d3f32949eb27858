"""Settings of a stack for the pack: levels, parameters and exemptions. Wrong settings are rejected
as a whole, with every error.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplan.policies.engine.rule import Level, Parameters, Rule, State

STATES: Mapping[str, State] = {"violation": State.VIOLATION, "unknown": State.NOT_EVALUATED}
"""The states that an exemption can cover, by name. It cannot cover a rule that failed with an error
(State.DEFECT).
"""


@dataclass(frozen=True)
class Exemption:
    """One violation that a stack may keep until the day `expires`, at a field of `Kind/name` or of
    the `stack`.
    """

    rule: str
    resource: str
    path: str
    state: str
    reason: str
    owner: str
    expires: str


@dataclass(frozen=True)
class AcceptedType:
    """A type of resources (`command:local:Command`) that no rule knows and that a stack may use
    until the day `expires`.
    """

    type: str
    reason: str
    owner: str
    expires: str


EXEMPTION_KEYS = tuple(each.name for each in dataclasses.fields(Exemption))
ACCEPTED_TYPE_KEYS = tuple(each.name for each in dataclasses.fields(AcceptedType))


class SettingsError(Exception):
    """The settings of a stack are wrong; `errors` has one sentence for each mistake."""

    def __init__(self, where: str, errors: Iterable[str]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(f"{where}: {error}" for error in self.errors))


@dataclass(frozen=True)
class Settings:
    """The settings of one stack. `today` (`YYYY-MM-DD`) decides which exemptions have expired."""

    today: str
    levels: Mapping[str, Level] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()
    accepted_types: tuple[AcceptedType, ...] = ()
    _parameters: dict[str, Parameters] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def level(self, rule: Rule) -> Level:
        return self.levels.get(rule.id, rule.level)

    def parameters_of(self, rule: Rule) -> Parameters:
        if rule.id not in self._parameters:
            defaults = {name: each.default for name, each in rule.parameters.items()}
            accepted = {each.type: each.expires for each in self.accepted_types}
            self._parameters[rule.id] = Parameters(
                {**defaults, **self.parameters.get(rule.id, {})}, self.today, accepted
            )
        return self._parameters[rule.id]

    def exemption(self, rule: str, resource: str, path: str, state: State) -> Exemption | None:
        """The exemption in force for the field `path` of `resource` (as `Kind/name`), None if there
        is none.
        """
        live = (each for each in self.exemptions if each.expires >= self.today)
        covered = (rule, resource, path, state)
        return next(
            (
                each
                for each in live
                if (each.rule, each.resource, each.path, STATES[each.state]) == covered
            ),
            None,
        )

    @property
    def expired(self) -> tuple[Exemption, ...]:
        return tuple(each for each in self.exemptions if each.expires < self.today)


def today() -> str:
    return dt.datetime.now(tz=dt.UTC).date().isoformat()
