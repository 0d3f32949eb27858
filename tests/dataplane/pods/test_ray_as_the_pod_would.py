"""A whole Ray cluster from a RayService: head and worker as KubeRay makes their pods, the Serve
configuration as it deploys it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.dataplane.pods import images, kuberay
from tests.dataplane.pods.plan import Plan
from tests.dataplane.pods.stand import ENGINES, ask, gateway
from tests.stacks.test_committed_stacks import ROOT

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

MODEL = "tuned"
HEAD, WORKER = "10.9.0.2", "10.9.0.3"
APPLICATION = ROOT / "inferplan" / "images" / "ray-app" / "rag"
# Ray gives a node 30 s to start (_private/node.py, 2.60), and ends a head whose client server is
# late.
TOO_SLOW = (
    "The current node timed out during startup",
    "Some Ray subprocesses exited unexpectedly",
)
# A worker starts a process for each CPU, and this machine has few.
SMALLER = {"resources": {"cpu": "2", "memory": "16Gi"}}


def own_image(environment) -> dict:
    """An image of inferplan/images/ray-app: Ray's, with the application in its working directory."""
    image = images.ray(environment)
    # By itself Ray gives its dashboard 60 s to start, which a busy machine exceeds.
    env = {**image["env"], "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "400"}
    return {
        **image,
        "env": env,
        "workdir": "/home/ray",
        "mounts": {**image["mounts"], "/home/ray/rag": str(APPLICATION)},
    }


@pytest.fixture(scope="module")
def plan():
    return Plan(ENGINES / "Pulumi.ray-serve.yaml", {MODEL: SMALLER})


def test_a_head_and_a_worker_serve_an_application_through_the_gateway(
    run, weights, ray_environment, plan
):
    if shutil.which("wget") is None or shutil.which("ip") is None:
        pytest.skip(
            "KubeRay's probes need wget, and pods with addresses of their own need ip (iproute2)"
        )
    service = plan.ray_service(MODEL)
    pods = {}
    for name, address in (("head", HEAD), ("worker", WORKER)):
        pod = weights(plan.completed(kuberay.pod_template(service, MODEL, head=name == "head")))
        pods[name] = {**pod, "image": own_image(ray_environment), "address": address}
    dashboard = {
        "host": HEAD,
        "port": 8265,
        "path": "/api/serve/applications/",
        "headers": {"Authorization": f"Bearer {kuberay.TOKEN}"},
    }
    config = {"method": "PUT", "body": json.dumps(yaml.safe_load(service["serveConfigV2"]))}
    pods["head"]["then"] = [{**dashboard, **config}]
    pods["gateway"] = gateway(plan)
    answer = ask(plan, f"/{MODEL}/serve/answer", {"text": "why"})
    outcome = run(
        pods,
        plan,
        secrets={**plan.secrets(), MODEL: {"auth_token": kuberay.TOKEN}},
        services={f"{MODEL}-head-svc": HEAD, f"{MODEL}-serve-svc": WORKER},
        calls=[
            {**dashboard, "method": "GET", "until": '"RUNNING"'},
            answer,
            {**answer, "headers": {**answer["headers"], "Authorization": ""}},
        ],
    )
    if len(outcome["calls"]) < 4 and (
        late := next((each for each in TOO_SLOW if each in outcome["logs"]["head"]), None)
    ):
        pytest.skip(
            f"this machine is too busy for limits that Ray does not let anyone change: {late}"
        )
    assert outcome["started"] == {"head": "ready", "worker": "ready", "gateway": "ready"}, (
        outcome["started"],
        outcome["logs"],
    )
    (deployed, _), (_, status), (answered, body), (denied, _) = outcome["calls"]
    assert (deployed, answered, denied) == (200, 200, 401), (outcome["calls"], outcome["logs"])
    assert json.loads(status)["applications"]["rag"]["status"] == "RUNNING", status[-3000:]
    files = [Path("/models") / MODEL / each for each in ("run-7", "base")]
    assert json.loads(body) == {"question": "why", "files": {str(each): False for each in files}}
