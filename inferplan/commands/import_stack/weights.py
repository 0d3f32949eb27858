"""Finds the weights of a server in its manifest: applications, a repository of a hub, or a claim."""

import re
from typing import Any

from inferplan.commands.import_stack.applications import attribute_of, take_applications
from inferplan.commands.import_stack.commands import take_weights
from inferplan.commands.import_stack.fields import (
    COMMIT,
    REPOSITORY,
    UNKNOWN_WEIGHTS,
    Server,
    items_at,
    take,
)
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.kube.paths import Path, mapping, parse
from inferplan.tables import table

_STORAGE = table("commands/import_stack/servers.toml")["storage"]
_ALIASES = table("commands/import_stack/servers.toml")["aliases"]
_CLAIM_NAME = "[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_CLAIM = re.compile(rf"pvc://({_CLAIM_NAME})(?:/(.*))?")


def find_content(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find the applications of `server`, else its weights."""
    program = next((each for each in server.options if not each.name), None)
    if "applications" in row:
        take_applications(server, body, row)
    elif program is not None and "applications" in MODEL_SPECS[server.engine].model_fields:
        server.options.remove(program)
        server.applications = {
            "default": {"kind": "custom", "importPath": attribute_of(program.values[0])}
        }
    else:
        _find_model(server, body, row)


def _find_model(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Find the weights: a repository of a hub, or a claim with a path."""
    below = ""
    if stored := _stored(body, row):
        (place, model), reason = stored, ""
        below = _below(server, in_claim=bool(_CLAIM.fullmatch(model)))
    elif option := take_weights(server.options):
        place, model, reason = option.path, option.values[0], option.reason
    else:
        return
    server.places["weights"] = place
    if reason:
        server.source.reject(place, reason)
    elif match := _CLAIM.fullmatch(model):
        server.claim, server.path = match[1], f"{match[2] or ''}/{below}".strip("/")
    elif match := REPOSITORY.fullmatch(model):
        names = {short for short, name in _ALIASES.items() if name == "--revision"}
        options = [each for each in server.options if each.name in {"--revision", *names}]
        words = "".join(options[-1].values) if options else ""
        stated = words or str(take(body, row["revision"]) if "revision" in row else "")
        commit = stated if COMMIT.fullmatch(stated) else ""
        if commit and not match[2]:
            server.options = [each for each in server.options if each not in options]
        server.model, server.revision = match[1], match[2] or commit
    elif model and not _take_claim(server, model, body, row):
        server.source.reject(place, UNKNOWN_WEIGHTS)


def _stored(body: dict[str, Any], row: dict[str, Any]) -> tuple[Path, str] | None:
    """The place and the address of the weights in the object's own field, or in the variable that
    KServe reads of a container of any other kind.
    """
    if "model" in row and (uri := take(body, row["model"])):
        return parse(row["model"]), str(uri)
    for path in row.get("env", ()) if "variable" in row else ():
        for index, each in enumerate(items_at(body, path)):
            if each.get("name") == row["variable"] and each.get("value"):
                take(body, f"{path}[{index}].name")
                return parse(f"{path}[{index}].value"), str(take(body, f"{path}[{index}].value"))
    return None


def _below(server: Server, *, in_claim: bool) -> str:
    """The folder of the weights in the storage of KServe, by the option that names its place. An
    option with another place, or with a folder of what is not a claim, stays.
    """
    option = take_weights(server.options, by_name=True)
    place = option.values[0].rstrip("/") if option else _STORAGE
    if place == _STORAGE:
        return ""
    if in_claim and place.startswith(f"{_STORAGE}/"):
        return place.removeprefix(f"{_STORAGE}/")
    server.options += [option] if option else []
    return ""


def _take_claim(server: Server, model: str, body: dict[str, Any], row: dict[str, Any]) -> bool:
    """Take the claim whose mount has the path `model`. Returns False if there is none."""
    claims = {
        str(each.get("name")): (index, _claim(each))
        for index, each in enumerate(items_at(body, row.get("volumes", "")))
    }
    mounts = [
        (str(each.get("mountPath", "")).rstrip("/"), index, each)
        for index, each in enumerate(items_at(body, row.get("mounts", "")))
    ]
    mounts = [each for each in mounts if f"{model}/".startswith(f"{each[0]}/")]
    folder, index, mount = max(mounts, key=lambda each: len(each[0]), default=("", 0, {}))
    place, claim = claims.get(str(mount.get("name")), (0, ""))
    if claim:
        volume, mounted = f"{row['volumes']}[{place}].", f"{row['mounts']}[{index}]."
        server.claim = claim
        server.path = f"{take(body, f'{mounted}subPath') or ''}/{model.removeprefix(folder).strip('/')}".strip(
            "/"
        )
        for path in (
            f"{volume}name",
            f"{volume}persistentVolumeClaim.claimName",
            f"{mounted}name",
            f"{mounted}mountPath",
        ):
            take(body, path)
    return bool(claim)


def _claim(volume: dict[str, Any]) -> str:
    name = str(mapping(volume, "persistentVolumeClaim").get("claimName") or "")
    return name if re.fullmatch(_CLAIM_NAME, name) else ""
