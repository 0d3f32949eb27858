"""Trials with Ray itself: what its controller rejects or ignores is a finding, and what it takes is
none.
"""

from __future__ import annotations

import json
import subprocess
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from inferplan.components.serving.ray_serve.spec import RayServeSpec
from inferplan.trial.computer import Computer
from inferplan.trial.engines import ray_serve
from inferplan.trial.engines.ray_serve import run
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding
from tests.dataplane.serving.engine_configurations import ray_fields, records, write_files
from tests.patience import PATIENCE_SECONDS
from tests.unit.serving.models import declared
from tests.unit.serving.test_ray_serve import ray

NAME = "chat"
TYPE = "kubernetes:ray.io/v1:RayService"
ROWS = {each["id"]: each for each in records("ray-serve")}
# A stack file has names for them, so that its validation rejects them.
BEFORE = {
    *("ray-replicas-and-autoscaling", "ray-unknown-field", "ray-bounds", "ray-misplaced-field"),
    *("ray-one-prefix", "ray-path-of-two-colons"),
}
PLACES = {
    "ray-import-path": ("importPath",),
    "ray-builder-argument": (),
    "ray-deployment-name": ("deployments", "echo"),
}
# The others take a minute together.
SOME = {"ray-import-path", "ray-auto-replicas"}


def spec_of(row: dict[str, Any]) -> RayServeSpec:
    return ray(**{"image": "docker.io/acme/echo:1", **ray_fields(row)})


def tried(environment: Any, spec: RayServeSpec, directory: Path) -> list[Finding]:
    service = declared(spec).one(TYPE).inputs
    subject = Subject(
        name=NAME,
        spec=spec,
        container={"env": []},
        weights=directory,
        place=Computer(str(environment.root / "bin" / "serve")),
        objects={TYPE: service},
    )
    return list(run(subject, lambda _: None))


@pytest.mark.parametrize("name", sorted(BEFORE))
def test_a_wrong_name_or_number_is_an_error_of_the_stack_file(name):
    with pytest.raises(ValidationError):
        spec_of(ROWS[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[] if each in SOME else pytest.mark.full)
        for each in ROWS
        if each not in BEFORE
    ],
)
def test_ray_says_of_an_application_what_its_controller_says(ray_environment, tmp_path, name):
    row = ROWS[name]
    findings = tried(ray_environment, spec_of(row), write_files(row, tmp_path))
    if row["outcome"] == "works":
        assert {each.state for each in findings} == {"works"}
        return
    (finding,) = findings
    assert finding.state == "rejected"
    assert row["engine_says"] in finding.sentence
    assert finding.path == ("models", NAME, "applications", "echo", *PLACES[name])


def test_fields_that_ray_ignores_are_named_with_those_that_it_has(ray_environment, tmp_path):
    config = yaml.safe_load(
        ROWS["ray-unknown-field"]["files"]["write"]["serve.yaml"].format(port=1)
    )
    write_files(ROWS["ray-unknown-field"], tmp_path)
    done = subprocess.run(
        [str(ray_environment.python), str(ray_serve.PAYLOAD), str(tmp_path)],
        input=json.dumps(config),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert "max_concurrent_queries is not a field of DeploymentSchema" in done.stdout
    assert "max_ongoing_requests" in done.stdout
    assert "ray_actor_options.num_cpu is not a field of RayActorOptionsSchema" in done.stdout


def test_a_trial_starts_no_node_of_ray(ray_environment, tmp_path, monkeypatch):
    # Ray would look for a cluster here before it starts a node, and fail.
    row = ROWS["ray-auto-replicas"]
    monkeypatch.setattr(Computer, "finished", partialmethod(_without_cluster, Computer.finished))
    findings = tried(ray_environment, spec_of(row), write_files(row, tmp_path))
    assert {each.state for each in findings} == {"works"}


def _without_cluster(
    self: Any, run: Any, command: Any, environment: Any, *others: Any, **named: Any
) -> Any:
    return run(self, command, {**environment, "RAY_ADDRESS": "127.0.0.1:1"}, *others, **named)


@pytest.mark.full
def test_a_package_that_only_the_image_has_is_not_judged(ray_environment, tmp_path):
    row = ROWS["ray-builder"]
    files = row["files"]["write"]
    code = {"echo_app.py": "import torch_scatter\n" + files["echo_app.py"]}
    row = {**row, "files": {"write": {**files, **code}}}
    (finding,) = tried(ray_environment, spec_of(row), write_files(row, tmp_path))
    assert finding.state == "not judged"
    assert "No module named 'torch_scatter'" in finding.sentence
