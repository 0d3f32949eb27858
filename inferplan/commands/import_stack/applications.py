"""Takes the applications of Ray Serve out of a RayService."""

from dataclasses import replace
from typing import Any

from inferplan.audit.documents import values_in
from inferplan.audit.manifest import InputError
from inferplan.commands.import_stack.fields import (
    COMMIT,
    REPOSITORY,
    UNKNOWN_WEIGHTS,
    Server,
    Source,
    items_at,
    left_in,
    mapped,
    take,
)
from inferplan.documents.yaml_tree import read_tree
from inferplan.kube.paths import MISSING, Path, mapping, parse, value_at
from inferplan.tables import table

_APPLICATIONS = table("commands/import_stack/servers.toml")["applications"]


def take_applications(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Set the applications, the version and the weights of `server` from its document `body`, with
    the paths of `row`.
    """
    place = row["applications"]
    text = str(take(body, place) or "")
    server.places |= {"applications": parse(place), "weights": parse(place)}
    server.version = str(take(body, row["version"]) or "")
    # Errors and places use line numbers of the file, so the text starts after as many empty lines.
    text = "\n" * server.source.line(parse(place)) + text
    try:
        settings = values_in(text.encode(), server.source.file) if text.strip() else {}
    except InputError as error:
        server.source.left += (("other", each) for each in error.errors)
        server.source.rejections += error.errors
        return
    inner = replace(server.source, lines=0, root=read_tree(text).root, label=f"{place}: ")
    for index, each in enumerate(items_at(settings, "applications")):
        name = str(each.get("name", f"default{index or ''}"))
        if not each or name in server.applications:
            continue  # it is listed below
        take(each, "name")
        server.applications[name] = _application(server, each, inner, ("applications", index))
        if not each:
            settings["applications"][index] = MISSING
    for path, reason in left_in(settings).items():
        inner.leave(path, reason)


def _application(
    server: Server, body: dict[str, Any], source: Source, place: Path
) -> dict[str, Any]:
    if body.get("import_path") in _APPLICATIONS["builders"]:
        body.pop("import_path")
        first = mapping(value_at(body, ("args", "llm_configs", 0)))
        at, repository = next(
            (
                (path, str(text))
                for path in _APPLICATIONS["sources"]
                if (text := take(first, path)) is not None
            ),
            ("", ""),
        )
        match = REPOSITORY.fullmatch(repository)
        if match and server.model in ("", match[1]):
            commit = take(first, "engine_kwargs.revision") if _has_commit(first) else ""
            server.model, server.revision = match[1], match[2] or commit
        else:
            reason = (
                "the server has the weights of another application" if match else UNKNOWN_WEIGHTS
            )
            source.reject((*place, "args", "llm_configs", 0, *parse(at)), reason)
        application = {
            "kind": "llm",
            **mapped(body, _APPLICATIONS["fields"]),
            **mapped(first, _APPLICATIONS["llm"]),
        }
        application |= _scaling(first, "deployment_config.")
        _drop_empty(body, "args.llm_configs")
        return application
    application = {
        "kind": "custom",
        **mapped(body, _APPLICATIONS["fields"]),
        **mapped(body, _APPLICATIONS["custom"]),
    }
    if isinstance(application.get("importPath"), str):
        application["importPath"] = attribute_of(application["importPath"])
    deployments = {}
    for each in items_at(body, "deployments"):
        is_named = isinstance(each.get("name"), str) and each["name"] not in deployments
        if is_named and (fields := mapped(each, _APPLICATIONS["deployment"]) | _scaling(each, "")):
            deployments[take(each, "name")] = fields
    _drop_empty(body, "deployments")
    return application | ({"deployments": deployments} if deployments else {})


def _drop_empty(body: dict[str, Any], path: str) -> None:
    """Take the items at `path` of which nothing is left."""
    items = value_at(body, parse(path))
    if isinstance(items, list):
        items[:] = [MISSING if each == {} else each for each in items]
        if all(each is MISSING for each in items):
            take(body, path)


def _has_commit(config: dict[str, Any]) -> bool:
    return bool(COMMIT.fullmatch(str(value_at(config, ("engine_kwargs", "revision")))))


def attribute_of(text: str) -> str:
    """The import path `module:attribute`; Ray also accepts `module.attribute`."""
    return text if ":" in text else ":".join(text.rsplit(".", 1))


def _scaling(body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The field `autoscaling`, which needs a maximum."""
    prefix = f"{prefix}autoscaling_config."
    has_maximum = isinstance(value_at(body, parse(f"{prefix}max_replicas")), int)
    return {"autoscaling": mapped(body, _APPLICATIONS["scaling"], prefix)} if has_maximum else {}
