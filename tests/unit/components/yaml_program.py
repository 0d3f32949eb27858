"""Runs a program in Pulumi YAML with the provider that hosts our components, and checks it against
the served schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.provider.server import ProviderServicer
from pulumi_kubernetes import Provider

from inferplan.components.public.package import Package

_WHOLE = re.compile(r"\$\{(\w+)((?:\.\w+|\[\"[^\"]+\"\])*)\}")
_KINDS = {"string": str, "integer": int, "boolean": bool, "number": (int, float)}


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


async def run(program: Mapping[str, Any]) -> None:
    """Declares the resources in the order of the file, which names each resource before others use
    it.

    As under Pulumi's engine, the outputs of a component have arrived before they are the inputs of
    another one.
    """
    package = Package()
    known: dict[str, Any] = {
        name: pulumi.Config().require_secret(name) for name in program["config"]
    }
    known |= program["variables"]
    for key, resource in program["resources"].items():
        name, inputs = resource.get("name", key), evaluated(resource["properties"], known)
        if resource["type"] == "pulumi:providers:kubernetes":
            snake = {
                re.sub("[A-Z]", lambda hump: f"_{hump[0].lower()}", each): value
                for each, value in inputs.items()
            }
            known[key] = Provider(name, **snake)
            continue
        opts = pulumi.ResourceOptions(providers=evaluated(resource["options"]["providers"], known))
        state = package.construct(name, resource["type"], floats(inputs), opts).state
        known[key] = {
            key: await arrived(value) if isinstance(value, dict) else value
            for key, value in state.items()
        }
    for name, value in program["outputs"].items():
        pulumi.export(name, evaluated(value, known))


def floats(value: Any) -> Any:
    """`value` as it arrives at a provider: every number is a float."""
    if isinstance(value, dict):
        return {key: floats(each) for key, each in value.items()}
    if isinstance(value, list):
        return [floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


async def arrived(handle: dict[str, Any]) -> pulumi.Output[Any]:
    """`handle` as the provider's server passes it on."""
    value = await pulumi.Output.from_input(handle).future()
    return await ProviderServicer._select_value(value, {"urn:pulumi:dev::one-model::a:b:C::d"})


def evaluated(value: Any, known: Mapping[str, Any]) -> Any:
    """`value` with its references replaced."""
    if isinstance(value, dict):
        return {key: evaluated(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [evaluated(each, known) for each in value]
    match = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    found = known[match[1]]
    for part in re.findall(r"\w+", match[2]):
        found = found[part]
    return found


def mistakes(program: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """The differences between the resources of the program and the schema of their package."""
    for key, resource in program["resources"].items():
        if resource["type"].partition(":")[0] in {
            name.partition(":")[0] for name in schema["resources"]
        }:
            described = schema["resources"].get(resource["type"])
            if described is None:
                yield f"{key}: no type {resource['type']}"
            else:
                yield from _differences(
                    resource["properties"],
                    described["inputProperties"],
                    described.get("requiredInputs", ()),
                    schema,
                    program,
                    key,
                )


def _differences(values, properties, required, schema, program, where) -> Iterator[str]:
    yield from (f"{where}: {name} is missing" for name in required if name not in values)
    for name, value in values.items():
        if name not in properties:
            yield f"{where}: no input {name}"
        else:
            yield from _mismatches(value, properties[name], schema, program, f"{where}.{name}")


def _mismatches(value, described, schema, program, where) -> Iterator[str]:
    match = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    if match is not None and match[1] in program["resources"]:
        yield from _wrong_output(match, described, schema, program, where)
        return
    if match is not None:
        value = program.get("variables", {}).get(match[1])
    reference = described.get("$ref", "").removeprefix("#/types/")
    if reference in schema["types"]:
        model = schema["types"][reference]
        yield from _differences(
            value, model["properties"], model.get("required", ()), schema, program, where
        )
    elif isinstance(value, dict | list):
        inner = described.get("items") or described.get("additionalProperties") or {}
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _mismatches(each, inner, schema, program, f"{where}.{key}")
    elif value is not None and not isinstance(value, _KINDS.get(described.get("type"), object)):
        yield f"{where}: {value!r} is not {described['type']}"


def _wrong_output(match, described, schema, program, where) -> Iterator[str]:
    output = schema["resources"][program["resources"][match[1]]["type"]]["properties"][
        match[2].strip(".").partition("[")[0]
    ]
    kind = output.get("additionalProperties", output) if "[" in match[2] else output
    if (kind.get("$ref"), kind.get("type")) != (described.get("$ref"), described.get("type")):
        yield f"{where}: {match[0]} is {kind}"
