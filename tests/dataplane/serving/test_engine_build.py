"""The program of the Job that builds engines, run as the Job lays it out, with small programs in
the place of TensorRT-LLM's two.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.preheat.verify import verify
from inferplan.components.serving.tensorrt_llm.engine_build import engine_program
from tests.dataplane.serving.triton_stand import write
from tests.patience import PATIENCE_SECONDS

KEY = "0123456789"
# Both write down how they were called; what they should do wrong is told by the model's own file.
CONVERT = """
import json, pathlib, sys
given = dict(each.removeprefix("--").split("=", 1) for each in sys.argv[1:])
wrong = json.loads((pathlib.Path(given["model_dir"]) / "wrong.json").read_text())
if "convert" in wrong:
    sys.exit(wrong["convert"])
out = pathlib.Path(given["output_dir"])
(out / "config.json").write_text(json.dumps({"world_size": int(given["tp_size"]) * int(given["pp_size"]), **wrong}))
"""
BUILD = """#!{python}
import json, pathlib, sys, time
given = dict(each.removeprefix("--").split("=", 1) for each in sys.argv[1:])
checkpoint = json.loads((pathlib.Path(given["checkpoint_dir"]) / "config.json").read_text())
out = pathlib.Path(given["output_dir"])
with open(pathlib.Path(__file__).parent / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if "wait" in checkpoint:
    (pathlib.Path(__file__).parent / "waiting").touch()
    time.sleep(300)
ranks = checkpoint["world_size"] - checkpoint.get("missing", 0)
for rank in range(ranks):
    (out / f"rank{{rank}}.engine").write_bytes(b"engine" * (rank + 1))
(out / "config.json").write_text(json.dumps({{"pretrained_config": {{"mapping": {{"world_size": checkpoint.get("says", ranks)}}}}}}))
sys.exit(checkpoint.get("build", 0))
"""


class Rig:
    """A share, weights, an image's examples and its trtllm-build."""

    def __init__(self, root: Path) -> None:
        self.share, self.weights, self.home, self.tools = (
            root / "share",
            root / "weights",
            root / "home",
            root / "tools",
        )
        for each in (self.share, self.weights, self.tools):
            each.mkdir()
        write(engine_program(), self.home)
        write({"llama/convert_checkpoint.py": CONVERT}, root / "examples")
        self.examples = root / "examples"
        (self.tools / "trtllm-build").write_text(BUILD.format(python=sys.executable))
        (self.tools / "trtllm-build").chmod(0o755)
        self.model()

    def model(self, **wrong: Any) -> None:
        (self.weights / "wrong.json").write_text(json.dumps(wrong))

    def directory(self, number: int = 0) -> Path:
        return self.share / f"engines/llama/{KEY}-r{number}"

    @property
    def calls(self) -> list[str]:
        log = self.tools / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def start(self, *, number: int = 0, **changes: Any) -> subprocess.Popen[str]:
        request = {
            "job": "chat-engines",
            "weights": str(self.weights),
            "source": "llm/llama at a1",
            "target": str(self.share),
            "directory": str(self.directory(number).relative_to(self.share)),
            "key": KEY,
            "keep": 2,
            "ranks": 2,
            "family": "llama",
            "examples": [str(self.examples / "core"), str(self.examples)],
            "convert": [f"--model_dir={self.weights}", "--tp_size=2", "--pp_size=1"],
            "build": ["--max_batch_size=8"],
            **changes,
        }
        environment = {
            **os.environ,
            "ENGINE_REQUEST": json.dumps(request),
            "PATH": os.pathsep.join([str(self.tools), "/usr/bin", "/bin"]),
            "PYTHONPATH": "",
        }
        # Without site-packages, so that what is missing from the Job's files is not found in the
        # project.
        command = [sys.executable, "-S", "-m", "components.serving.tensorrt_llm.payload.engines"]
        return subprocess.Popen(
            command,
            cwd=self.home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **changes: Any) -> tuple[int, str]:
        process = self.start(**changes)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, said


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_engines_are_published_behind_a_ready_file_that_verify_reads(rig):
    code, said = rig.run()
    assert code == 0, said
    assert said.splitlines()[-1].startswith("READY: 3 files")
    verdict = verify(rig.directory())
    assert verdict.good
    assert verdict.manifest is not None
    assert (
        verdict.manifest.revision,
        sorted(entry.path for entry in verdict.manifest.entries),
    ) == (
        KEY,
        ["config.json", "rank0.engine", "rank1.engine"],
    )
    assert [call.split()[-1] for call in rig.calls] == ["--max_batch_size=8"]
    assert not list((rig.share / ".inferplan" / "staging").rglob("checkpoint"))


def test_engines_that_are_there_are_not_built_again(rig):
    assert rig.run()[0] == 0
    code, said = rig.run()
    assert code == 0
    assert "there already" in said
    assert len(rig.calls) == 1


@pytest.mark.full
def test_a_damaged_engine_is_built_again(rig):
    assert rig.run()[0] == 0
    (rig.directory() / "rank0.engine").write_bytes(b"torn")
    code, said = rig.run()
    assert code == 0, said
    assert "damaged, so it is built again" in said
    assert verify(rig.directory()).good


def test_a_new_round_lies_beside_the_old_one_and_the_oldest_goes(rig):
    assert [rig.run(number=number)[0] for number in range(3)] == [0, 0, 0]
    assert [rig.directory(number).is_dir() for number in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    ("wrong", "changes", "said"),
    [
        ({"convert": 9}, {}, "converting the weights failed with exit code 9"),
        ({"build": 1}, {}, "building the engines failed with exit code 1"),
        ({"missing": 1}, {}, "rank1.engine: trtllm-build ended well and left this file out"),
        ({"says": 4}, {}, "expected 2, found 4"),
        ({}, {"family": "lama"}, "write one of llama as build.modelFamily"),
        ({}, {"examples": ["/nowhere"]}, "name another image, or remove build"),
    ],
)
def test_a_build_that_fails_publishes_nothing_and_says_why_in_its_last_line(
    rig, wrong, changes, said
):
    rig.model(**wrong)
    code, log = rig.run(**changes)
    assert code == 3
    assert said in log.splitlines()[-1]
    assert not rig.directory().exists()


def test_an_image_without_the_builder_is_told_as_that(rig):
    (rig.tools / "trtllm-build").unlink()
    code, log = rig.run()
    assert code == 3
    assert "this image has no trtllm-build" in log.splitlines()[-1]


def test_a_stopped_build_publishes_nothing_and_the_next_one_builds(rig):
    rig.model(wait=True)
    process = rig.start()
    while not (rig.tools / "waiting").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    log, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143, log
    assert not rig.directory().exists()
    rig.model()
    assert rig.run()[0] == 0


def test_two_builds_of_the_same_engines_make_them_once(rig):
    processes = [rig.start() for _ in range(2)]
    logs = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], logs
    assert len(rig.calls) == 1


def test_a_share_that_nobody_may_write_to_is_told_as_that(rig):
    (rig.share / ".inferplan").write_text("in the way")
    code, log = rig.run()
    assert code == 4
    assert "the share failed" in log.splitlines()[-1]
