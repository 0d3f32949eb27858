"""Trials in containers of a real engine: vLLM answers without a network, and a killed trial leaves
nothing after the next one.

The image has a shell and Debian's Python; vLLM's environment is mounted, which takes no copy of 6 GB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import RequestError
from inferplan.progress import silent
from inferplan.rehearsal.node import images
from inferplan.trial.container import Container
from inferplan.trial.engines import vllm
from inferplan.trial.subject import Subject
from tests.dataplane.serving.vllm_stand import prepared, weights
from tests.patience import PATIENCE_SECONDS
from tests.unit.serving.models import container_of
from tests.unit.serving.models import vllm as vllm_model

IMAGE = "localhost/trial-python:1"
# The interpreter's own installation, the system's libraries, and the program that vLLM's CPU build
# asks for the cores, which upstream's images have.
SYSTEM = (Path(sys.base_prefix), Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/bin/lscpu"))


def answers(engine: str) -> bool:
    if shutil.which(engine) is None:
        return False
    return not subprocess.run([engine, "ps"], capture_output=True, check=False).returncode


ENGINES = [each for each in ("docker", "podman") if answers(each)]
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not ENGINES, reason="docker and podman do not answer"),
]


@pytest.fixture(scope="module", params=ENGINES or [""])
def engine(request):
    archive = images._archive("python", IMAGE, silent)
    subprocess.run([request.param, "load", "--input", archive], check=True, capture_output=True)
    return request.param


class WithEnvironment(Container):
    """A container that finds vLLM in a mounted environment."""

    def python(self, _: str) -> str:
        return str(self.reads[1] / "bin" / "python")


def tried(engine: str, environment: Any, directory: Path, **fields: Any) -> list[Any]:
    model = vllm_model(**fields)
    system = [f"--mount=type=bind,source={each},target={each},readonly" for each in SYSTEM]
    reads = (directory, environment.root)
    place = WithEnvironment(engine=engine, image=IMAGE, reads=reads, options=system)
    place.prepare(lambda _: None)
    subject = Subject(
        name="chat", spec=model, container=container_of(model), weights=directory, place=place
    )
    return list(vllm.run(subject, lambda _: None))


@pytest.fixture(scope="module")
def environment(vllm_environment):
    return prepared(vllm_environment)


@pytest.fixture(scope="module")
def files(environment, tmp_path_factory):
    return weights(environment, tmp_path_factory.mktemp("models") / "chat")


def test_vllm_answers_in_a_container_without_a_network(engine, environment, files):
    findings = tried(engine, environment, files)
    assert [each for each in findings if each.state != "works"] == []
    assert "a chat" in [each.step for each in findings]


def test_vllm_rejects_in_a_container_what_it_rejects_in_a_pod(engine, environment, files):
    (finding,) = tried(engine, environment, files, maxModelLen=4096)
    assert (finding.step, finding.state) == ("arguments", "rejected")
    assert finding.path == ("models", "chat", "maxModelLen")


TRIAL = """
import sys
from pathlib import Path
from inferplan.trial.container import Container
container = Container(engine=sys.argv[1], image=sys.argv[2], reads=())
with container.started(["sh", "-c", "echo up; sleep 1000"], {}, Path(sys.argv[3])) as process:
    assert process.wait(lambda: "up" in process.log, 120)
    print("started", flush=True)
    process.wait(lambda: False, 1000)
"""


def containers(engine: str) -> list[str]:
    listed = [engine, "ps", "--all", "--filter=label=inferplan.trial", "--format={{.Names}}"]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()


def test_the_next_trial_removes_the_container_of_a_killed_one(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "folder").mkdir()
    before = containers(engine)
    line = [sys.executable, "-c", TRIAL, engine, IMAGE, str(tmp_path / "folder")]
    trial = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert trial.stdout is not None
    assert trial.stdout.readline() == "started\n"
    trial.kill()
    trial.communicate(timeout=PATIENCE_SECONDS)
    assert len(containers(engine)) == len(before) + 1
    Container(engine=engine, image=IMAGE, reads=()).prepare(lambda _: None)
    assert containers(engine) == before


def test_a_container_beyond_its_memory_is_killed_and_told(engine):
    # The memory of the container, and not of this computer, is full.
    container = Container(engine=engine, image=IMAGE, reads=())
    program = "x = bytearray(9 << 30); print(len(x))"
    with pytest.raises(RequestError, match="was killed \\(exit code 137\\)"):
        container.finished(["python3", "-c", program], {}, PATIENCE_SECONDS, "late")
