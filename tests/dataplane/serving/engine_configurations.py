"""Engine configurations of public reports, as models of a stack file: `configurations/given.jsonl`, and
others of further kinds in `further.jsonl` and `public.jsonl`, and what upgrades and typing errors
leave in `upgrades.jsonl`. Each wrong one was seen with the engine itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from inferplan.components.serving.vllm import values
from inferplan.components.serving.vllm.engine_args import VLLM_OPTIONS
from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from tests.unit.stackfile.test_natural_mistakes import mistaken

FOLDER = Path(__file__).with_name("configurations")
MODEL = "llama-3-8b"
_FIELDS = {option: field for field, names in VLLM_OPTIONS.items() for option in names}


def records(
    engine: str, files: Sequence[str] = ("given", "further", "public")
) -> list[dict[str, Any]]:
    lines = (
        line
        for name in files
        for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    )
    return [each for each in map(json.loads, lines) if each["engine"] == engine]


def vllm_fields(record: Mapping[str, Any], name: str = MODEL) -> dict[str, Any]:
    """The model of a stack file with the arguments and variables of `record`."""
    fields: dict[str, Any] = {"env": record["environment"]} if record["environment"] else {}
    extra: list[str] = []
    arguments = [each.replace("{model}", f"/models/{name}") for each in record["arguments"]]
    release = values.releases()[-2]
    for index, option, key, value in values.parsed(arguments, release):
        word = arguments[index]
        field = _FIELDS.get(option)
        if option == "--lora-modules":
            adapter, _, path = str(value).partition("=")
            fields["loraAdapters"] = {adapter: path.rpartition("/")[2]}
        elif field and not key and value is not None:
            fields[_camel(field)] = _typed(value)
        elif field and not key and option.removeprefix("--no-") != option:
            fields[_camel(field)] = False
        # inferplan sets these itself.
        elif option not in ("--enable-lora", "--load-format"):
            extra += [word] if "=" in word or value is None else [word, value]
    return {**fields, **({"extraArgs": extra} if extra else {})}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _typed(value: str) -> Any:
    amount = values.amount(value)
    if amount is not None and (value.isdecimal() or value[-1].isalpha()):
        return amount
    try:
        return float(value)
    except ValueError:
        return value


def lines_about(folder: Path, fields: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The errors and the notes of a stack file whose model has `fields`."""
    tree = mistaken("local", f"models.{MODEL}.drainSeconds", "30")
    model = tree["config"]["inferplan:models"][MODEL]
    model["image"] = "docker.io/vllm/vllm-openai:v0.32.0"
    model.update(fields)
    file = folder / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    stack = read_stack(file)
    try:
        return [], list(advised(validate(stack), stack))
    except InvalidStack as error:
        return list(error.lines), []


def triton_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """The model with the repository of `record`."""
    models = sorted({path.partition("/")[0] for path in record["files"]["write"]})
    repository = {"store": "weights", "path": "repository", "models": models}
    return {"engine": "triton", "pool": "p", "repository": repository}


def write_files(record: Mapping[str, Any], folder: Path) -> Path:
    for name, text in record["files"]["write"].items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def ray_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """The model with the applications of `record`, in camelCase as a stack file has them."""
    config = yaml.safe_load(record["files"]["write"]["serve.yaml"].replace("{port}", "8000"))
    applications = {}
    for each in config["applications"]:
        deployments = {}
        for one in each.pop("deployments", ()):
            actor = one.pop("ray_actor_options", {})
            one |= {"cpus" if key == "num_cpus" else key: value for key, value in actor.items()}
            if "autoscaling_config" in one:
                one["autoscaling"] = one.pop("autoscaling_config")
            key = one.pop("name")
            deployments[key] = _camel_keys(one)
        name = each.pop("name")
        args = {"args": each.pop("args")} if "args" in each else {}
        more = {"deployments": deployments} if deployments else {}
        applications[name] = {"kind": "custom", **_camel_keys(each), **args, **more}
    return {"engine": "ray-serve", "rayVersion": "2.60.0", "applications": applications}


def _camel_keys(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        _camel(key.removesuffix("_s") + ("_seconds" if key.endswith("_s") else "")): each
        if key == "user_config"
        else _camel_keys(each)
        for key, each in value.items()
    }
