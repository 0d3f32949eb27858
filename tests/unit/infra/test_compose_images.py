"""Images that are pulled beforehand, as the whole program declares them."""

from __future__ import annotations

import json
from pathlib import Path

from inferplan.pulumi_engine.program.record import record
from tests.unit.stackfile.test_checks import CONFIG, MODEL

INFRA = Path(__file__).resolve().parents[3] / "inferplan" / "infra"
SET, DEPLOYMENT = "kubernetes:apps/v1:DaemonSet", "kubernetes:apps/v1:Deployment"


def declared(pull):
    pools = CONFIG["nodePools"] | {
        "l40s": CONFIG["nodePools"]["l40s"] | ({"prePullImages": True} if pull else {})
    }
    models = {"first": MODEL, "second": MODEL | {"image": "docker.io/vllm/vllm-openai:v0.32.0"}}
    sections = {**CONFIG, "nodePools": pools, "models": models}
    config = {
        f"inferplan:{key}": json.dumps(value)
        for key, value in sections.items()
        if key != "apiKeySeed"
    }
    seed = {
        "inferplan:apiKeySeed": "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
    }
    return record(
        INFRA, project="inferplan", stack="test", config=config | seed, secret_keys=frozenset(seed)
    )


def test_a_pool_that_asks_for_it_gets_every_image_of_its_models_and_servers_wait_for_them():
    recording = declared(True)
    pull = recording.one(SET)
    images = {each["image"] for each in pull.inputs["spec"]["template"]["spec"]["initContainers"]}
    servers = [each for each in recording.of_type(DEPLOYMENT) if each.name in ("first", "second")]
    assert images == {
        server.inputs["spec"]["template"]["spec"]["containers"][0]["image"] for server in servers
    }
    assert all(pull.urn in server.dependencies for server in servers)


def test_a_pool_that_does_not_ask_pulls_nothing_beforehand():
    assert not list(declared(False).of_type(SET))
