"""What we write as serveConfigV2, Ray's own schema takes; what we refuse, it refuses when it is
written all the same.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.serving.ray_serve.serve_config import serve_config
from tests.patience import PATIENCE_SECONDS
from tests.unit.serving.test_ray_serve import CUSTOM, LLM, ray

JUDGE = """
import json, sys
from ray.serve._private.utils import validate_route_prefix
from ray.llm._internal.serve.core.configs.llm_config import LLMConfig
from ray.serve.config import AutoscalingConfig
from ray.serve.deployment import schema_to_deployment
from ray.serve.schema import ServeDeploySchema
for config in json.load(sys.stdin):
    try:
        for app in ServeDeploySchema.model_validate(config).applications:
            # The schema keeps what Serve's controller then refuses; these are the controller's own checks.
            validate_route_prefix(app.route_prefix)
            for each in app.args.get("llm_configs", []):
                LLMConfig.model_validate(each)
            for each in app.deployments:
                if isinstance(each.autoscaling_config, dict):
                    AutoscalingConfig(**each.autoscaling_config)
                # The controller turns `auto` into numbers before it comes here.
                schema_to_deployment(each.model_copy(update={"num_replicas": 1}) if each.num_replicas == "auto" else each)
        print("taken")
    except Exception as fault:
        print("refused: " + str(fault).replace(chr(10), " ")[:300])
