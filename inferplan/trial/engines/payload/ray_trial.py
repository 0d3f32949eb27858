"""Runs in an interpreter with Ray: has Ray Serve judge a configuration, and build its applications as
its controller does, without a cluster.

    python ray_trial.py DIRECTORY < serve.json

Prints a JSON line per finding: its application, deployment, step, whether it works, and the sentence.
"""

import json
import os
import sys
import typing
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch


def say(
    application: str, step: str, sentence: str = "", deployment: str = "", missing: str = ""
) -> None:
    line = {"application": application, "deployment": deployment, "step": step}
    print("trial: " + json.dumps({**line, "sentence": sentence, "missing": missing}), flush=True)


def models_in(annotation: Any) -> list[type]:
    """The pydantic models among the types of a field."""
    from pydantic import BaseModel

    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [each for part in typing.get_args(annotation) for each in models_in(part)]


def unknown_fields(document: Any, model: type, place: str = "") -> typing.Iterator[str]:
    """Yield a sentence about each key of `document` that `model` lacks: Ray ignores it."""
    fields: Any = getattr(model, "model_fields", {})
    for key, value in document.items():
        if key not in fields:
            allowed = ", ".join(sorted(fields))
            yield f"{place}{key} is not a field of {model.__name__}, and Ray ignores it. Allowed: {allowed}"
            continue
        for inner in models_in(fields[key].annotation)[:1]:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    yield from unknown_fields(each, inner, f"{place}{key}.")


def say_unknown_fields(config: dict[str, Any]) -> None:
    from ray.serve.config import AutoscalingConfig
    from ray.serve.schema import DeploymentSchema, ServeApplicationSchema, ServeDeploySchema

    top = {key: value for key, value in config.items() if key != "applications"}
    for sentence in unknown_fields(top, ServeDeploySchema):
        say("", "configuration", sentence)
    for app in config["applications"]:
        own = {key: value for key, value in app.items() if key != "deployments"}
        for sentence in unknown_fields(own, ServeApplicationSchema):
            say(app["name"], "configuration", sentence)
        for each in app.get("deployments", ()):
            scaling = each.get("autoscaling_config") or {}
            for sentence in (
                *unknown_fields(each, DeploymentSchema),
                *unknown_fields(scaling, AutoscalingConfig, "autoscaling_config."),
            ):
                say(app["name"], "configuration", sentence, each["name"])


def judge(config: dict[str, Any]) -> None:
    from pydantic import ValidationError
    from ray.serve._private.utils import validate_route_prefix
    from ray.serve.schema import ServeDeploySchema

    say_unknown_fields(config)
    try:
        applications = ServeDeploySchema.model_validate(config).applications
        for app in applications:
            validate_route_prefix(app.route_prefix)
    except ValidationError as error:
        for each in error.errors():
            name = deployment = ""
            place = each["loc"]
            if place[:1] == ("applications",) and len(place) > 1:
                app, place = config["applications"][place[1]], place[2:]
                name = app["name"]
                if place[:1] == ("deployments",) and len(place) > 1:
                    deployment, place = app["deployments"][place[1]]["name"], place[2:]
            words = each["msg"].removeprefix("Value error, ")
            field = ".".join(map(str, place))
            say(name, "configuration", f"{field}: {words}" if field else words, deployment)
    except Exception as error:  # noqa: BLE001 - whatever Ray raises ends the application
        say("", "configuration", f"{type(error).__name__}: {error}")
    else:
        for app in applications:
            build(app)


def build(app: Any) -> None:
    """Import the application and merge the configuration into its deployments, as Ray's controller
    does.
    """
    import ray
    from ray._common.utils import import_attr
    from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
    from ray.serve._private.application_state import override_deployment_info
    from ray.serve._private.build_app import build_app
    from ray.serve._private.deploy_utils import deploy_args_to_deployment_info, get_deploy_args

    os.environ.update((app.runtime_env or {}).get("env_vars", {}))
    # Ray would start a node only to get a job ID, which takes a minute on a busy computer.
    job = SimpleNamespace(get_job_id=lambda: "01000000")
    step = "import"
    try:
        loaded = call_user_app_builder_with_args_if_necessary(
            import_attr(app.import_path), app.args
        )
        step = "build"
        built = build_app(loaded, name=app.name, make_deployment_handle=lambda *_: None)
        with patch.object(ray, "get_runtime_context", return_value=job):
            infos = {
                each.name: deploy_args_to_deployment_info(
                    **get_deploy_args(
                        name=each.name,
                        replica_config=each._replica_config,  # noqa: SLF001 - as the controller does
                        deployment_config=each._deployment_config,  # noqa: SLF001 - as the controller does
                    ),
                    app_name=app.name,
                )
                for each in built.deployments
            }
        override_deployment_info(infos, app)
    except Exception as error:  # noqa: BLE001 - the code of an application raises anything
        missing = error.name or "" if isinstance(error, ImportError) else ""
        say(app.name, step, f"{type(error).__name__}: {error}", missing=missing)
    else:
        say(app.name, "import")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    os.chdir(sys.argv[1])
    judge(json.load(sys.stdin))
