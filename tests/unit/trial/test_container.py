"""An engine in a container: what its container engine is told, what reaches the engine, and what is
left afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.errors import RequestError
from inferplan.trial.container import Container
from inferplan.trial.process import free_port
from inferplan.trial.questions import Question, ask, read
from tests.patience import PATIENCE_SECONDS
from tests.unit.trial.docker import Docker, installed

IMAGE = "docker.io/acme/engine:1"
KEY = "0a1b2c3d4e5f"
SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = json.dumps({"args": sys.argv[2:], "env": dict(os.environ)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *_): pass
HTTPServer(("127.0.0.2", int(sys.argv[1])), Server).serve_forever()
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    return installed(tmp_path / "docker", monkeypatch)


@pytest.fixture
def container(docker, tmp_path):
    docker.image(IMAGE, {})
    weights = tmp_path / "weights"
    weights.mkdir()
    return Container(engine="docker", image=IMAGE, reads=(weights,))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


def refused(container: Container) -> str:
    with pytest.raises(RequestError) as raised:
        container.prepare(lambda _: None)
    return str(raised.value)


def test_questions_reach_a_server_without_a_network(container, docker, folder, monkeypatch):
    monkeypatch.setenv("OF_THIS_SHELL", "secret")
    port = free_port()
    command = ["python3", "-c", SERVER, str(port), f"--key={KEY}", "it's"]
    with container.started(
        command, {"ENGINE_KEY": KEY, "MODE": "a b"}, folder, port=port, key=KEY
    ) as process:
        url = f"http://127.0.0.1:{port}"
        assert process.wait(lambda: read(url, "/", "") is not None, PATIENCE_SECONDS)
        seen = read(url, "/", "")
        assert ask(url, Question("q", "/", {"prompt": "x" * 300_000}), "").status == 200
        assert len(docker.containers) == 1
    assert seen["args"] == [f"--key={KEY}", "it's"]
    assert (seen["env"]["ENGINE_KEY"], seen["env"]["MODE"]) == (KEY, "a b")
    assert "OF_THIS_SHELL" not in seen["env"]
    assert docker.containers == []
    assert KEY not in " ".join(docker.last_run)


def test_variables_of_the_plan_do_not_configure_the_client(container, docker):
    program = ["sh", "-c", 'echo "$DOCKER_HOST"']
    done = container.finished(program, {"DOCKER_HOST": "evil"}, PATIENCE_SECONDS, "late")
    assert done.stdout == "evil\n"
    assert docker.last_client.get("DOCKER_HOST") is None


@pytest.mark.parametrize(
    "replacement",
    ["ln -s {secret} engine.log", "mkfifo engine.log; echo secret > engine.log &"],
)
def test_a_program_cannot_replace_its_log(container, tmp_path, replacement):
    (tmp_path / "secret").write_text("secret")
    replaced = f"rm -f engine.log; {replacement.format(secret=tmp_path / 'secret')}"
    program = ["sh", "-c", f"{replaced}\necho own words"]
    done = container.finished(program, {}, PATIENCE_SECONDS, "late")
    assert done.stdout == "own words\n"


def test_it_may_write_into_its_folder_alone(container, docker, tmp_path):
    blob = tmp_path / "blobs" / "1f"
    blob.parent.mkdir()
    blob.write_text("{}")
    (container.reads[0] / "config.json").symlink_to(blob)
    container.finished(["true"], {}, PATIENCE_SECONDS, "late")
    mounts = [each for each in docker.last_run if each.startswith("--mount")]
    for path in (*container.reads, blob):
        assert f"--mount=type=bind,source={path},target={path},readonly" in mounts
    assert len([each for each in mounts if not each.endswith(",readonly")]) == 1
    assert f"--user={os.getuid()}:{os.getgid()}" in docker.last_run
    assert "--memory=8g" in docker.last_run


def test_a_program_gets_its_input_and_its_words_come_back(container):
    done = container.finished(["cat"], {}, PATIENCE_SECONDS, "late", text="of the plan")
    assert (done.returncode, done.stdout) == (0, "of the plan")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-program"], f"{IMAGE} cannot run the program of the trial"),
        (["sh", "-c", "kill -9 $$"], "was killed (exit code 137). Its limit is 8 GiB of memory"),
    ],
)
def test_a_program_that_does_not_run_or_is_killed_is_no_verdict(container, docker, command, said):
    with pytest.raises(RequestError) as raised:
        container.finished(command, {}, PATIENCE_SECONDS, "late")
    assert said in str(raised.value)
    assert docker.containers == []


def test_a_killed_program_with_accelerators_has_no_limit(container):
    container = replace(container, accelerators=1)
    with pytest.raises(RequestError) as raised:
        container.finished(["sh", "-c", "kill -9 $$"], {}, PATIENCE_SECONDS, "late")
    assert "was killed (exit code 137). Free memory on this computer" in str(raised.value)


@pytest.mark.parametrize(
    ("engine", "status"), [("docker", 125), ("podman", 125), ("nerdctl", 1), ("docker", 127)]
)
def test_a_container_that_does_not_start_is_no_verdict(container, docker, engine, status):
    if engine != "docker":
        (docker.root / engine).symlink_to("docker")
    (docker.root / "start").write_text(f"{status} permission denied: /dev/kfd")
    container = replace(container, engine=engine, options=("--gpus=all",))
    with pytest.raises(RequestError) as raised:
        container.finished(["true"], {}, PATIENCE_SECONDS, "late")
    said = str(raised.value)
    assert f"{engine} cannot run a container of {IMAGE} (docker: permission denied" in said
    assert f"test it with `{engine} run --rm --entrypoint=true --gpus=all {IMAGE}`" in said
    assert "Log in" not in said


def test_a_program_that_fails_is_a_verdict(container):
    program = ["sh", "-c", "echo words; exit 1"]
    done = container.finished(program, {}, PATIENCE_SECONDS, "late")
    assert (done.returncode, done.stdout) == (1, "words\n")


def test_a_program_that_hangs_is_ended(container, docker):
    with pytest.raises(RequestError, match="too late"):
        container.finished(["sleep", "1000"], {}, 0.1, "too late")
    assert docker.containers == []


def test_a_mount_that_docker_rejects_is_told_with_its_words(docker, tmp_path):
    docker.image(IMAGE, {})
    container = Container(engine="docker", image=IMAGE, reads=(tmp_path / "nowhere",))
    with pytest.raises(RequestError) as raised:
        container.finished(["true"], {}, PATIENCE_SECONDS, "late")
    assert f"docker cannot run a container of {IMAGE} (docker: invalid mount" in str(raised.value)
    assert f"docker run --rm --entrypoint=true {IMAGE}" in str(raised.value)


@pytest.mark.usefixtures("docker")
def test_an_engine_that_is_not_here_is_named(tmp_path):
    said = refused(Container(engine="nerdctl", image=IMAGE, reads=(tmp_path,)))
    assert "nerdctl is not a program on this computer. Install it, or leave --container out" in said


def test_a_daemon_that_does_not_answer_is_named(container, docker):
    (docker.root / "down").touch()
    assert "docker does not answer (docker: Cannot connect to the Docker daemon" in refused(
        container
    )


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("pull access denied for acme/engine", "Log in with `docker login registry.test:5000`"),
        ("manifest unknown", "Correct the image in the stack file"),
        ("write /var/lib/docker: no space left on device", "Remove images that you do not need"),
        ("dial tcp: lookup registry.test: no such host", "Connect this computer to the registry"),
        ("x509: certificate signed by unknown authority", "Connect this computer to the registry"),
        ("failed to resolve reference: registry.test/acme: not found", "Correct the image"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_told_with_a_remedy(docker, tmp_path, error, remedy):
    (docker.root / "pull").write_text(error)
    image = "registry.test:5000/acme/engine:1"
    said = refused(Container(engine="docker", image=image, reads=(tmp_path,)))
    assert f"docker cannot pull {image} (docker: {error})" in said
    assert remedy in said


def test_an_image_that_is_here_is_not_pulled(container, docker):
    (docker.root / "pull").write_text("no network")
    container.prepare(lambda _: None)


TRIAL = """
import sys
from pathlib import Path
from inferplan.trial.container import Container
container = Container(engine="docker", image=sys.argv[1], reads=())
folder = Path(sys.argv[2])
with container.started(["sleep", "1000"], {}, folder) as process:
    print("started", flush=True)
    process.wait(lambda: False, 1000)
