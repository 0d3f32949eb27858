"""Takes applications out of the configuration of a serving cluster: what a stack can say, and the paths of the rest."""

from typing import Any

from inferplan.audit.documents import values_in
from inferplan.audit.manifest import InputError
from inferplan.kube.paths import MISSING, parse, value_at
from inferplan.operations.importing.fields import REPOSITORY, Server, leaves, mapped, take, take_all
from inferplan.tables import table

_TABLE = table("operations/importing/servers.toml")["applications"]


def take_applications(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
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
    server.left += [f"{row['applications']}: {path}" for path in leaves(settings)]


def _application(server: Server, body: dict[str, Any]) -> dict[str, Any]:
    if body.get("import_path") in _TABLE["builders"]:
        body.pop("import_path")
        configurations = (body.get("args") or {}).get("llm_configs") or [{}]
        first = configurations[0] if isinstance(configurations[0], dict) else {}
        source = next((text for path in _TABLE["sources"] if (text := take(first, path)) is not None), "")
        if match := REPOSITORY.fullmatch(str(source)):
            server.model, server.revision = match[1], match[2] or ""
        else:
            server.left.append(f"model {source!r}: it is not a repository of a hub")
        application = {"kind": "llm", **mapped(body, _TABLE["fields"]), **mapped(first, _TABLE["llm"])}
        return application | _scaling(first, "deployment_config.")
    application = {"kind": "custom", **mapped(body, _TABLE["fields"]), **mapped(body, _TABLE["custom"])}
    deployments = {}
    for each in body.get("deployments") or ():
        is_named = isinstance(each, dict) and isinstance(each.get("name"), str) and each["name"] not in deployments
        if is_named and (fields := mapped(each, _TABLE["deployment"]) | _scaling(each, "")):
            deployments[take(each, "name")] = fields
    return {**application, **({"deployments": deployments} if deployments else {})}


def _scaling(body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The field `autoscaling`, which needs a maximum."""
    prefix = f"{prefix}autoscaling_config."
    has_maximum = isinstance(value_at(body, parse(f"{prefix}max_replicas")), int)
    return {"autoscaling": mapped(body, _TABLE["scaling"], prefix)} if has_maximum else {}
