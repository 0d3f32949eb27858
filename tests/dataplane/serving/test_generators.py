"""The generators that inferplan ships, on a tiny Llama: alone, in the script for PyTriton, and in
the example of Triton. Only in the whole suite.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.pools import SimulatedPool
from inferplan.components.serving.triton.served import TritonPorts
from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.components.serving.triton.text_models import TextGeneration
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.dataplane.serving import generate
from tests.dataplane.serving.test_pytriton import serving
from tests.dataplane.serving.triton_models import ECHO
from tests.dataplane.serving.triton_stand import generated, running, with_packages_of
from tests.dataplane.serving.vllm_stand import prepared, weights
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

pytestmark = [pytest.mark.full, pytest.mark.timeout(2400)]

ROOT = Path(__file__).resolve().parents[3]
CPU = SimulatedPool.model_validate({"provider": "simulated", "nodes": 1}).target("system")
ARGS = {"dtype": "float32", "enforce_eager": True, "max_model_len": 256}
LIBRARIES = {"transformers": {}, "vllm": {"engineArgs": ARGS}}
# Without the first vLLM takes half of this machine's memory for the cache of a model of 500 kB.
QUIET = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


@pytest.fixture(scope="module")
def environment(vllm_environment):
    return prepared(vllm_environment)


@pytest.fixture(scope="module")
def model(environment, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny")
    return weights(environment, directory)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=LIBRARIES)
def fields(request) -> dict[str, Any]:
    return {"library": request.param, **LIBRARIES[request.param]}


def test_a_generator_answers_in_batches_in_pieces_and_side_by_side_alike(
    environment, model, fields, tmp_path
):
    shipped = TextGeneration.model_validate(fields)
    source = tmp_path / "generator.py"
    source.write_text(shipped.source() or "")
    parameters = json.dumps({"engine_args": json.dumps(ARGS)})
    done = subprocess.run(
        [str(environment.python), generate.__file__, str(source), str(model), parameters],
        check=False, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert all(said["whole"])
    assert (
        said["whole"]
        == said["alone"]
        == ["".join(each) for each in said["pieces"]]
        == said["beside"]
    )
    assert said["given up"] < 100
    assert said["after"] == said["whole"][:1]


@pytest.mark.parametrize("streaming", [False, True])
def test_the_script_for_pytriton_serves_it_until_it_is_told_to_end(
    tritonserver, environment, model, fields, streaming, tmp_path_factory
):
    directory = tmp_path_factory.mktemp("script")
    with serving(
        tritonserver, directory, beside=environment, weights=model, streaming=streaming, **fields
    ) as (triton, _):
        asked = {"text_input": "a longer prompt", "max_tokens": 6}
        pieces = [each["text_output"] for each in triton.stream("text_generation", **asked)]
        assert "".join(pieces)
        if not streaming:
            answer = triton.infer(
                "text_generation",
                text_input=("BYTES", ["a longer prompt"]),
                max_tokens=("INT32", [6]),
            )
            assert answer["text_output"] == pieces
        triton.process.send_signal(signal.SIGTERM)
        assert triton.process.wait(timeout=PATIENCE_SECONDS) == 0


def from_the_example(model: str) -> TritonSpec:
    """A model of the example in docs/engines as it stands there, but for its ports."""
    spec = validate(read_stack(ROOT / "docs" / "engines" / "Pulumi.triton.yaml")).models[model]
    assert isinstance(spec, TritonSpec)
    return spec.model_copy(
        update={"ports": TritonPorts(http=free_port(), grpc=free_port(), metrics=free_port())}
    )


@pytest.mark.parametrize(
    ("name", "public", "asked", "answer"),
    [
        (
            "writer",
            "text_generation",
            {"text_input": "a longer prompt", "stream": True},
            "text_output",
        ),
        ("guarded", "guarded", {"raw": "a longer prompt"}, "answer"),
        ("gaudi-writer", "text_generation", {"text_input": "a longer prompt"}, "text_output"),
    ],
)
def test_the_repositories_of_the_example_serve_a_tiny_model(
    tritonserver, environment, model, tmp_path, name, public, asked, answer
):
    """The stub of this server knows numpy 1 only, and vLLM's packages numpy 2 only; images of today
    hold a newer stub.
    """
    server = with_packages_of(
        tritonserver, tritonserver.environment, environment, directory=tmp_path / "both"
    )
    (model / "steps").mkdir(exist_ok=True)
    (model / "steps" / "clean.py").write_text(ECHO.format("raw", "text_input", "given"))
    spec = from_the_example(name)
    with running(
        server, spec, generated(spec, model, target=CPU), tmp_path / "repository"
    ) as triton:
        assert spec.public == (public,)
        assert "".join(each[answer] for each in triton.stream(public, **asked))
