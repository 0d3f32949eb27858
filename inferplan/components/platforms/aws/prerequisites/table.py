"""The prerequisites of AWS (`rows.toml`), each checked against the account that a stack meets, with
a remedy that can be executed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.tables import table

Values = Mapping[str, Any]
Check = Callable[[World], Iterator[Values]]
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


def unmet(name: str, world: World) -> Iterator[Unmet]:
    """Check the row `name`. Raises what `world.ask` raises, except for a missing resource."""
    row = rows()[name]
    common = {"region": world.cluster.region, "cluster": world.cluster.name, "vpc": world.vpc}
    for values in CHECKS[name](world):
        fields = {**common, **values}
        remedy = row["remedy"]
        if any(f"{{{key}}}" in remedy and value is None for key, value in fields.items()):
            remedy = row.get("otherwise", remedy)
        severity = values.get("severity", "error")
        yield Unmet(
            problem=row["problem"].format_map(fields),
            remedy=remedy.format_map(fields),
            severity=severity,
        )


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
    for module in ("subnets", "network", "cluster", "storage", "quotas"):
        import_module(f"{__package__}.{module}")
    return tuple(name for name, row in rows().items() if isinstance(row, dict))
