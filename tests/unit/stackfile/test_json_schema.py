"""The schema that editors use: in sync, and of one mind with the loader."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml

from inferplan.hardware.accelerators import accelerators
from inferplan.hardware.machines import machines
from inferplan.stackfile import json_schema
from inferplan.stackfile.json_schema import has_choices, stack_schema_text
from inferplan.stackfile.reference import reference
from inferplan.stackfile.stack import StackSettings

PROJECT = Path(__file__).parents[3]
stack_schema = cache(json_schema.stack_schema)


def _loaded(text):
    return yaml.load(text, Loader=yaml.CSafeLoader)


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft7Validator.check_schema(stack_schema())
    return jsonschema.Draft7Validator(stack_schema())


@pytest.fixture
def local():
    return _loaded((PROJECT / "stacks" / "Pulumi.local.yaml").read_text())


def test_the_committed_schema_is_the_one_of_the_specs():
    committed = (PROJECT / "schemas" / "stack.schema.json").read_text(encoding="utf-8")
    assert committed == stack_schema_text(), "run: inferplan schema --write"


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.name
)
def test_the_example_stacks_fit_the_schema_and_point_at_it(path, validator):
    assert list(validator.iter_errors(_loaded(path.read_text()))) == []
    assert path.read_text().startswith(
        "# yaml-language-server: $schema=../schemas/stack.schema.json\n"
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda config: config.update({"inferplan:model": {}}),
        lambda config: config["inferplan:models"]["llama-3-8b"].update(replica=2),
        lambda config: config["inferplan:models"]["llama-3-8b"].update(replicas="2"),
        lambda config: config["inferplan:models"].update(
            BAD=config["inferplan:models"]["llama-3-8b"]
        ),
        lambda config: config["inferplan:cluster"].update(provider="simulate"),
        lambda config: config.update({"inferplan:apiKeySeed": "in clear"}),
        lambda config: config.pop("inferplan:apiKeySeed"),
        lambda config: config.pop("inferplan:cluster"),
    ],
)
def test_the_schema_rejects_the_mistakes_that_the_loader_rejects(spoil, local, validator):
    spoil(local["config"])
    assert list(validator.iter_errors(local))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            lambda config: config["inferplan:models"]["llama-3-8b"].update(replica=2),
            "'replica' was unexpected",
        ),
        (
            lambda config: config["inferplan:models"]["llama-3-8b"].update(engine="vlm"),
            "'vlm' is not one of ['vllm', 'triton', ",
        ),
        (
            lambda config: config["inferplan:storage"]["shared"].update(kind="smb"),
            "'smb' is not one of [",
        ),
        (
            lambda config: config["inferplan:nodePools"]["gaudi2"].update(accelerator="gaudi2"),
            "'gaudi2' is not valid",
        ),
    ],
)
def test_an_editor_tells_a_mistake_of_the_part_that_was_chosen(spoil, told, local, validator):
    spoil(local["config"])
    (error,) = validator.iter_errors(local)
    assert told in error.message


def test_an_editor_explains_every_key_and_offers_every_accelerator_and_machine():
    definitions = stack_schema()["definitions"]
    silent = [
        f"{name}.{key}"
        for name, part in definitions.items()
        for key, field in part.get("properties", {}).items()
        if "description" not in field
    ]
    assert silent == []
    simulated = definitions["SimulatedPool"]["properties"]
    assert simulated["accelerator"]["anyOf"][0]["enum"] == ["cpu", *accelerators()]
    assert simulated["instanceType"]["anyOf"][0]["anyOf"][0]["enum"] == list(machines())


def test_nothing_is_left_in_it_that_draft_07_would_ignore():
    def walk(node):
        if isinstance(node, dict):
            assert "$defs" not in node
            assert "prefixItems" not in node
            assert "$ref" not in node or len(node) == 1, (
                "draft-07 ignores what stands beside a $ref"
            )
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(stack_schema())


def test_pulumi_yaml_declares_every_key_with_type_and_description_and_no_other():
    declared = _loaded((PROJECT / "Pulumi.yaml").read_text())["config"]
    fields = {f"inferplan:{field.alias}": field for field in StackSettings.model_fields.values()}
    assert set(declared) == {*fields, "inferplan:apiKeySeed"}
    assert all(entry["type"] and entry["description"] for entry in declared.values())
    assert declared["inferplan:apiKeySeed"]["secret"] is True
    # The CLI demands every declared key that has no default, so defaults here and there must agree.
    assert {key for key, field in fields.items() if field.is_required()} == {
        key for key in fields if "default" not in declared[key]
    }


@cache
def typed_fields():
    """Every field whose value a person types, so not one of fixed choices."""
    definitions = stack_schema()["definitions"]
    return [
        (f"{name}.{key}", {**field, "definitions": definitions})
        for name, definition in definitions.items()
        for key, field in definition.get("properties", {}).items()
        if not has_choices(field, definitions)
    ]


def test_every_field_that_a_person_types_has_valid_examples():
    wrong = {
        name: [
            error.message
            for example in field.get("examples", ())
            for error in jsonschema.Draft7Validator(field).iter_errors(example)
        ]
        for name, field in typed_fields()
    }
    assert {name: errors for name, errors in wrong.items() if errors} == {}
    assert [name for name, field in typed_fields() if not field.get("examples")] == [], (
        "add them to inferplan/stackfile/examples.toml, or examples.toml of the engine"
    )


def test_the_snippets_are_valid_entries(local, validator):
    sections = stack_schema()["properties"]["config"]["properties"]
    labels = []
    for key in ("nodePools", "storage", "models"):
        for snippet in sections[f"inferplan:{key}"]["defaultSnippets"]:
            [body] = snippet["body"].values()
            local["config"][f"inferplan:{key}"]["typed"] = body
            labels.append(snippet["label"])
    assert list(validator.iter_errors(local)) == []
    assert len(labels) == 6


def test_an_editor_shows_description_default_and_example():
    field = stack_schema()["definitions"]["VllmSpec"]["properties"]["replicas"]
    assert (
        field["markdownDescription"]
        == f"{field['description']}\n\nDefault: `1`\n\n```yaml\nreplicas: 2\n```"
    )


def test_the_reference_has_a_row_for_every_field():
    rows = {
        line.split("|")[1].strip(" `*")
        for line in reference().splitlines()
        if line.startswith("| `")
    }
    assert {name.partition(".")[2] for name, _ in typed_fields()} <= rows
    assert "| `tensorParallelSize` | integer | `1` | `4` |" in reference()
