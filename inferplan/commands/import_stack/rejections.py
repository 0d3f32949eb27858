"""Takes out of an imported stack what validation rejects, and what may be a secret, and lists it."""

import re
import secrets as randomness
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from inferplan.commands.import_stack.commands import Option
from inferplan.commands.import_stack.fields import Server
from inferplan.documents.errors import InvalidStack, KeyPath, SpecError, dotted
from inferplan.documents.text import clean
from inferplan.documents.yaml_scalars import resolve
from inferplan.errors import RequestError
from inferplan.kube.disclosure.disclosure import disclosed
from inferplan.kube.disclosure.encodings import HIDDEN, placeholder
from inferplan.kube.disclosure.keys import is_secret
from inferplan.kube.paths import MISSING, covers, order_of, value_at
from inferplan.planning.new_stack import SEED_BYTES
from inferplan.policies.subjects.secret_texts import reveals
from inferplan.pulumi_engine.secrets import new_salt, passphrase_of
from inferplan.stackfile.advice import plain_secrets
from inferplan.stackfile.checks.egress import free_values
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.project import project_root

_MOST_NODES = 100
_REVEALING = "The value may be a secret."


def validated_text(config: dict[str, Any], servers: Mapping[str, Server]) -> str | None:
    """The text of the stack; what is rejected or may be a secret is taken out and listed. None if
    no model remains.
    """
    with suppress(RequestError):  # without a project, only a variable can hold the passphrase
        project_root()
    configured = passphrase_of()
    if configured is None:
        raise RequestError(
            "PULUMI_CONFIG_PASSPHRASE is not set, and the new stack's seed is encrypted with it."
            " Set it first"
        )
    salt, box = new_salt(configured[0])
    config["inferplan:apiKeySeed"] = {"secure": box.encrypt(randomness.token_hex(SEED_BYTES))}
    models = config["inferplan:models"]
    while models:
        for name, model in models.items():
            _set_extra_arguments(model, servers[name])
        replicas = (max(0, most_of(each.get("replicas", 1))) for each in models.values())
        config["inferplan:nodePools"]["imported"]["nodes"] = min(_MOST_NODES, max(1, sum(replicas)))
        text = yaml.dump(
            {"encryptionsalt": salt, "config": config},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=140,
        )
        errors = _errors(text)
        if not errors:
            return text
        done: list[KeyPath] = []
        # Inner values come before outer ones, and the last items of a list before the first.
        for each in sorted(errors, key=lambda each: order_of(each.path), reverse=True):
            is_of_model = each.path[:1] == ("models",) and each.path[1:2] and each.path[1] in models
            if is_of_model and not any(covers(each.path, path) for path in done):
                _take_out(models, each, servers[str(each.path[1])])
                done.append(each.path)
        if not done:
            lines = "\n".join(f"{dotted(each.path)}: {_masked(each.message)}" for each in errors)
            raise RequestError(
                f"The imported stack is not valid, and nothing was written:\n{lines}"
            )
    return None


def most_of(replicas: Any) -> int:
    """The most replicas of a number or a range."""
    return replicas["max"] if isinstance(replicas, dict) else replicas


def _set_extra_arguments(model: dict[str, Any], server: Server) -> None:
    """Set `extraArgs` of `model` to the options of `server` without a field. Options that cannot be
    carried over are listed and taken out.
    """
    leave_options(server, (each for each in server.extra if each.reason or not each.name))
    server.extra = [each for each in server.extra if each.name and not each.reason]
    model.pop("extraArgs", None)
    if server.extra:
        model["extraArgs"] = [word for each in server.extra for word in each.words]