"""
SETTINGS = {
    "numReplicas": 2, "maxOngoingRequests": 8, "maxQueuedRequests": 16, "cpus": 0.5, "accelerators": 0.5, "userConfig": {"a": 1},
    "maxReplicasPerNode": 1, "healthCheckPeriodSeconds": 5, "healthCheckTimeoutSeconds": 20, "gracefulShutdownTimeoutSeconds": 60,
}  # fmt: skip
SCALING = {
    "minReplicas": 1,
    "initialReplicas": 1,
    "maxReplicas": 3,
    "targetOngoingRequests": 4,
    "upscaleDelaySeconds": 5,
    "downscaleDelaySeconds": 60,
}
SOUND: dict[str, dict[str, Any]] = {
    "an LLM": {"llm": {**LLM, "tensorParallelSize": 2, "pipelineParallelSize": 2, "maxModelLen": 8192, "autoscaling": SCALING, "engineKwargs": {"seed": 7}}},
    "an application with every setting": {
        "rag": {
            **CUSTOM, "workingDir": "s3://code/rag-1.zip", "args": {"a": [1]}, "checkpointPath": "run", "env": {"A": "b"}, "pip": ["regex==2026.1.1"],
            "deployments": {"one": SETTINGS, "two": {"autoscaling": SCALING}, "three": {"numReplicas": "auto"}},
        }
    },
    "two applications": {"llm": LLM, "rag": CUSTOM},
}  # fmt: skip


def _deployment(**settings: Any) -> dict[str, Any]:
    return {"a": {**CUSTOM, "deployments": {"d": settings}}}


# As a user would write it, and what would come of it in a configuration for Ray.
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numReplicas beside autoscaling": (_deployment(numReplicas=2, autoscaling=SCALING), {"num_replicas": 2, "autoscaling_config": {"max_replicas": 3}}),
    "numReplicas 0": (_deployment(numReplicas=0), {"num_replicas": 0}),
    "numReplicas a word": (_deployment(numReplicas="many"), {"num_replicas": "many"}),
    "least above most": (_deployment(autoscaling={"minReplicas": 4, "maxReplicas": 2}), {"autoscaling_config": {"min_replicas": 4, "max_replicas": 2}}),
    "initial above most": (
        _deployment(autoscaling={"initialReplicas": 4, "maxReplicas": 2}), {"autoscaling_config": {"initial_replicas": 4, "max_replicas": 2}}
    ),
    "most 0": (_deployment(autoscaling={"maxReplicas": 0}), {"autoscaling_config": {"max_replicas": 0}}),
    "no ongoing requests": (_deployment(maxOngoingRequests=0), {"max_ongoing_requests": 0}),
    "no queued requests": (_deployment(maxQueuedRequests=0), {"max_queued_requests": 0}),
    "negative cards": (_deployment(accelerators=-1), {"ray_actor_options": {"num_gpus": -1}}),
    "negative cpus": (_deployment(cpus=-1), {"ray_actor_options": {"num_cpus": -1}}),
    "a health check without a period": (_deployment(healthCheckPeriodSeconds=0), {"health_check_period_s": 0}),
    "a negative shutdown": (_deployment(gracefulShutdownTimeoutSeconds=-1), {"graceful_shutdown_timeout_s": -1}),
    "negative delay": (
        _deployment(autoscaling={"maxReplicas": 2, "upscaleDelaySeconds": -1}), {"autoscaling_config": {"max_replicas": 2, "upscale_delay_s": -1}}
    ),
    "too many on a node": (_deployment(maxReplicasPerNode=101), {"max_replicas_per_node": 101}),
}  # fmt: skip
LLM_CONFIG = {"model_loading_config": {"model_id": "llama", "model_source": "/models/chat"}}


def _llm(**changed: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": "llm",
            "import_path": "ray.serve.llm:build_openai_app",
            "args": {"llm_configs": [{**LLM_CONFIG, **changed}]},
        }
    ]


WRONG_APPLICATIONS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "no route's slash": ({"a": {**CUSTOM, "routePrefix": "rag"}}, [{"name": "a", "import_path": "app:graph", "route_prefix": "rag"}]),
    "a route that ends in a slash": ({"a": {**CUSTOM, "routePrefix": "/rag/"}}, [{"name": "a", "import_path": "app:graph", "route_prefix": "/rag/"}]),
    "a route with a parameter": ({"a": {**CUSTOM, "routePrefix": "/{x}"}}, [{"name": "a", "import_path": "app:graph", "route_prefix": "/{x}"}]),
    "one route twice": ({"a": CUSTOM, "b": CUSTOM}, [{"name": n, "import_path": "app:graph", "route_prefix": "/rag"} for n in "ab"]),
    "an import path of one part": ({"a": {**CUSTOM, "importPath": "app"}}, [{"name": "a", "import_path": "app"}]),
    "an import path of three parts": ({"a": {**CUSTOM, "importPath": "app:a:b"}}, [{"name": "a", "import_path": "app:a:b"}]),
    "an empty import path": ({"a": {**CUSTOM, "importPath": ""}}, [{"name": "a", "import_path": ""}]),
    "an LLM that scales downwards": (
        {"llm": {**LLM, "autoscaling": {"minReplicas": 4, "maxReplicas": 2}}},
        _llm(deployment_config={"autoscaling_config": {"min_replicas": 4, "max_replicas": 2}}),
    ),
    "an LLM with a setting that there is not": ({"llm": {**LLM, "temperature": 1}}, _llm(temperature=1)),
    "code on one node only": (
        {"a": {**CUSTOM, "workingDir": "/home/me/app"}}, [{"name": "a", "import_path": "app:graph", "runtime_env": {"working_dir": "/home/me/app"}}]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def verdicts(ray_environment):
    """Ray's verdict on every configuration, by name."""
    configs = {
        name: serve_config(
            "chat",
            dict(ray(applications=each, accelerators=8, replicas=2).applications),
            weights="/models/chat",
            resource="GPU",
        )
        for name, each in SOUND.items()
    }
    for name, (_, deployment) in WRONG.items():
        app = {
            "name": "a",
            "import_path": "app:graph",
            "route_prefix": "/rag",
            "deployments": [{"name": "d", **deployment}],
        }
        configs[name] = {"applications": [app]}
    configs |= {name: {"applications": apps} for name, (_, apps) in WRONG_APPLICATIONS.items()}
    done = subprocess.run(
        [str(ray_environment.python), "-c", JUDGE],
        input=json.dumps(list(configs.values())),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(configs, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("case", list(SOUND))
def test_ray_takes_what_we_write(case, verdicts):
    assert verdicts[case] == "taken"


@pytest.mark.parametrize("case", [*WRONG, *WRONG_APPLICATIONS])
def test_a_wrong_application_is_refused_by_us_and_by_ray(case, verdicts):
    with pytest.raises(ValidationError):
        ray(applications={**WRONG, **WRONG_APPLICATIONS}[case][0], accelerators=8)
    assert verdicts[case].startswith("refused"), verdicts[case]
