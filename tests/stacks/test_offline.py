"""Plans of the stacks on AWS with every way out of the machine closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import in_full

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
import socket, sys

def refuse(*arguments, **options):
    raise AssertionError(f"a plan went to the network: {arguments[1:]}")

socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = refuse
from inferplan.commands.main import run
run(["plan", sys.argv[1]])
"""


@pytest.mark.parametrize("stack", ["staging", *in_full("dev", "prod")])
def test_a_plan_needs_no_network_no_credentials_and_no_home(stack, tmp_path):
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AWS_", "PULUMI_", "KUBE"))
    }
    environment = {**kept, "HOME": str(tmp_path), "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stack],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "to create" in done.stdout
    assert "Traceback" not in done.stderr
