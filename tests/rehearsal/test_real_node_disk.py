"""A preheat into a share without room on the real node: `up` and `status` say what is full, and the
preheat goes on when there is room.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from inferplan.kube.names import REHEARSED_VOLUMES
from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.node import tiny_model
from inferplan.workspace.simulated_nodes import volume_of
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal.real_node import PASSPHRASE, ROOT, Lane, command, environment
from tests.rehearsal.test_real_node import pytestmark

__all__ = ["pytestmark"]
FULL = re.compile(
    r"the share \(/target: tmpfs tmpfs\) is full: expected [0-9.]+ MiB free, found [0-9.]+ KiB free; free some:"
    r" remove old models or lower preheat\.keep, or use a larger share\. What has arrived stays, the"
    r" next run continues"
)


@pytest.fixture
def stack(real_node: Lane, tmp_path, monkeypatch) -> Path:
    """The stack of the node, with a second model: its preheat runs on the node, and its server on a
    fake one.
    """
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
    document = yaml.safe_load(real_node.stack.read_text())
    config = document["config"]
    config["inferplan:nodePools"]["l4"] = {
        "provider": "simulated",
        "accelerator": "nvidia-l4",
        "nodes": 1,
    }
    config["inferplan:storage"]["shared"] = {"kind": "pvc", "claimName": "shared"}
    config["inferplan:models"]["copied"] = {
        **config["inferplan:models"]["tiny"],
        "pool": "l4",
        "preheat": {"into": "shared", "cpu": "100m", "memory": "512Mi"},
    }
    path = tmp_path / real_node.stack.name
    path.write_text(json.dumps(document))
    return path


@pytest.mark.full
def test_a_full_share_is_named_and_the_preheat_goes_on_when_there_is_room(stack, real_node: Lane):
    volume = volume_of(open_workspace(str(stack)).settings, "shared")
    (start(real_node.cluster).volumes / volume).mkdir(exist_ok=True)

    def mount(*options: str) -> None:
        inside = ["nsenter", "--target", str(real_node.programs()["kubelet"]), "--mount"]
        disk = ["tmpfs", f"{REHEARSED_VOLUMES}/{volume}"]
        subprocess.run([*inside, "mount", "-t", "tmpfs", *options, *disk], check=True)

    mount("-o", "size=1m,uid=65532,gid=65532")
    with subprocess.Popen(
        command("up", str(stack), "--node", "real"),
        cwd=ROOT,
        env=environment(real_node.state),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as update:
        assert update.stdout is not None
        waiting = next(line for line in update.stdout if "not READY" in line)
        assert "copied-preheat-" in waiting
        assert FULL.search(waiting), waiting
        shown = " ".join(real_node.run("status", str(stack), check=False).stdout.split())
        assert FULL.search(shown), shown
        mount("-o", "remount,size=64m")
        rest = update.stdout.read()
    assert update.returncode == 0, rest
    # The Job's next try found room, without another update.
    assert re.search(r"copied +shared +0 +ready +READY: tiny/", rest)
    # The first model of the stack has a server on a fake node, so the real one is asked.
    assert rest.splitlines()[-1] == tiny_model.SENTENCE
