"""Finds model servers in manifests and values, and takes what a stack can say out of each; the rest stays as a list of paths."""

import copy
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferplan.audit.documents import read_manifests, values_in
from inferplan.audit.manifest import InputError
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import MISSING, mapping, parse, value_at
from inferplan.kube.quantity import amount
from inferplan.operations.importing.fields import REPOSITORY, Server, left_in, mapped, take, take_all
from inferplan.tables import table

_TABLE = table("operations/importing/servers.toml")
_APPLICATIONS = _TABLE["applications"]
_CLAIM = re.compile(r"pvc://([a-z0-9.-]+)/?(.*)")
_VERSION = re.compile(r"2\.[0-9]+\.[0-9]+")
# Of every object, and without a meaning for a stack.
_IGNORED = {"apiVersion", "kind", "metadata.name"}


def read_servers(path: Path) -> tuple[list[Server], list[str]]:
    """The servers in the file or folder `path`, and everything else in it. Raises InputError."""
    servers: list[Server] = []
    others: list[str] = []
    for kind, name, place, body in _documents(path):
        row = _TABLE["documents"].get(kind)
        server = _server(name, place, body, row) if row else None
        if server is None:
            others.append(f"{place}: {kind} {name}: the whole object" if kind else f"{place}: {name}")
        else:
            servers.append(server)
    return servers, others


def _documents(path: Path) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    if path.is_file():
        try:
            values = values_in(path.read_bytes(), str(path))
        except InputError:
            values = {}
        models = value_at(values, ("servingEngineSpec", "modelSpec"))
        if isinstance(models, list):
            for index, each in enumerate(models):
                if isinstance(each, dict):
                    models[index] = MISSING
                    yield "modelSpec", str(each.get("name", f"model-{index}")), f"{path}: servingEngineSpec.modelSpec[{index}]", each
            for each in left_in(values):
                yield "", each, str(path), {}
            return
    for manifest in read_manifests(path):
        yield manifest.kind, manifest.name, manifest.place, manifest.body


def _server(name: str, place: str, body: dict[str, Any], row: dict[str, Any]) -> Server | None:
    body = copy.deepcopy(body)
    for old in row.get("renamed", ()):
        parent = mapping(body, *row["below"].split("."))
        if isinstance(parent.get(old), dict) and "model" not in parent:
            parent["model"] = {"modelFormat": {"name": old}, **parent.pop(old)}
    image = " ".join(str(each) for each in take_all(body, row.get("image", ())))
    words = [word for each in take_all(body, row.get("words", ())) for word in _split(each)]
    text = f"{image} {' '.join(words)}".lower()
    engine = row.get("engine") or next((each for word, each in _TABLE["engines"].items() if word in text), "")
    if not engine:
        return None
    server = Server(name=take(body, row["name"][0]) if "name" in row else name, place=place, engine=engine, words=words)
    _find_size(server, body, row)
    _find_content(server, body, row)
    if not server.version and (match := _VERSION.search(image)):
        server.version = match[0]
    if server.applications:
        server.image = image
    elif "/" in image:
        server.left.append(f"image {image}: the stack's own image is used")
    server.left += [each for each in left_in(body) if each not in _IGNORED]
    return server