"""


def started_trial(docker: Docker, folder: Path) -> subprocess.Popen[str]:
    """A trial in another process, whose container runs."""
    before = docker.containers
    trial = subprocess.Popen(
        [sys.executable, "-c", TRIAL, IMAGE, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert trial.stdout is not None
    assert trial.stdout.readline() == "started\n"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while docker.containers == before and time.monotonic() < deadline:
        time.sleep(0.05)  # docker tells nobody that a container has started
    assert docker.containers != before
    return trial


@pytest.mark.usefixtures("container")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ended_trial_leaves_no_container(docker, folder, number):
    trial = started_trial(docker, folder)
    trial.send_signal(number)
    trial.communicate(timeout=PATIENCE_SECONDS)
    assert docker.containers == []


def test_the_next_trial_removes_the_container_of_a_killed_one_and_no_other(
    container, docker, folder, tmp_path
):
    other = tmp_path / "other"
    other.mkdir()
    killed, running = started_trial(docker, folder), started_trial(docker, other)
    assert len(docker.containers) == 2
    killed.kill()
    killed.communicate(timeout=PATIENCE_SECONDS)
    container.prepare(lambda _: None)
    (left,) = docker.containers
    record: Any = json.loads((docker.root / "containers" / left).read_text())
    os.kill(record["pid"], 0)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_SECONDS)
    assert docker.containers == []
