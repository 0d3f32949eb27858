"""CLI commands on stacks of the rehearsal, and their output.

Most run in the process of the tests: starting Python and loading the SDKs takes as much processor
time as a command does. One test of each file that uses them starts a process, as a user does.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.commands.main import run
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
STACK = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()


# No credentials of AWS, and nowhere to get any: a rehearsal must not need them.
_PRESET = {
    "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
    "COLUMNS": "1000",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def started(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in its own process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment |= {**_PRESET, "INFERPLAN_STATE_DIR": str(state)}
    command = [str(Path(sys.executable).parent / "inferplan"), *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )


def inferplan(state: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A command in this process."""
    output, messages = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name in [each for each in os.environ if each.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in {**_PRESET, "INFERPLAN_STATE_DIR": str(state)}.items():
            patch.setenv(name, value)
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(messages),
            pytest.raises(SystemExit) as end,
        ):
            run(arguments)
    return subprocess.CompletedProcess(
        arguments, int(end.value.code or 0), output.getvalue(), messages.getvalue()
    )


def up(state: Path, stack: str | Path = "local") -> str:
    done = inferplan(state, "up", str(stack), "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr + done.stdout


def changed_objects(output: str) -> int:
    found = re.search(r"^(\d+) objects? changed", output, re.MULTILINE)
    assert found, output
    return int(found[1])


def variant(folder: Path, old: str, new: str) -> Path:
    """The local stack with `new` in place of `old`, as a file of the same name in `folder`."""
    path = folder / "Pulumi.local.yaml"
    assert old in STACK
    path.write_text(STACK.replace(old, new))
    return path
