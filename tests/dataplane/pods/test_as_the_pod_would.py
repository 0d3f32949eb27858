"""Real servers under exactly what their pods impose, taken from plans of stack files and called
through the plan's own gateway.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.pods import images
from tests.dataplane.pods.plan import Plan
from tests.dataplane.pods.stand import ENGINES, Outcome, ask, changed, gateway
from tests.dataplane.serving.triton_models import GENERATION, GENERATOR

pytestmark = pytest.mark.timeout(900)

GENERATE = "/v2/models/text_generation/generate"


@pytest.fixture(scope="module")
def pytriton() -> Plan:
    own = {"generator": GENERATOR, "library": None, "engineArgs": None, "streaming": None}
    return Plan(ENGINES / "Pulumi.pytriton.yaml", {"writer": own, "gaudi-writer": own})


@pytest.mark.parametrize("model", ["gaudi-writer", pytest.param("writer", marks=pytest.mark.full)])
@pytest.mark.full
def test_pytriton_serves_through_the_gateway_and_drains(
    run, weights, tritonserver, pytriton, model
):
    image = images.pytriton(tritonserver)
    server = {
        **weights(pytriton.pod(model)),
        "image": images.on_gaudi(image) if model == "gaudi-writer" else image,
    }
    calls = [
        ask(pytriton, f"/{model}{GENERATE}", {"text_input": "x y z"}, key=key)
        for key in (True, False)
    ]
    made = run({model: server, "gateway": gateway(pytriton)}, pytriton, calls=calls)
    assert made["started"] == {model: "ready", "gateway": "ready"}, made
    (status, body), (refused, _) = made["calls"]
    assert (status, refused) == (200, 401), (made["calls"], made["logs"])
    assert json.loads(body)["text_output"] == "z y x"
    assert made["stopped"] == {model: 0, "gateway": 0}, made["logs"]


@pytest.mark.parametrize("model", ["gaudi-writer"])
def test_triton_serves_through_the_gateway_and_drains(run, weights, tritonserver, model):
    repository = {"text_generation": {**GENERATION, "generator": GENERATOR}}
    plan = Plan(ENGINES / "Pulumi.triton.yaml", {model: {"repository": repository}})
    server = {**weights(plan.pod(model)), "image": images.triton(tritonserver)}
    calls = [
        ask(plan, f"/{model}{GENERATE}", {"text_input": "x y z"}, key=key) for key in (True, False)
    ]
    made = run({model: server, "gateway": gateway(plan)}, plan, calls=calls)
    assert made["started"] == {model: "ready", "gateway": "ready"}, made
    (status, body), (refused, _) = made["calls"]
    assert (status, refused) == (200, 401), (made["calls"], made["logs"])
    assert json.loads(body)["text_output"] == "z y x"
    assert made["stopped"] == {model: 0, "gateway": 0}, made["logs"]


def ended(made: Outcome, model: str = "gaudi-writer") -> tuple[int, str]:
    """How the server ended before it served, and what it said."""
    assert made["started"][model]["ended"] == "server", made
    return made["started"][model]["status"], made["logs"][model]


def gaudi(
    run, weights, tritonserver, plan: Plan, edit: Callable[[dict[str, Any]], None]
) -> tuple[int, str]:
    """How PyTriton ends on Gaudi once its container is changed by `edit`."""
    pod = changed(weights(plan.pod("gaudi-writer")), edit)
    return ended(
        run(
            {"gaudi-writer": {**pod, "image": images.on_gaudi(images.pytriton(tritonserver))}}, plan
        )
    )


def test_a_container_that_leaves_its_command_to_gaudi_s_image_ends_in_the_image_s_own_entrypoint(
    run, weights, tritonserver, pytriton
):
    def edit(container: dict[str, Any]) -> None:
        container["args"] = ["/models/gaudi-writer", "--port=8000"]
        del container["command"]
        container["workingDir"] = "/"
        container["env"].append({"name": "PYTHONPATH", "value": "/root/scripts"})

    status, said = gaudi(run, weights, tritonserver, pytriton, edit)
    # The image's directory is closed to the pod's user; were it open, the entrypoint would not know
    # the model's path as a mode.
    assert status != 0
    assert "entrypoints" in said or "invalid choice" in said


def test_a_container_that_leaves_its_working_directory_to_gaudi_s_image_cannot_enter_it(
    run, weights, tritonserver, pytriton
):
    status, said = gaudi(
        run, weights, tritonserver, pytriton, lambda container: container.pop("workingDir")
    )
    assert status != 0
    assert "/root/scripts" in said


def test_gaudi_s_software_aborts_where_its_logs_cannot_be_written(
    run, weights, tritonserver, pytriton
):
    def edit(container: dict[str, Any]) -> None:
        logs = next(each["value"] for each in container["env"] if each["name"] == "HABANA_LOGS")
        container["volumeMounts"] = [
            each for each in container["volumeMounts"] if each["mountPath"] != logs
        ]

    status, said = gaudi(run, weights, tritonserver, pytriton, edit)
    assert status in (-6, 134), said
    assert "Failed to open the log file" in said


# Ray's own functions, as `ray start` calls them (node.py and resource_and_label_spec.py of 2.60):
# where it keeps objects, and how many bytes.
LOOK = """
import json, os
from ray._common.utils import get_system_memory
from ray._private.services import determine_plasma_store_config
from ray._private.utils import resolve_object_store_memory
size = resolve_object_store_memory(get_system_memory())
print("FOUND " + json.dumps({"files": sorted(os.listdir("/models/tuned")), "objects": determine_plasma_store_config(size, "/tmp")[0]}))
"""


@pytest.mark.parametrize(
    ("shm", "place"),
    [
        (None, "/dev/shm"),  # noqa: S108 - where Ray keeps its objects
        pytest.param("2Gi", "/tmp", marks=pytest.mark.full),  # noqa: S108 - where Ray keeps its objects
    ],
)
def test_ray_s_head_keeps_objects_in_memory_and_holds_the_files_that_a_builder_needs(
    run, weights, ray_environment, shm, place
):
    plan = Plan(ENGINES / "Pulumi.ray-serve.yaml", {"tuned": {}})

    def edit(container: dict[str, Any]) -> None:
        # KubeRay adds the command; a whole cluster takes minutes to start, and decides by these
        # functions.
        container["command"] = ["sleep", "3600"]
        container["startupProbe"] = {"exec": {"command": ["python3", "-c", LOOK]}}

    pod = changed(weights(plan.pod("tuned")), edit)
    if shm is not None:
        # With a /dev/shm of the size that fits vLLM, Ray takes the disk.
        next(each for each in pod["spec"]["volumes"] if each["name"] == "shm")["emptyDir"][
            "sizeLimit"
        ] = shm
    made = run({"tuned": {**pod, "image": images.ray(ray_environment)}}, plan)
    assert made["started"] == {"tuned": "ready"}, made
    found = json.loads(
        next(
            line for line in made["logs"]["tuned"].splitlines() if line.startswith("FOUND ")
        ).removeprefix("FOUND ")
    )
    assert found == {"files": ["READY", "READY.sizes", "config.json"], "objects": place}, made[
        "logs"
    ]
