"""Finds model servers in manifests and values, and takes what a stack can say out of each; the rest
stays as a list of paths.
"""

import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from inferplan.audit.documents import content_of, read_manifests, values_in
from inferplan.audit.manifest import InputError
from inferplan.commands.import_stack.commands import Option, read_options
from inferplan.commands.import_stack.fields import (
    Server,
    Source,
    items_at,
    left_in,
    loss_of,
    take,
)
from inferplan.commands.import_stack.recognition import container_of, engine_in, texts_of
from inferplan.commands.import_stack.weights import find_content
from inferplan.documents.yaml_tree import read_tree
from inferplan.kube import paths
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import MISSING, leaves, mapping, parse, value_at
from inferplan.kube.quantity import amount
from inferplan.tables import table

_TABLE = table("commands/import_stack/servers.toml")
_VERSION = re.compile(r"2\.[0-9]+\.[0-9]+")
_MODELS = ("servingEngineSpec", "modelSpec")
# Fields of every object that mean nothing for a stack.
_IGNORED = {("apiVersion",), ("kind",), ("metadata", "name")}


def read_servers(path: Path, resource: str) -> tuple[list[Server], list[tuple[str, str]]]:
    """The servers in the file or folder `path` whose accelerators are `resource`, and everything
    else in it. Raises InputError.
    """
    servers: list[Server] = []
    others: list[tuple[str, str]] = []
    documents = [*_documents(path)]
    scalers = dict(
        _scaler(kind, body) for kind, _, _, body in documents if kind in _TABLE["scalers"]
    )
    for kind, name, source, body in documents:
        off = next((each for each in _TABLE["switches"]["fields"] if body.get(each) is False), "")
        row = None if off else _TABLE["documents"].get(kind)
        server = _server(name, source, body, row, resource) if row else None
        if server is not None:
            scaled = scalers.get(name) if kind == "Deployment" else None
            server.replicas = server.replicas if scaled is None else scaled
            servers.append(server)
            continue
        if off:
            source.leave((off,), "it is false, so the server does not run, and is not imported")
        elif kind in _TABLE["scalers"]:
            source.leave(
                ("spec",), "the model scales by the signals of its engine (docs/scaling.md)"
            )
        elif kind:
            counted = any(vendor_of(str(key)) for path, _ in leaves(body) for key in path)
            group, words = _TABLE["objects"]["accelerated" if counted else "others"]
            words = f"{kind} {name}: the whole object: {words}"
            source.left.append((group, f"{source.file}:{source.line(())}: {words}"))
        others += source.left
    return servers, others


def _scaler(kind: str, body: dict[str, Any]) -> tuple[str, int | dict[str, int]]:
    """The workload that an autoscaler scales, and its range."""
    target, *fields, least, most = _TABLE["scalers"][kind]
    values = [value_at(body, parse(each)) for each in fields]
    least, most = (
        each if isinstance(each, int) else default
        for each, default in zip(values, (least, most), strict=True)
    )
    return str(value_at(body, parse(target))), _range(least, most)


def _range(least: int, most: int) -> int | dict[str, int]:
    return {"min": least, "max": most} if most > least else least


def _documents(path: Path) -> Iterator[tuple[str, str, Source, dict[str, Any]]]:
    """Kind, name, source and body of each object. Values have no kind, and each entry of their list
    of models has one.
    """
    try:
        values = values_in(content_of(path), str(path)) if path.is_file() else {}
    except InputError:
        values = {}  # several documents, or none; see below
    models = value_at(values, _MODELS)
    if isinstance(models, list):
        root = read_tree(content_of(path).decode("utf-8-sig")).root
        for index, each in enumerate(models):
            source = Source(file=str(path), lines=0, root=root, prefix=(*_MODELS, index))
            if isinstance(each, dict):
                name = each.get("name", f"model-{index}")
                if not isinstance(name, str):
                    raise InputError(
                        [
                            f"{path}:{source.line(('name',))}: {paths.text_of(source.prefix)}.name is not a text. Quote it."
                        ]
                    )
                models[index] = MISSING
                off = value_at(values, (_MODELS[0], "enableEngine")) is False
                yield "modelSpec", name, source, each | ({"enabled": False} if off else {})
        source = Source(file=str(path), lines=0, root=root)
        for place, reason in left_in(values).items():
            source.leave(place, reason)
        yield "", "", source, {}
        return
    for manifest in read_manifests(path):
        file, _, line = manifest.place.rpartition(":")
        yield manifest.kind, manifest.name, _source(file, int(line)), manifest.body


