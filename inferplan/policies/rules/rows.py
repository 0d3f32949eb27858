"""Rules without code: rows of `rules.toml` that say which values the fields of pods, containers or
objects must have.
"""

from collections.abc import Mapping
from typing import Any

from inferplan.policies.engine.rule import RULES, Rule, make_rule
from inferplan.policies.subjects.pods import CONTAINERS, PODS
from inferplan.policies.subjects.tables import Table, rows_of, violations_of
from inferplan.tables import table

_PARTS = {"pods": PODS, "containers": CONTAINERS}


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    rows = row.get("rows") or table(f"policies/rules/{row['table']}.toml")["row"]
    if "of" in row:
        of_part = rows_of(rows)
        return make_rule(name, _PARTS[row["of"]], lambda part, _: violations_of(of_part, part))
    by_kind = Table(rows)
    return make_rule(name, by_kind.subject(), by_kind.check)


globals().update(
    {
        name: _rule(name, row)
        for name, row in table(RULES).items()
        if not {"rows", "table"}.isdisjoint(row)
    }
)
