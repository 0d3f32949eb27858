"""What a repository and its service say about versions, limits, caches, warm-ups, metrics, ports
and shared memory, on a real tritonserver.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import pytest

from inferplan.kube.quantity import bytes_of
from tests.dataplane.serving.triton_models import GENERATION, GENERATOR, TEXT
from tests.dataplane.serving.triton_stand import Triton, generated, running, spec_of, verdict_on
from tests.patience import PATIENCE_SECONDS

# Says whether another execution of the model runs at the same time; the first one waits for a file.
ALONE = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.place = json.loads(args["model_config"])["parameters"]["place"]["string_value"]
    def execute(self, requests):
        return [self.answer() for request in requests]
    def answer(self):
        busy = os.path.join(self.place, "busy")
        try:
            os.close(os.open(busy, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return self.said("beside another one")
        while not os.path.exists(os.path.join(self.place, "go")):
            time.sleep(0.01)
        os.remove(busy)
        return self.said("alone")
    def said(self, text):
        return pb_utils.InferenceResponse([pb_utils.Tensor("said", np.array([[text.encode()]], dtype=np.object_))])
"""
# Says how many requests each execution before this one held.
REMEMBERS = """
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.held = []
    def execute(self, requests):
        said = " ".join(map(str, self.held)).encode()
        self.held.append(len(requests))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("said", np.array([[said]], dtype=np.object_))]) for request in requests]
"""
MODEL: dict[str, Any] = {
    "kind": "python",
    "maxBatchSize": 8,
    "input": {"text": TEXT},
    "output": {"said": TEXT},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def triton(tritonserver, place, tmp_path_factory):
    limited = {
        "instances": 2,
        "rateLimiter": {"resources": {"slots": 1}},
        "parameters": {"place": str(place)},
    }
    repository = {
        "cached": {
            **GENERATION,
            "generator": GENERATOR,
            "responseCache": True,
            "version": 3,
            "versionPolicy": {"all": True},
        },
        "newest": {
            **GENERATION,
            "generator": GENERATOR,
            "version": 2,
            "versionPolicy": {"latest": 1},
        },
        "limited": {**MODEL, **limited, "code": ALONE, "versionPolicy": {"specific": [1]}},
        "warm": {
            **MODEL,
            "code": REMEMBERS,
            "warmup": [{"batchSize": 4, "count": 2, "dims": {"text": [1]}}],
        },
    }
    metrics = {"summaryLatencies": True, "intervalMs": 500}
    spec = spec_of(
        repository,
        responseCacheSize="1Mi",
        metrics=metrics,
        sharedMemory="16Mi",
        modelLoadThreadCount=2,
    )
    with running(
        tritonserver,
        spec,
        generated(spec, place),
        tmp_path_factory.mktemp("repository"),
        shared_memory=True,
    ) as server:
        yield server


def metrics(triton: Triton) -> list[str]:
    status, body = triton.ask("GET", "/metrics", port=triton.spec.ports.metrics)
    assert status == 200
    return body.decode().splitlines()


@pytest.mark.parametrize(("model", "version"), [("cached", "3"), ("newest", "2"), ("limited", "1")])
def test_each_version_policy_serves_the_version_that_is_written(triton, model, version):
    assert json.loads(triton.ask("GET", f"/v2/models/{model}")[1])["versions"] == [version]


def test_a_repeated_request_is_answered_from_the_cache(triton):
    for _ in range(2):
        assert triton.infer("cached", text_input=("BYTES", ["cache me"])) == {
            "text_output": ["me cache"]
        }
    _, body = triton.ask("GET", "/v2/models/cached/stats")
    assert json.loads(body)["model_stats"][0]["inference_stats"]["cache_hit"]["count"] >= 1


def test_executions_wait_for_the_resource_that_they_share_though_an_instance_is_idle(triton, place):
    said: list[str] = []
    callers = [
        threading.Thread(
            target=lambda: said.extend(triton.infer("limited", text=("BYTES", ["x"]))["said"])
        )
        for _ in "ab"
    ]
    callers[0].start()
    triton.await_file(place / "busy")
    callers[1].start()
    # Its turn does not come while the first one runs: it is either counted as waiting, or has
    # answered beside the other.
    while (
        'nv_inference_pending_request_count{model="limited",version="1"} 1' not in metrics(triton)
        and not said
    ):
        time.sleep(0.01)
    (place / "go").touch()
    for each in callers:
        each.join(timeout=PATIENCE_SECONDS)
    assert said == ["alone", "alone"]


def test_a_warm_up_has_run_before_the_first_request(triton):
    assert triton.infer("warm", text=("BYTES", ["x"]))["said"] == ["4 4"]


def test_metrics_answer_on_their_own_port_with_the_quantiles_that_were_asked_for(triton):
    assert triton.infer("newest", text_input=("BYTES", ["a"]))
    lines = metrics(triton)
    assert [
        each
        for each in lines
        if each.startswith('nv_inference_request_success{model="newest",version="2"}')
    ]
    assert [
        each for each in lines if each.startswith('nv_inference_request_summary_us{model="newest"')
    ]
    assert triton.ask("GET", "/metrics")[0] == 404


def test_a_server_serves_within_the_shared_memory_of_its_pod(triton):
    given = os.statvfs(f"/proc/{triton.process.pid}/root/dev/shm")
    assert (
        given.f_blocks * given.f_frsize == bytes_of("16Mi") == bytes_of(triton.spec.shared_memory)
    )
    assert given.f_bavail < given.f_blocks


@pytest.mark.full
def test_shared_memory_that_validation_just_takes_the_server_takes_and_less_it_refuses(
    tritonserver, tmp_path
):
    repository = {"newest": {**MODEL, "code": REMEMBERS, "instances": 4}}
    just = spec_of(repository, sharedMemory="4Mi")
    with running(
        tritonserver, just, generated(just, tmp_path), tmp_path / "just", shared_memory=True
    ) as server:
        assert server.infer("newest", text=("BYTES", ["x"]))
    less = just.model_copy(update={"shared_memory": "3Mi"})
    verdict = verdict_on(
        tritonserver, less, generated(less, tmp_path), tmp_path / "less", shared_memory=True
    )
    assert (verdict.serving, "requires at least 1 MB of shared memory" in verdict.log) == (
        False,
        True,
    )
