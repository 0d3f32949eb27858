"""The examples of docs/engines: each loads without a fault, plans, and keeps to its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings import validate
from infra.stack_file import read_stack
from rehearsal.engine.record import record
from rehearsal.secrets import open_secrets

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "docs" / "engines").glob("Pulumi.*.yaml"))
PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request, monkeypatch):
    monkeypatch.chdir(ROOT)
    return request.param


def test_every_engine_of_the_union_has_an_example_and_a_page():
    from typing import get_args

    from components.serving.spec import ModelSpec

    union = get_args(ModelSpec)[0]
    engines = {get_args(member.model_fields["engine"].annotation)[0] for member in get_args(union)}
    assert {path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in EXAMPLES} == engines
    assert {path.stem for path in (ROOT / "docs" / "engines").glob("*.md")} == engines


def test_every_engine_names_a_component_that_is_there():
    from importlib import import_module
    from typing import get_args

    from components.serving.spec import ModelSpec

    for member in get_args(get_args(ModelSpec)[0]):
        module, _, component = member.entry.partition(":")
        assert hasattr(import_module(module), component)


def test_an_example_has_no_fault(example):
    validate(read_stack(example))


def test_a_model_of_an_example_takes_twelve_lines_at_most(example):
    text = example.read_text().splitlines()
    settings = validate(read_stack(example))
    starts = sorted(text.index(f"    {name}:") for name in settings.models)
    after = next(index for index, line in enumerate(text) if index > max(starts) and line.startswith("  inferplan:"))
    assert max(end - start for start, end in zip(starts, [*starts[1:], after], strict=True)) <= 12


def test_an_example_plans_with_fourteen_resources_a_model_at_most(example):
    file = read_stack(example)
    settings = validate(file)
    secrets = open_secrets(file.secrets, salt=file.encryption_salt, provider=None, environment=PASSPHRASE)
    stack = example.name.split(".")[1]
    made = record(
        ROOT / "infra", project="inferplan", stack=stack, config={**file.config, **secrets.values}, secret_keys=frozenset(secrets.values)
    )
    for model in settings.models:
        tops = [each.urn for each in made if each.name == model and each.type.startswith("inferplan:")]
        mine = [each for each in made if each.parent in tops or each.urn in tops or each.name == f"api-keys-server-{model}"]
        assert 6 <= len(mine) <= 14, [each.urn for each in mine]