def _find_size(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find replicas and accelerators of `server`, and the settings that are options of its command."""
    replicas = next(iter(row.get("replicas", ())), "")
    if isinstance(value_at(body, parse(replicas)), int):
        server.replicas = take(body, replicas)
    for path in row.get("limits", ()):
        limits = value_at(body, parse(path))
        counts = {key: _count(value) for key, value in limits.items() if vendor_of(key)} if isinstance(limits, dict) else {}
        server.accelerators = max([server.accelerators, *counts.values()])
        for key in counts:
            take(body, f'{path}["{key}"]')
    server.accelerators = _count(next(iter(take_all(body, row.get("accelerators", ()))), server.accelerators))
    for option, place_ in row.get("options", {}).items():
        if (value := take(body, place_)) is not None:
            server.words += [option if value else option.replace("--", "--no-", 1)] if isinstance(value, bool) else [option, str(value)]


def _find_content(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find the applications of `server`, else its weights."""
    if "applications" in row:
        _take_applications(server, body, row)
    elif {"serve", "run"} <= set(server.words) and ":" in server.words[-1]:
        server.applications = {"default": {"kind": "custom", "importPath": server.words.pop()}}
        server.words = [each for each in server.words if each not in ("serve", "run")]
    else:
        _find_model(server, next(iter(take_all(body, row.get("model", ()))), ""), body, row)


def _find_model(server: Server, model: str, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find the weights: a repository of a hub, or a claim with a path."""
    words, model = server.words, str(model)
    for index, word in enumerate(words if not model else ()):
        option, equals, value = word.partition("=")
        if option in _TABLE["weights"] and (equals or index + 1 < len(words)):
            model = value if equals else words[index + 1]
            del words[index : index + (1 if equals else 2)]
            break
    if match := _CLAIM.fullmatch(model):
        server.claim, server.path = match[1], match[2]
    elif model.startswith("/") and "volumes" in row:
        claims = {each.get("name"): (index, each) for index, each in enumerate(_items(body, row["volumes"])) if _claim(each)}
        for index, mount in enumerate(_items(body, row["mounts"])):
            if model.startswith(str(mount.get("mountPath"))) and mount.get("name") in claims:
                place, volume = claims[mount["name"]]
                server.claim, server.path = _claim(volume), model.removeprefix(mount["mountPath"]).strip("/")
                take_all(body, [f"{row['volumes']}[{place}].{name}" for name in ("name", "persistentVolumeClaim.claimName")])
                take_all(body, [f"{row['mounts']}[{index}].{name}" for name in ("name", "mountPath")])
                break
    elif match := REPOSITORY.fullmatch(model):
        server.model, server.revision = match[1], match[2] or ""
    else:
        server.left.append(f"model {model!r}: it is neither a repository of a hub nor a path of a claim")


def _items(body: dict[str, Any], path: str) -> list[dict[str, Any]]:
    items = value_at(body, parse(path))
    return [each if isinstance(each, dict) else {} for each in items] if isinstance(items, list) else []


def _claim(volume: dict[str, Any]) -> str:
    return str(mapping(volume, "persistentVolumeClaim").get("claimName") or "")


def _split(words: Any) -> list[str]:
    """Words of a command; those of a shell's script are split."""
    items = [str(each) for each in words] if isinstance(words, list) else [str(words)]
    several = [
        part for each in items for part in (shlex.split(each, comments=True) if " " in each and not each.startswith("{") else [each])
    ]
    return [each for each in several if each not in _TABLE["ignored"]]


def _count(value: Any) -> int:
    return int(amount(str(value)) or 0)


def _take_applications(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Set the applications, the version and the weights of `server` from its document `body`, with the paths of `row`."""
    text = str(take(body, row["applications"]) or "")
    versions = [str(each) for each in take_all(body, row["version"])]
    server.version = next(iter(versions), "")
    try:
        settings = values_in(text.encode(), f"{server.place}: {row['applications']}") if text else {}
    except InputError as error:
        server.left += error.errors
        return
    listed = settings["applications"] if isinstance(settings.get("applications"), list) else []
    for index, each in enumerate(listed):
        if isinstance(each, dict):
            name = str(each.get("name", f"default{index or ''}"))
            if name in server.applications:
                continue  # it is listed below
            take(each, "name")
            server.applications[name] = _application(server, each)
            if not each:
                listed[index] = MISSING
    server.left += [f"{row['applications']}: {path}" for path in left_in(settings)]


def _application(server: Server, body: dict[str, Any]) -> dict[str, Any]:
    if body.get("import_path") in _APPLICATIONS["builders"]:
        body.pop("import_path")
        configurations = (body.get("args") or {}).get("llm_configs") or [{}]
        first = configurations[0] if isinstance(configurations[0], dict) else {}
        source = next((text for path in _APPLICATIONS["sources"] if (text := take(first, path)) is not None), "")
        if match := REPOSITORY.fullmatch(str(source)):
            server.model, server.revision = match[1], match[2] or ""
        else:
            server.left.append(f"model {source!r}: it is not a repository of a hub")
        application = {"kind": "llm", **mapped(body, _APPLICATIONS["fields"]), **mapped(first, _APPLICATIONS["llm"])}
        return application | _scaling(first, "deployment_config.")
    application = {"kind": "custom", **mapped(body, _APPLICATIONS["fields"]), **mapped(body, _APPLICATIONS["custom"])}
    deployments = {}
    for each in body.get("deployments") or ():
        is_named = isinstance(each, dict) and isinstance(each.get("name"), str) and each["name"] not in deployments
        if is_named and (fields := mapped(each, _APPLICATIONS["deployment"]) | _scaling(each, "")):
            deployments[take(each, "name")] = fields
    return {**application, **({"deployments": deployments} if deployments else {})}


def _scaling(body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The field `autoscaling`, which needs a maximum."""
    prefix = f"{prefix}autoscaling_config."
    has_maximum = isinstance(value_at(body, parse(f"{prefix}max_replicas")), int)
    return {"autoscaling": mapped(body, _APPLICATIONS["scaling"], prefix)} if has_maximum else {}
