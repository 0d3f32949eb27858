"""Writes a stack file from servers of others: what a stack can say, with a list of everything else."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from inferplan.audit.manifest import InputError
from inferplan.commands.import_stack.commands import COMMAND_LINE, Option, is_known
from inferplan.commands.import_stack.fields import Server
from inferplan.commands.import_stack.rejections import leave_options, validated_text
from inferplan.commands.import_stack.servers import read_servers
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.documents.yaml_scalars import resolve
from inferplan.errors import RequestError
from inferplan.hardware.accelerators import accelerators
from inferplan.kube.names import free_name, label_of
from inferplan.tables import table

_COMMANDS = table("commands/import_stack/servers.toml")["commands"]
_FILES, _PROGRAMS = re.compile(_COMMANDS["files"]), re.compile(_COMMANDS["programs"])
_NO_COMMIT = "0" * 40
_NO_SERVER = (
    "It contains no server that a stack can describe. Name values, a Deployment or an"
    " InferenceService. Nothing was written."
)
_MOST_REASONS = 5
_PROMETHEUS = {
    "namespace": "monitoring",
    "url": "http://prometheus-operated.monitoring.svc:9090",
}


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The text of a stack file that validates, and what of the source it does not say, a line each,
    by groups. `shrinks` are the losses that make the platform another one than its source.
    """

    text: str
    models: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]
    shrinks: tuple[str, ...]

    @property
    def left(self) -> tuple[str, ...]:
        return tuple(each for lines in self.groups.values() for each in lines)


def import_stack(path: Path, *, accelerator: str) -> Imported:
    """A stack file for the servers in `path`. Raises RequestError if there is none, or if the file
    cannot be read.
    """
    if accelerator not in accelerators():
        raise RequestError(
            f"--accelerator: {accelerator!r} is unknown. Choose from: {', '.join(accelerators())}"
        )
    try:
        servers, left = read_servers(path, accelerators()[accelerator].resource)
    except InputError as error:
        raise RequestError("\n".join(error.errors)) from error
    config, imported = _base(accelerator), {}
    for server in servers:
        model = _model(server, config["inferplan:storage"])
        if model is not None:
            name = _label(server.name, "model", imported)
            imported[name] = server
            config["inferplan:models"][name] = model
    if any(
        isinstance(each.replicas, dict)
        and "applications" not in MODEL_SPECS[each.engine].model_fields  # Ray scales by itself
        for each in servers
    ):
        config["inferplan:monitoring"] = {"prometheus": dict(_PROMETHEUS)}
        left.append(("scaling", f"monitoring: {_PROMETHEUS['url']} stands for your Prometheus"))
    text = validated_text(config, imported)
    left = [*(each for server in servers for each in server.source.left), *left]
    if text is None:
        lines = [line for _, line in left]
        reasons = [*(each for server in servers for each in server.source.rejections), *lines]
        raise RequestError(
            "\n".join((f"{path}: {_NO_SERVER}", *dict.fromkeys(reasons[:_MOST_REASONS])))
        )
    left += [
        ("placement", f"nodePools: a simulated pool of {accelerator} stands for your nodes"),
        ("access", "consumers: no key is imported"),
    ]
    models: dict[str, Any] = config["inferplan:models"]
    names = {id(server): name for name, server in imported.items()}
    sizes = [
        each
        for server in servers
        for each in _smaller(server, models.get(names.get(id(server), "")))
    ]
    order = dict.fromkeys(
        each["group"] for each in table("commands/import_stack/servers.toml")["losses"]
    )
    groups = {
        each: tuple(dict.fromkeys(line for group, line in left if group == each)) for each in order
    }
    return Imported(
        text=text,
        models=tuple(models),
        groups=groups,
        shrinks=(*sizes, *groups["topology"], *groups["arguments"]),
    )


