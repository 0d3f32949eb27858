"""CLI commands on stacks of the rehearsal, and their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
STACK = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()


def inferplan(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "INFERPLAN_STATE_DIR": str(state), "PULUMI_CONFIG_PASSPHRASE": "inferplan-example", "COLUMNS": "1000"}
    command = [str(Path(sys.executable).parent / "inferplan"), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)


def up(state: Path, stack: str | Path = "local") -> str:
    done = inferplan(state, "up", str(stack), "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr + done.stdout


def changed_objects(output: str) -> int:
    found = re.search(r"^(\d+) objects changed", output, re.MULTILINE)
    assert found, output
    return int(found[1])


def variant(folder: Path, old: str, new: str) -> Path:
    """The local stack with `new` in place of `old`, as a file of the same name in `folder`."""
    path = folder / "Pulumi.local.yaml"
    assert old in STACK
    path.write_text(STACK.replace(old, new))
    return path
