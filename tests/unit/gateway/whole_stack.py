"""The stack `local` with another entrance, recorded as `inferplan plan` records it, and what the
policy pack says of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.settings import today
from inferplan.policies.engine.settings_reader import read_settings
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.reader import read_stack
from inferplan.workspace.project import stack_files

ROOT = Path(__file__).resolve().parents[3]
SEED = "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"


def recorded(secret_keys: frozenset[str] = frozenset(), **sections: Any) -> Recording:
    """What the program registers when `sections` (`gateway={...}`) take the place of the file's
    own.
    """
    file = read_stack(stack_files(ROOT)["local"])
    written = {f"inferplan:{name}": json.dumps(section) for name, section in sections.items()}
    config = {**file.config, **written, "inferplan:apiKeySeed": SEED}
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="local",
        config=config,
        secret_keys=secret_keys | {"inferplan:apiKeySeed"},
    )


def refusals(recording: Recording) -> list[str]:
    """The pack's refusals, with the exemptions that the stack `local` has."""
    from inferplan.planning.policy_check import settings_file, stack_of

    report = check_stack(
        stack_of(recording), read_settings(settings_file(ROOT, "local"), all_rules(), today())
    )
    return [f"{each.rule.id} {each.resource}" for each in report.violations]