def _smaller(server: Server, model: dict[str, Any] | None) -> Iterator[str]:
    """The ways in which `model` is smaller than `server`."""
    place = f"{server.source.file}:{server.source.line(())}: {server.name}"
    if model is None:
        yield f"{place}: the server is not imported"
        return
    sizes = [
        model.get(key, 1) for key in ("tensorParallelSize", "pipelineParallelSize", "accelerators")
    ]
    if "weights" in model and "applications" not in model and not server.accelerators:
        yield f"{place}: the source requests no accelerators of this kind for it, and each replica has {math.prod(sizes)} here"
    if (
        math.prod(each for each in sizes if isinstance(each, int)) < server.accelerators
        and "applications" not in model
    ):
        yield f"{place}: each replica has {server.accelerators} accelerators in the source, and {math.prod(sizes)} here"
    for each in server.options:
        size = "".join(each.values)
        if each.name in ("--data-parallel-size", "-dp") and size.isdigit() and int(size) > 1:
            yield f"{place}: {each.name} {size} needs as many groups of accelerators, and the stack requests those of one"
    if server.replicas is not None and model.get("replicas", 1) != server.replicas:
        yield f"{place}: its replicas are {server.replicas} in the source, and {model.get('replicas', 1)} here"


def _base(accelerator: str) -> dict[str, Any]:
    return {
        "inferplan:cluster": {"provider": "simulated"},
        "inferplan:nodePools": {
            "imported": {"provider": "simulated", "accelerator": accelerator, "nodes": 1},
            "system": {"provider": "simulated", "nodes": 2},
        },
        "inferplan:storage": {},
        "inferplan:models": {},
        "inferplan:gateway": {"exposure": "internal"},
        "inferplan:consumers": {"imported": {"keys": [1]}},
        "inferplan:keyHistory": {"imported": {"issued": 1}},
    }


def _model(server: Server, storage: dict[str, Any]) -> dict[str, Any] | None:
    fields = MODEL_SPECS[server.engine].model_fields
    model: dict[str, Any] = {"engine": server.engine, "pool": "imported", "consumers": ["imported"]}
    weights = _weights(server, storage)
    if server.replicas is not None:
        model["replicas"] = server.replicas
    if "repository" in fields or "applications" in fields:
        more = (_repository if "repository" in fields else _applications)(server, weights)
        return (
            None
            if more is None
            else model
            | more
            | ({"accelerators": server.accelerators} if server.accelerators > 1 else {})
        )
    if weights is None:
        server.source.reject(
            (), f"server {server.name}: its model is unknown; name it with --model in the arguments"
        )
        return None
    model |= weights | _options(server)
    if server.accelerators:
        _set_size(server, model)
    return model


def _label(text: str, kind: str, taken: Iterable[str]) -> str:
    """A name for `text` that a stack accepts, and that is not `taken`."""
    label = label_of(text, 36)
    taken = {*taken, *(name for each in MODEL_SPECS.values() for name in each.reserved_names)}
    return free_name(label if label[:1].isalpha() else f"{kind}-{label}".strip("-"), taken)


def _set_size(server: Server, model: dict[str, Any]) -> None:
    """Set the tensor parallel size to the number of accelerators if the source sets no parallel
    size.
    """
    sizes, place = (
        [model.get(key, 1) for key in ("tensorParallelSize", "pipelineParallelSize")],
        server.places["accelerators"],
    )
    if sizes == [1, 1] and "tensorParallelSize" not in model and server.accelerators > 1:
        model["tensorParallelSize"] = server.accelerators
        server.source.leave(
            place,
            f"the source sets no tensorParallelSize; with {server.accelerators}, the model uses"
            " every accelerator",
        )
    elif (
        not all(isinstance(each, int) for each in sizes) or math.prod(sizes) != server.accelerators
    ):
        server.source.leave(
            place,
            f"the parallel sizes do not multiply to {server.accelerators}, and they decide about"
            " the accelerators",
        )


