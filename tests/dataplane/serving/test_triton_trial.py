"""Trials with a real tritonserver: what it rejects is a finding with its sentence, and what it loads
is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.trial.computer import Computer
from inferplan.trial.engines.triton import run
from inferplan.trial.questions import Question
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding
from tests.dataplane.serving.engine_configurations import records, triton_fields, write_files
from tests.dataplane.serving.triton_models import ECHO, TEXT
from tests.dataplane.serving.triton_stand import GAUDI, repository_files
from tests.unit.serving.models import container_of

NAME = "chat"
ROWS = {each["id"]: each for each in records("triton")}
# The others take a minute together.
SOME = {"triton-preferred-batch", "triton-dims-with-batch", "triton-ensemble"}


def tried(server: Any, spec: TritonSpec, weights: Path, **more: Any) -> list[Finding]:
    program = str(server.environment.root / "bin" / "pytriton")
    container = container_of(spec)
    subject = Subject(
        name=NAME, spec=spec, container=container, weights=weights, place=Computer(program), **more
    )
    return list(run(subject, lambda _: None))


@pytest.mark.parametrize(
    "row",
    [pytest.param(ROWS[each], marks=[] if each in SOME else pytest.mark.full) for each in ROWS],
    ids=ROWS,
)
def test_triton_says_of_a_repository_what_it_says_in_a_pod(tritonserver, tmp_path, row):
    spec = TritonSpec.model_validate(triton_fields(row))
    request = Question("the request", row["call"]["path"], row["call"]["body"])
    findings = tried(tritonserver, spec, write_files(row, tmp_path), request=request)
    rejected = [each for each in findings if each.state == "rejected"]
    assert {each.state for each in findings} <= {"works", "rejected"}
    if row["outcome"] == "works":
        assert rejected == []
        assert len(findings) > 2
    else:
        assert row["engine_says"] in rejected[0].sentence
        assert rejected[0].path == ("models", NAME, "repository")


def python_model(code: str) -> dict[str, Any]:
    return {
        "kind": "python",
        "device": "accelerator",
        "input": {"text": TEXT},
        "output": {"loud": TEXT},
        "code": code,
    }


def test_a_model_of_the_stack_file_is_named_and_runs_without_its_accelerator(
    tritonserver, tmp_path
):
    broken = "import nowhere\n" + ECHO.format("text", "loud", "given")
    repository = {
        "good": python_model(ECHO.format("text", "loud", "given")),
        "bad": python_model(broken),
        "writer": {"kind": "textGeneration", "maxBatchSize": 8},
    }
    weights = {"store": "weights", "path": "llm"}
    spec = TritonSpec.model_validate(
        {"engine": "triton", "pool": "p", "weights": weights, "repository": repository}
    )
    files = repository_files(spec, weights=f"/models/{NAME}", target=GAUDI)
    files = {path: text.replace("KIND_CPU", "KIND_GPU") for path, text in files.items()}
    data = {path.replace("/", ".."): text for path, text in files.items()}
    objects = {"kubernetes:core/v1:ConfigMap": {"data": data}}
    findings = {each.step: each for each in tried(tritonserver, spec, tmp_path, objects=objects)}
    assert findings["load good"].state == findings["a request to good"].state == "works"
    assert findings["load writer"].state == "not judged"
    bad = findings["load bad"]
    assert (bad.state, bad.path) == ("rejected", ("models", NAME, "repository", "bad"))
    assert "No module named 'nowhere'" in bad.sentence
    own = spec.model_copy(update={"image": "docker.io/acme/triton:1"})
    findings = {each.step: each for each in tried(tritonserver, own, tmp_path, objects=objects)}
    assert findings["load bad"].state == "not judged"
