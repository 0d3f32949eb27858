"""An interrupted benchmark prints one line and stops every process that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Starts a process as benchmarks start their servers, and stops it where the block ends.
ENDLESS = """
import subprocess, sys
from benchmarks.measuring import ended

def main():
    with subprocess.Popen(["sleep", "1000"]) as server:
        try:
            print("measuring", server.pid, flush=True)
            return server.wait()
        finally:
            server.kill()
            server.wait()

sys.exit(ended(main, "endless"))
"""
ALL = """
import sys
from benchmarks import __main__ as runner
from benchmarks.measuring import ended

runner.BENCHMARKS, runner.COMMAND = ("endless", "never"), [sys.executable, "-m"]
sys.exit(ended(runner.main, "benchmarks"))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("code", [ALL, ENDLESS])
def test_an_interrupted_benchmark_ends_in_one_line_with_all_that_it_started(tmp_path, code, number):
    (tmp_path / "endless.py").write_text(ENDLESS)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    server = next(int(line.split()[1]) for line in process.stdout if line.startswith("measuring"))
    process.send_signal(number)
    _, said = process.communicate(timeout=240)
    assert (process.returncode, said) == (
        130,
        "endless: interrupted; what it had started is stopped\n",
    )
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
