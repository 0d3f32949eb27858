"""The prerequisites of AWS (`rows.toml`), each checked against the account that a stack meets, with
a remedy that can be executed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.tables import table

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Unchecked:
    """Something that a check could not examine, and why."""

    reason: str
    remedy: str = ""


EXAMINED: Final = "examined"
"""Yielded by a check for each thing at which it looked. A row without one is not checked."""
Check = Callable[[World], Iterator[Values | Unchecked | str]]
CHECKS: dict[str, Check] = {}


@dataclass(frozen=True, kw_only=True)
class Unmet:
    """A prerequisite that the account does not meet: what is wrong, and a command or an edit of the
    stack file.
    """

    problem: str
    remedy: str
    severity: Literal["error", "warning", "unknown"]


def rows() -> Mapping[str, Any]:
    return table("components/platforms/aws/prerequisites/rows.toml")


def judge(name: str, world: World) -> Iterator[Unmet | Unchecked | str]:
    """Check the row `name`: yield what is not met, what could not be checked, and EXAMINED for each
    thing at which it looked. Raises what `world.ask` raises, except for a missing resource.
    """
    row = rows()[name]
    common = {"region": world.cluster.region, "cluster": world.cluster.name, "vpc": world.vpc}
    for values in CHECKS[name](world):
        if isinstance(values, Unchecked | str):
            yield values
            continue
        fields = {**common, **values}
        texts = (row["remedy"], row.get("otherwise", ""), row.get("last", row["remedy"]))
        remedy = next(
            (
                text
                for text in texts
                if text and not any(f"{{{key}}}" in text and fields[key] is None for key in fields)
            ),
            texts[-1],
        )
        yield Unmet(
            problem=row["problem"].format_map(fields),
            remedy=remedy.format_map(fields),
            severity=values.get("severity", "error"),
        )


def unmet(name: str, world: World) -> Iterator[Unmet]:
    yield from (each for each in judge(name, world) if isinstance(each, Unmet))


def prerequisite(name: str) -> Callable[[Check], Check]:
    """Register the check of the row `name`, which yields the values of its texts for each place
    where it is not met.
    """

    def register(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return register


def rows_with_checks() -> tuple[str, ...]:
    """Return the names of the rows, in the order of the table."""
    for module in (
        "subnets",
        "ways_out",
        "endpoints",
        "network",
        "cluster",
        "principals",
        "storage",
        "weights",
        "keys",
        "quotas",
    ):
        import_module(f"{__package__}.{module}")
    return tuple(name for name, row in rows().items() if isinstance(row, dict))