def _weights(server: Server, storage: dict[str, Any]) -> dict[str, Any] | None:
    """The weights of `server`, with their preheat if they are at a hub; None if nothing names them."""
    if server.claim:
        others = [name for name, each in storage.items() if each.get("claimName") != server.claim]
        store = _label(server.claim, "claim", ("hub", "shared", *others))
        storage[store] = {"kind": "pvc", "claimName": server.claim}
        if not server.path:
            reason = (
                f"{server.name}: its files are at the root of claim {server.claim}; move them to"
                f" {server.name}/"
            )
            server.source.leave(server.places["weights"], reason)
        return {"weights": {"store": store, "path": server.path or server.name}}
    if not server.model:
        return None
    credentials = {"credentials": {"secretName": server.token}} if server.token else {}
    storage |= {
        "hub": {"kind": "huggingface", **storage.get("hub", {}), **credentials},
        "shared": {"kind": "pvc", "claimName": "models"},
    }
    if not server.revision:
        hint = f"git ls-remote https://huggingface.co/{server.model} HEAD"
        server.source.leave(
            server.places["weights"],
            f"revision: {server.model} is not pinned; replace the zeros: {hint}",
        )
    weights = {"store": "hub", "path": server.model, "revision": server.revision or _NO_COMMIT}
    return {"weights": weights, "preheat": {"into": "shared"}}


def _repository(server: Server, weights: dict[str, Any] | None) -> dict[str, Any] | None:
    """The field of an existing repository in a claim; None if the repository is elsewhere."""
    if weights is None or not server.claim:
        server.source.reject(
            (),
            f"server {server.name}: its repository is not on a claim; copy it to one, or describe"
            " the models by hand",
        )
        return None
    loaded = [
        each
        for each in server.options
        if each.name == "--load-model" and each.values and not each.reason and each.values != ["*"]
    ]
    if not loaded:
        server.source.leave(
            (),
            f"models: the source does not name the models of the repository; replace {server.name} by their names",
        )
    leave_options(server, (each for each in server.options if each not in loaded))
    return {
        "repository": {
            **weights["weights"],
            "models": [each.values[0] for each in loaded] or [server.name],
        }
    }


def _applications(server: Server, weights: dict[str, Any] | None) -> dict[str, Any] | None:
    """The fields of applications; None if there are none."""
    leave_options(server, server.options)
    if not server.applications or not server.version:
        missing = "the version of its image" if server.applications else "its application"
        server.source.reject(
            (),
            f"server {server.name}: the source does not name {missing}; write it by hand (docs/engines)",
        )
        return None
    version = table("commands/import_stack/servers.toml")["applications"]["version"]
    return {
        "image": server.image,
        version: server.version,
        "applications": server.applications,
        **(weights or {}),
    }


def _options(server: Server) -> dict[str, Any]:
    """The fields of a stack for the options of a command line. Of repeated ones the last counts;
    those without a field are `extraArgs`.
    """
    # In a stack, the others have another meaning.
    names = [
        name for name in COMMAND_LINE.model_fields if name not in ("pool", "served_model_name")
    ]
    fields = {
        f"--{part}{name.replace('_', '-')}": to_camel(name)
        for name in names
        for part in ("", "no-")
    }
    fields = {option: field for option, field in fields.items() if is_known(option)}
    fields |= {
        short: fields[long]
        for short, long in table("commands/import_stack/servers.toml")["aliases"].items()
        if long in fields
    }
    for each in server.options:
        # argparse takes the beginning of a name for the whole, if no other begins like it.
        longer = [name for name in fields if name.startswith(each.name or "=")]
        each.name = longer[0] if len(longer) == 1 else each.name
    chosen = {
        fields[each.name]: each
        for each in server.options
        if each.name in fields and not each.reason
    }
    server.places |= {field: each.path for field, each in chosen.items()}
    for each in server.options:
        if each.name in fields and not each.reason and each not in chosen.values():
            each.reason = "it is repeated, and the last one counts"
    server.extra = [each for each in server.options if each not in chosen.values()]
    for each in server.extra:
        names_file = any(map(_FILES.match, (*each.values, *each.words)))
        if names_file and not each.reason and is_known(each.name):
            each.reason = "it names a file that the stack does not mount"
        if any(map(_PROGRAMS.match, each.values)):
            each.reason = (
                "it needs a program and settings that the image of the stack does not have"
            )
    return {field: _value(each) for field, each in chosen.items()}


def _value(option: Option) -> Any:
    """The value of a field. Numbers that YAML and Python read differently, such as 010, stay texts,
    which validation rejects.
    """
    if not option.values:
        return not option.name.startswith("--no-")
    value, problem = resolve(option.values[0])
    return value if problem is None else option.values[0]