class _Dumper(yaml.SafeDumper):
    """Quotes texts that the Pulumi CLI reads as another value, such as 1e5, which PyYAML does not."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar(
            "tag:yaml.org,2002:str", data, style="'" if resolve(data) != (data, None) else None
        )


_Dumper.add_representer(str, _Dumper.represent_str)


def _errors(text: str) -> list[SpecError]:
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
        path = Path(folder) / "Pulumi.imported.yaml"
        path.write_text(text)
        try:
            settings = validate(read_stack(path, shown_path="imported"))
        except InvalidStack as invalid:
            return list(invalid.located)
    secrets = [each.path for each in plain_secrets(settings)]
    unknown: list[SpecError] = []
    for name, model in settings.models.items():
        values = free_values(model)
        secrets += [
            ("models", name, *below)
            for below, key, text in values
            if _is_hidden(key, text) or reveals(text, code=True)
        ]
        unknown += [
            SpecError(("models", name, "extraArgs"), f"{each} (no option of {engine})")
            for each, engine in model.unknown_options()
        ]
    return [*(SpecError(each, _REVEALING) for each in secrets), *unknown]


def _is_hidden(key: str, text: str) -> bool:
    """True for what a report would hide, except phrases of a setting whose name is not a secret's."""
    (shown,) = disclosed({key: text}).values()  # the key may be hidden too
    is_phrase = shown == placeholder(len(text)) and " " in text and not is_secret(key)
    return HIDDEN in shown and not is_phrase


def _take_out(models: dict[str, Any], error: SpecError, server: Server) -> None:
    """Take the rejected value out of its model: the options or keys that the message names, else
    all of it; else the model.
    """
    name, path = str(error.path[1]), error.path[2:]
    message = _masked(error.message)
    below = next(
        path[:end]
        for end in range(len(path), -1, -1)
        if value_at(models[name], path[:end]) is not MISSING
    )
    if not below and (options := _named_options(models[name], error.message, server)):
        for key in options:
            _take_out(models, SpecError((*error.path, key), error.message), server)
        return
    if not below or below[0] in ("engine", "weights", "pool"):
        del models[name]
        server.source.reject(
            (), ": ".join(each for each in (f"server {server.name}", dotted(path), message) if each)
        )
        return
    *parents, last = below
    if below[0] == "extraArgs":
        owners = [each for each in server.extra for _ in each.words]
        named = [each for each in server.extra if _reason(error.message, each.name)]
        for each in [owners[int(last)]] if parents else named or server.extra:
            each.reason = _reason(error.message, each.name) or message
        return
    holder = value_at(models[name], tuple(parents))
    place = server.places.get(str(below[0]), ())
    label = dotted(below) if parents or not place else ""
    keys = [
        (inner, key)
        for inner, key in _keys(holder[last])
        if below == path and _reason(error.message, key)
    ]
    for inner, key in keys or [(holder, last)]:
        del inner[key]
        reason = f"{key}: {_reason(error.message, str(key))}" if keys else message
        group = "arguments" if place in (each.path for each in server.options) else ""
        server.source.reject(place, f"{label}: {reason}" if label else reason, group)


def _named_options(model: Mapping[str, Any], message: str, server: Server) -> list[str]:
    """The fields of options, besides parallel sizes, that the message on a whole model names."""
    places = {each.path for each in server.options}
    return [
        key
        for key in model
        if server.places.get(key) in places
        and not key.endswith("ParallelSize")
        and re.search(rf"\b{key}\b", message)
    ]


def _keys(value: Any) -> Iterator[tuple[Any, Any]]:
    """The keys of `value` and of the mappings in it, each with its mapping."""
    for key, each in list(value.items()) if isinstance(value, dict) else ():
        yield value, key
        yield from _keys(each)


def _reason(message: str, name: str) -> str:
    """The reason that `message` gives for the option or key `name`, "" if it does not name it."""
    match = re.search(rf"(?<![\w-]){re.escape(name)}(?: \((.*?)\)| is not)", message)
    return match[1] or _masked(message) if match else ""


def _masked(message: str) -> str:
    """A validation message without the values that it quotes, except option names, and without the
    value that it suggests.
    """
    message = re.sub(r" Did you mean '[^']*'\?", "", message.partition(" Write ")[0])
    return re.sub(r"(?<!\w)(?!'--[a-z-]+')('[^']*'|\"[^\"]*\")", "'…'", clean(message))


def leave_options(server: Server, options: Iterable[Option]) -> None:
    """List `options`: by name, as a value may be a secret."""
    for each in options:
        server.source.leave(
            each.path,
            ": ".join(
                text for text in (each.name or "a word without an option", each.reason) if text
            ),
        )
