"""All preheats of a stack share one program, as the whole stack declares them."""

from __future__ import annotations

import json

from inferplan.pulumi_engine.program.record import record
from tests.unit.infra.test_compose_images import INFRA
from tests.unit.stackfile.test_checks import CONFIG, MODEL

JOB, MAP = "kubernetes:batch/v1:Job", "kubernetes:core/v1:ConfigMap"
SEED = {"inferplan:apiKeySeed": "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"}


def declared(models: int):
    sections = {
        **CONFIG,
        "models": {f"m{number}": MODEL for number in range(models)},
    }
    config = {
        f"inferplan:{key}": json.dumps(value)
        for key, value in sections.items()
        if key != "apiKeySeed"
    }
    return record(
        INFRA, project="inferplan", stack="test", config=config | SEED, secret_keys=frozenset(SEED)
    )


def test_the_program_is_stored_once_and_every_job_reads_it_and_ends_before_it():
    recording = declared(5)
    jobs = [each for each in recording.of_type(JOB) if "-preheat-" in each.name]
    [program] = [
        each for each in recording.of_type(MAP) if "__main__.py" in each.inputs.get("data", {})
    ]
    assert len(jobs) == 5
    for job in jobs:
        # What depends on an object is deleted before it: an old program stays until its last Job is gone.
        assert program.urn in job.dependencies
        volumes = job.inputs["spec"]["template"]["spec"]["volumes"]
        assert program.inputs["metadata"]["name"] in json.dumps(volumes)


def test_a_stack_without_preheats_has_no_program_of_them():
    assert not [
        each for each in declared(0).of_type(MAP) if "__main__.py" in each.inputs.get("data", {})
    ]
