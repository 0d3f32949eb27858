"""Executes remedies of `inferplan doctor` as they are printed: commands of the AWS CLI, and edits
of the stack file.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

import jmespath
import yaml
from botocore import xform_name

from tests.unit.doctor.aws_account import Account, service_model

SERVICES = {"s3api": "s3"}
# Options that the AWS CLI calls otherwise than the API (awscli/customizations/argrename.py).
RENAMED = {"--kubernetes-version": "version"}
# The waiters of botocore that remedies name.
WAITERS = {
    "eks": {"cluster-active", "addon-deleted"},
    "ec2": {"nat-gateway-available"},
    "acm": {"certificate-validated"},
}
STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def execute(
    remedy: str,
    account: Account,
    config: dict[str, Any],
    files: Mapping[str, str] | None = None,
) -> None:
    """Execute each command of `remedy`; `set` and `remove` change `config`, the sections of a stack
    file. `files` are those that the remedy reads. Fails on anything else.
    """
    variables: dict[str, str] = {}
    for line in remedy.partition("  # ")[0].split(" && "):
        command, name = line, ""
        if assigned := re.fullmatch(r"(\w+)=\$\((.*)\)", line):
            name, command = assigned[1], assigned[2]
        for variable, text in variables.items():
            command = re.sub(rf"\${variable}\b", text, command)
        program, _, rest = command.partition(" ")
        match program:
            case "set":
                path, _, value = rest.partition(": ")
                edit(config, path, yaml.safe_load(value))
            case "remove":
                edit(config, rest, None)
            case "aws":
                words = [
                    (files or {})[word.removeprefix("file://")]
                    if word.startswith("file://")
                    else word
                    for word in shlex.split(rest)
                ]
                if words[1] == "wait":  # moto's resources are there at once
                    event = account.answers.get(f"wait_{words[2].replace('-', '_')}")
                    assert words[2] in WAITERS[words[0]]
                    if event is not None:
                        event()
                    continue
                query, words = _without(words, "--query")
                _, words = _without(words, "--output")
                service, operation, parameters = parsed(words)
                answer = account.ask(service, operation, **parameters)
                if name:
                    variables[name] = str(jmespath.search(query, answer))
            case _:
                raise AssertionError(f"not a command: {command}")


def _without(words: list[str], option: str) -> tuple[str, list[str]]:
    """The value of `option`, and the other words."""
    if option not in words:
        return "", words
    index = words.index(option)
    return words[index + 1], words[:index] + words[index + 2 :]


def edit(config: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at `path`, as a person would do in the file; None removes it."""
    steps: list[Any] = [name or int(index) for name, index in STEP.findall(path)]
    place: Any = config
    for step in steps[:-1]:
        place = place[step]
    if value is None:
        del place[steps[-1]]
    elif isinstance(place, list) and steps[-1] == len(place):
        place.append(value)
    else:
        place[steps[-1]] = value


def parsed(words: list[str]) -> tuple[str, str, dict[str, Any]]:
    """The call that a command of the AWS CLI makes. An option that the operation does not have is
    an error.
    """
    service, operation, options = SERVICES.get(words[0], words[0]), words[1], words[2:]
    model = service_model(service)
    name = next(each for each in model.operation_names if xform_name(each, "-") == operation)
    shape = model.operation_model(name).input_shape
    members = {f"--{xform_name(each, '-')}": (each, one) for each, one in shape.members.items()}
    members |= {
        option: (each, shape.members[each])
        for option, each in RENAMED.items()
        if each in shape.members
    }
    values: dict[str, list[str]] = {}
    option = ""
    for word in options:
        if word.startswith("--"):
            values[word] = []
            option = word
        else:
            values[option].append(word)
    if values.pop("--ingress", None) is not None:  # the CLI's name for --no-egress
        values["--egress"] = ["false"]
    assert values.pop("--region", ["us-east-1"])[0]
    parameters = {
        members[option][0]: _value(members[option][1], texts) for option, texts in values.items()
    }
    missing = (
        set(shape.required_members)
        - parameters.keys()
        - {each for each, one in shape.members.items() if one.metadata.get("idempotencyToken")}
    )
    assert not missing, f"aws {' '.join(words)} lacks {missing}"
    return service, xform_name(name), parameters


def _value(shape: Any, texts: list[str]) -> Any:
    if texts and texts[0][:1] in "[{" and shape.type_name != "string":
        return json.loads(" ".join(texts))
    match shape.type_name:
        case "list":
            value: Any = [_value(shape.member, [text]) for text in texts]
        case "structure" | "map":
            pairs = dict(each.split("=", 1) for each in texts[0].split(","))
            members: Mapping[str, Any] = shape.members if shape.type_name == "structure" else {}
            value = {
                key: _value(members[key], [text]) if key in members else text
                for key, text in pairs.items()
            }
        case "boolean":
            value = not texts or texts[0] == "true"
        case "integer" | "long":
            value = int(texts[0])
        case "double" | "float":
            value = float(texts[0])
        case _:
            value = texts[0]
    return value