def _source(file: str, line: int) -> Source:
    """The document that begins at `line` of `file`; the next one begins after three dashes."""
    first, *others = (
        content_of(Path(file)).decode("utf-8-sig").splitlines(keepends=True)[line - 1 :]
    )
    text = [
        first.replace("---", "   ", 1) if first.startswith("---") else first,
        *takewhile(lambda each: each[:3] != "---", others),
    ]
    return Source(file=file, lines=line - 1, root=read_tree("".join(text)).root)


def _server(
    name: str, source: Source, body: dict[str, Any], row: dict[str, Any], resource: str
) -> Server | None:
    body = copy.deepcopy(body)
    row = json.loads(json.dumps(row).replace("[*]", f"[{container_of(body, row)}]"))
    for old in row.get("renamed", ()):
        parent = mapping(body, *row["below"].split("."))
        if isinstance(parent.get(old), dict) and "model" not in parent:
            parent["model"] = {"modelFormat": {"name": old}, **parent.pop(old)}
    images = [
        str(value) for path in row["image"] if (value := value_at(body, parse(path))) is not MISSING
    ]
    words = [*_words(body, row, source.reject)]
    name_of_engine = engine_in(*texts_of([word for _, word in words], " ".join(images)))
    engine = row.get("engine") or _TABLE["engines"].get(name_of_engine)
    if not engine:
        return None
    other = _TABLE["replaced"].get(name_of_engine, {"options": {}, "variables": {}})
    words += _more_words(body, row, words, other["variables"])
    _take_known(body, row)
    server = Server(name=name, source=source, engine=engine)
    _find_size(server, body, row, resource)
    environment = [each for path in row.get("env", ()) for each in items_at(body, path)]
    variables = {
        str(each.get("name")): str(each["value"]) for each in environment if "value" in each
    }
    server.options += read_options(words, variables, source.leave)
    _rename(server.options, other["options"])
    if name_of_engine in _TABLE["replaced"]:
        source.leave(("engine",), f"{name_of_engine} is replaced: {loss_of('engine')['reason']}")
    find_content(server, body, row)
    if not server.version and (match := _VERSION.search(" ".join(images))):
        server.version = match[0]
    if server.applications:
        server.image, server.places["image"] = (
            str(take(body, row["image"][0]) or ""),
            parse(row["image"][0]),
        )
    for place, reason in left_in(body).items():
        if place not in _IGNORED:
            source.leave(
                place,
                reason
                or (
                    "the stack's own image is used" if paths.text_of(place) in row["image"] else ""
                ),
            )
    return server


def _take_known(body: dict[str, Any], row: dict[str, Any]) -> None:
    """Take the field that says the name or the engine, and values that mean what their absence does."""
    if "identity" in row:
        take(body, row["identity"])
    for place, usual in row.get("usual", {}).items():
        if value_at(body, parse(place)) == usual:
            take(body, place)


def _rename(options: list[Option], names: Mapping[str, str]) -> None:
    for each in options:
        new = names.get(each.name, each.name)
        each.words[0] = each.words[0].replace(each.name, new, 1)
        each.name = new


def _words(
    body: dict[str, Any], row: dict[str, Any], reject: Callable[[paths.Path, str], None]
) -> Iterator[tuple[paths.Path, str]]:
    """The words of a command with their paths."""
    for path in row.get("words", ()):
        words = take(body, path)
        if isinstance(words, list) and all(isinstance(each, str | int | float) for each in words):
            yield from (((*parse(path), index), str(word)) for index, word in enumerate(words))
        elif words is not None:
            reject(parse(path), "it is not a list of words")


