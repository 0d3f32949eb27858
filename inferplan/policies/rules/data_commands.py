"""Commands that delete stored data, or that let every user write it."""

import re
from functools import lru_cache

from inferplan.policies.engine.rule import Parameters, Violations, resource_rule, violation
from inferplan.policies.subjects.pods import CONTAINERS, Container
from inferplan.tables import table


@resource_rule(CONTAINERS)
def pod_restrict_data_commands(container: Container, _: Parameters) -> Violations:
    for field, text in container.commands:
        yield from (violation(field, problem) for problem in _problems_of(text))


@lru_cache(maxsize=1024)
def _problems_of(text: str) -> tuple[str, ...]:
    rows = table("policies/rules/data_commands.toml")
    return tuple(problem for problem, pattern in rows.items() if re.search(pattern, text))
