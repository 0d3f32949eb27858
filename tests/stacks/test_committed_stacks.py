from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from inferplan.pulumi_engine.plan.states import save
from inferplan.pulumi_engine.plan.steps import make_plan
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.examples import example_stacks

ROOT = Path(__file__).resolve().parents[2]
STACKS = example_stacks(ROOT)
PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}


@cache
def recording_of(stack: str) -> Recording:
    """What the program registers for `stack`, once per process; nothing may change it."""
    file = read_stack(STACKS[stack])
    secrets = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=file.secrets_provider,
        environment=PASSPHRASE,
    )
    config = {**file.config, **secrets.values}
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack=stack,
        config=config,
        secret_keys=frozenset(secrets.values),
    )


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module", params=sorted(STACKS))
def stack(request):
    return request.param


@pytest.fixture(scope="module")
def recording(stack):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return recording_of(stack)


def test_every_example_is_among_them():
    assert STACKS.keys() == {"dev", "local", "onprem", "prod", "staging"}


def test_it_has_no_fault(stack):
    validate(read_stack(STACKS[stack]))


def test_its_secrets_open_with_the_documented_passphrase(stack):
    file = read_stack(STACKS[stack])
    assert not open_secrets(
        file.secrets, salt=file.encryption_salt, provider=None, environment=PASSPHRASE
    ).placeholders


def test_a_model_takes_twelve_lines_at_most(stack):
    text = STACKS[stack].read_text().splitlines()
    settings = validate(read_stack(STACKS[stack]))
    starts = sorted(text.index(f"    {name}:") for name in settings.models)
    after = next(
        index
        for index, line in enumerate(text)
        if index > max(starts) and line.startswith("  inferplan:")
    )
    ends = [*starts[1:], after]
    assert all(end - start <= 12 for start, end in zip(starts, ends, strict=True))


def test_a_model_registers_fourteen_resources_at_most(stack, recording):
    settings = validate(read_stack(STACKS[stack]))
    for model in settings.models:
        tops = [
            each.urn
            for each in recording
            if each.name == model and each.type.startswith("inferplan:")
        ]
        mine = [
            each
            for each in recording
            if each.parent in tops or each.urn in tops or each.name == f"api-keys-server-{model}"
        ]
        assert len(mine) <= 14, [each.urn for each in mine]


def test_every_model_stands_behind_the_gateway_and_waits_for_its_preheat(recording):
    jobs = {
        each.inputs["metadata"]["labels"]["app.kubernetes.io/instance"]: each.urn
        for each in recording.of_type("kubernetes:batch/v1:Job")
    }
    deployments = {each.name: each for each in recording.of_type("kubernetes:apps/v1:Deployment")}
    for model, job in jobs.items():
        assert job in deployments[model].dependencies


def test_two_runs_declare_the_same_bytes(stack, recording):
    assert save(make_plan(recording).states) == save(
        make_plan(recording_of.__wrapped__(stack)).states
    )


def test_no_two_resources_claim_the_same_object(recording):
    claimed = Counter(
        (each.type, each.inputs["metadata"].get("namespace"), each.inputs["metadata"]["name"])
        for each in recording
        if each.type.startswith("kubernetes:") and "metadata" in each.inputs
    )
    assert [key for key, count in claimed.items() if count > 1] == []


def test_no_secret_value_stands_in_a_saved_plan(stack, recording):
    file = read_stack(STACKS[stack])
    seed = open_secrets(
        file.secrets, salt=file.encryption_salt, provider=None, environment=PASSPHRASE
    ).values["inferplan:apiKeySeed"]
    saved = save(make_plan(recording).states).decode()
    assert seed not in saved
    assert seed not in repr(recording)


def test_the_order_of_hashes_changes_nothing(tmp_path):
    command = [str(Path(sys.executable).parent / "inferplan"), "plan", "local", "--save"]
    plans = []
    for seed in ("0", "2"):
        saved = tmp_path / f"plan-{seed}.json"
        environment = {**os.environ, **PASSPHRASE, "PYTHONHASHSEED": seed}
        subprocess.run(
            [*command, str(saved)], cwd=ROOT, env=environment, capture_output=True, check=True
        )
        plans.append(saved.read_bytes())
    assert plans[0] == plans[1]


def test_no_input_is_null(recording):
    def nulls(value, path):
        if isinstance(value, dict):
            return [null for key, each in value.items() for null in nulls(each, f"{path}.{key}")]
        if isinstance(value, list):
            return [
                null for index, each in enumerate(value) for null in nulls(each, f"{path}[{index}]")
            ]
        return [path] if value is None else []

    assert [null for each in recording for null in nulls(each.inputs, each.name)] == []