def _more_words(
    body: dict[str, Any],
    row: dict[str, Any],
    words: list[tuple[paths.Path, str]],
    variables: Mapping[str, str],
) -> Iterator[tuple[paths.Path, str]]:
    """The words of variables that a template adds to the command line, and whose references leave
    `words`.
    """
    for path in row.get("env", ()):
        for index, each in enumerate(items_at(body, path)):
            name, value = each.get("name"), each.get("value")
            option = variables.get(str(name))
            if isinstance(value, str) and (option or name in _TABLE["arguments"]["variables"]):
                words[:] = [
                    (at, re.sub(rf"(--?[\w-]+=)?\$[({{]?{name}[)}}]?", "", word))
                    for at, word in words
                ]
                place = f"{path}[{index}]"
                more = [option, value] if option else shlex.split(value)
                yield from ((parse(place), word) for word in more)
                take(body, f"{place}.name")
                take(body, f"{place}.value")
    words[:] = [each for each in words if each[1]]


def _find_range(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find the range of an autoscaler; without one, the number of replicas stays."""
    scales = "scales" not in row or bool(take(body, row["scales"]))
    least, most = (take(body, row[each]) if each in row else None for each in ("least", "most"))
    if not (scales and isinstance(most, int)):
        if server.replicas == 0 and row["replicas"].endswith("minReplicas"):
            words = "KServe starts replicas on demand. State their maximum with maxReplicas"
            server.source.leave(parse(row["replicas"]), words)
        return
    number = server.replicas if isinstance(server.replicas, int) else 1
    least = least if isinstance(least, int) else number
    server.replicas = _range(least, most)
    server.places["replicas"] = parse(row["most"])


def _find_token(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find the Secret with the token of the hub: production stack's `hf_token`, or HF_TOKEN."""
    places = [("hf_token", "secretName", "secretKey")]
    places += [
        (f"{path}[{index}].valueFrom.secretKeyRef", "name", "key")
        for path in row.get("env", ())
        for index, each in enumerate(items_at(body, path))
        if each.get("name") in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    ]
    for path, name, key in places:
        secret = mapping(value_at(body, parse(path)))
        if isinstance(secret.get(name), str):
            server.token = secret[name]
            words = (
                f"Secret {server.token} becomes the hub's credentials, which need the key HF_TOKEN"
            )
            words += (
                "" if secret.get(key) == "HF_TOKEN" else "; the source has another key, so copy it"
            )
            server.source.leave(parse(path), words)
            for each in (
                f"{path}.{name}",
                f"{path}.{key}",
                path.replace("valueFrom.secretKeyRef", "name"),
            ):
                take(body, each)


def _find_size(server: Server, body: dict[str, Any], row: dict[str, Any], resource: str) -> None:
    """Find replicas and accelerators of `server`, and the settings that are options of its command."""
    if isinstance(value_at(body, parse(row["replicas"])), int):
        server.replicas, server.places["replicas"] = (
            take(body, row["replicas"]),
            parse(row["replicas"]),
        )
    _find_range(server, body, row)
    _find_token(server, body, row)
    counted = [f'{path}["{resource}"]' for path in row.get("limits", ())]
    if "resource" in row and body.get(row["resource"], _TABLE["resource"]) == resource:
        take(body, row["resource"])
        counted.append(row["accelerators"])
    for path in counted:
        count = amount(value_at(body, parse(path)))
        if count and count > 0 and count == int(count):
            take(body, path)
            server.accelerators, server.places["accelerators"] = (
                max(server.accelerators, int(count)),
                parse(path),
            )
    for option, place in row.get("options", {}).items():
        if (value := take(body, place)) is not None:
            word = option.replace("--", "--no-", 1) if value is False else option
            values = [] if isinstance(value, bool) else [str(value)]
            server.options.append(
                Option(name=word, words=[word, *values], path=parse(place), values=values)
            )
