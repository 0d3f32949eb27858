"""Takes applications out of the configuration of a serving cluster: what a stack can say, and the paths of the rest."""

from __future__ import annotations

from typing import Any

from inferplan.audit.documents import values_in
from inferplan.audit.manifest import InputError
from inferplan.operations.importing.fields import REPOSITORY, Server, leaves, mapped, take, take_all
from inferplan.tables import table

_TABLE = table("operations/importing/servers.toml")["applications"]


def take_applications(server: Server, body: dict[str, Any], row: dict[str, Any]) -> None:
    """Set the applications, the version and the weights of `server` from its document `body`, with the paths of `row`."""
    text = str(take(body, row["applications"]) or "")
    versions = [str(each) for each in take_all(body, row["version"])]
    server.version = next(iter(versions), "")
    try:
        listed = values_in(text.encode(), f"{server.place}: {row['applications']}").get("applications") if text else ()
    except InputError as error:
        server.left += error.errors
        return
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(each, dict):
            name = str(each.pop("name", "default"))
            server.applications[name] = _application(server, each)
            server.left += [f"{row['applications']}: applications[{index}].{path}" for path in leaves(each)]


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
        scaling = mapped(first, _TABLE["scaling"], "deployment_config.autoscaling_config.")
        application = {"kind": "llm", **mapped(body, _TABLE["fields"]), **mapped(first, _TABLE["llm"])}
        return {**application, **({"autoscaling": scaling} if "maxReplicas" in scaling else {})}
    application = {"kind": "custom", **mapped(body, _TABLE["fields"]), **mapped(body, _TABLE["custom"])}
    deployments = {}
    for each in body.get("deployments") or ():
        scaling = mapped(each, _TABLE["scaling"], "autoscaling_config.")
        found = {**mapped(each, _TABLE["deployment"]), **({"autoscaling": scaling} if "maxReplicas" in scaling else {})}
        if isinstance(each.get("name"), str) and found:
            deployments[each.pop("name")] = found
    return {**application, **({"deployments": deployments} if deployments else {})}
