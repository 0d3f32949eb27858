"""The bind script that we ship, run by the real PyTriton: it serves, streams, refuses, and drains
when it is told to end.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.gateway import keys
from inferplan.components.serving.pytriton.service import script_files
from inferplan.components.serving.pytriton.spec import PyTritonSpec
from inferplan.components.serving.triton.service import KEY_VARIABLE
from inferplan.components.serving.triton.spec import TritonSpec
from tests.dataplane.gateway.stand import SEED
from tests.dataplane.serving.environment import Environment
from tests.dataplane.serving.triton_models import GENERATOR
from tests.dataplane.serving.triton_stand import Triton, with_own_mounts, write
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.unit.serving.models import site

START_SECONDS = 500
SERVER_KEY = keys.server_key(SEED, "chat")


@contextmanager
def serving(
    tritonserver,
    directory,
    *,
    beside: Environment | None = None,
    before: Sequence[str] = (),
    weights: Path | None = None,
    **fields: Any,
):
    """The script in a directory of its own, ready; its process is ended by its id. By default it
    gets a generator of ours, and weights for it.

    `beside` holds packages that its own environment lacks; `before` stands before its command.
    """
    ports = {"http": free_port(), "grpc": free_port(), "metrics": free_port()}
    own = {} if weights else {"generator": GENERATOR}
    spec = PyTritonSpec.model_validate(
        {
            "engine": "pytriton",
            "weights": {"store": "s", "path": "p"},
            "pool": "p",
            "ports": ports,
            **own,
            **fields,
        }
    )
    if weights is None:
        weights = directory / "weights"
        weights.mkdir()
        (weights / "config.json").write_text("tiny")
    files = script_files(spec, site(), weights=str(weights), scripts=str(directory))
    # The only changes: no card, and loopback where a pod has its own address.
    settings: dict[str, Any] = {**json.loads(files["settings.json"]), "device": "cpu"}
    settings["server"] |= {
        "http_address": "127.0.0.1",
        "grpc_address": "127.0.0.1",
        "metrics_address": "127.0.0.1",
    }
    write({**files, "settings.json": json.dumps(settings)}, directory)
    environment = {
        **tritonserver.variables,
        "PYTRITON_HOME": str(directory / "home"),
        "HOME": "/proc",
        KEY_VARIABLE: SERVER_KEY,
    }
    if beside is not None:
        environment["PYTHONPATH"] = str(beside.packages)
    with (directory / "log").open("w+") as log:
        process = subprocess.Popen(
            [*before, str(tritonserver.python), str(directory / "serve.py"), str(directory / "settings.json")],
            env=environment, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        # The stand's calls ask for ports only.
        headers = {"triton-access-token": SERVER_KEY}
        asked = Triton(tritonserver, TritonSpec.model_construct(ports=spec.ports), process, headers)
        try:
            _await_ready(asked, spec.model_name, log)
            yield asked, weights
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=PATIENCE_SECONDS)


def _await_ready(server: Triton, model: str, log) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if server.ask("GET", f"/v2/models/{model}/ready")[0] == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        log.seek(0)
        assert server.process.poll() is None, log.read()[-3000:]
        assert time.monotonic() < deadline, log.read()[-3000:]
        time.sleep(0.05)


@pytest.fixture(scope="module")
def whole(tritonserver, tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    with serving(
        tritonserver,
        directory,
        maxBatchSize=8,
        maxTokens=3,
        dynamicBatching={"maxQueueDelayMicroseconds": 100},
    ) as (server, _):
        yield server, directory


def test_it_serves_batches_from_a_home_without_writing_elsewhere(whole):
    server, directory = whole
    assert server.infer("text_generation", text_input=("BYTES", ["a b", "c d"])) == {
        "text_output": ["b a", "d c"]
    }
    assert server.ask("GET", "/v2/health/ready")[0] == 200
    assert any((directory / "home").iterdir())


def test_without_the_servers_key_nothing_but_health_answers(whole):
    server, _ = whole
    stranger = replace(server, headers={})
    assert stranger.ask("GET", "/v2/health/ready")[0] == 200
    for method, path in (
        ("POST", "/infer"),
        ("POST", "/generate"),
        ("POST", "/generate_stream"),
        ("GET", ""),
        ("GET", "/config"),
    ):
        status, said = stranger.ask(
            method, f"/v2/models/text_generation{path}", {"text_input": "a"}
        )
        assert (status, b"restricted" in said) == (403, True), path


def test_the_default_and_the_requests_own_number_of_tokens_hold(whole):
    server, _ = whole
    assert server.infer("text_generation", text_input=("BYTES", ["a b c d e"]))["text_output"] == [
        "e d c"
    ]
    assert server.infer(
        "text_generation", text_input=("BYTES", ["a b c"]), max_tokens=("INT32", [1])
    )["text_output"] == ["c"]


def test_a_fault_is_an_answer_and_the_process_stays(whole):
    server, _ = whole
    status, body = server.ask(
        "POST", "/v2/models/text_generation/generate", {"text_input": "x", "max_tokens": 0}
    )
    assert (status >= 400, b"write 1 to" in body) == (True, True)
    assert server.infer("text_generation", text_input=("BYTES", ["a"]))["text_output"] == ["a"]


def test_each_prompt_of_a_batch_has_its_own_number_of_tokens(whole):
    server, _ = whole
    asked = {"text_input": ("BYTES", ["a b c", "d e f"]), "max_tokens": ("INT32", [1, 2])}
    assert server.infer("text_generation", **asked)["text_output"] == ["c", "f e"]


def test_a_stream_comes_in_pieces_beside_another_and_ends_before_a_process_that_is_told_to_end(
    tritonserver, tmp_path_factory
):
    # A short path: PyTriton's sockets lie below its home, and a socket's path ends at 107 bytes.
    with serving(
        tritonserver, tmp_path_factory.mktemp("pieces"), streaming=True, drainSeconds=200
    ) as (server, weights):
        assert [
            each["text_output"] for each in server.stream("text_generation", text_input="x y z")
        ] == ["z", "y", "x"]
        events: list = []
        caller = threading.Thread(
            target=lambda: events.extend(server.stream("text_generation", text_input="wait"))
        )
        caller.start()
        server.await_file(weights / "waiting")
        assert [
            each["text_output"] for each in server.stream("text_generation", text_input="x y")
        ] == ["y", "x"]
        server.process.send_signal(signal.SIGTERM)
        (weights / "go").touch()
        caller.join(timeout=PATIENCE_SECONDS)
        assert [each["text_output"] for each in events] == ["wait"]
        assert server.process.wait(timeout=PATIENCE_SECONDS) == 0


@pytest.mark.full
def test_it_serves_from_a_root_that_is_read_only_and_writes_to_its_volumes_alone(
    tritonserver, tmp_path_factory
):
    # As in the pod, where /tmp is a volume; the server unpacks the model there, whatever TMPDIR
    # says.
    directory = tmp_path_factory.mktemp("root")
    home = Path(__file__).parent
    own = (
        f"mount --bind {directory} {directory}; mount --bind /tmp /tmp; mount -o remount,bind,ro /;"
        f" ! touch {home}/written 2>/dev/null"
    )
    with serving(tritonserver, directory, before=with_own_mounts(own)) as (server, _):
        assert server.infer("text_generation", text_input=("BYTES", ["a b"])) == {
            "text_output": ["b a"]
        }
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=PATIENCE_SECONDS) == 0
