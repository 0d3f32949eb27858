"""The manifest itself, carried out: the pod's own commands under its user on a root that cannot be
written, from check to drain.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pulumi
import pytest

from inferplan.components.gateway.api_keys import ApiKeys
from inferplan.components.gateway.gateway import Gateway
from inferplan.components.gateway.keys import consumer_key
from inferplan.pulumi_engine.values import reveal
from tests.dataplane.gateway.stand import SEED, consumer, endpoint, nginx_binary, spec
from tests.patience import PATIENCE_SECONDS
from tests.recorder import declare

ROOT = Path(__file__).resolve().parents[3]
BACKEND = 8000
# Processes too, so that all of them end with the first one, however a test ends.
OWN = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)


@pytest.fixture(scope="module")
def manifest():
    consumers = {"chat": consumer(keys=[1])}

    def program():
        ring = ApiKeys(
            "api-keys",
            consumers,
            ["llama"],
            namespace="inference",
            seeds=[pulumi.Output.secret(SEED)],
        )
        Gateway(
            "gateway",
            spec(replicas=2),
            namespace="inference",
            endpoints=[endpoint("llama", BACKEND, ("chat",))],
            keys=ring,
        )

    recording = declare(program, preview=False)
    template = recording.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]
    [keys] = [
        each
        for each in recording.of_type("kubernetes:core/v1:Secret")
        if each.inputs["metadata"]["name"].startswith("gateway-keys-")
    ]
    config = recording.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    hashes = {
        name: base64.b64decode(text).decode() for name, text in reveal(keys.inputs["data"]).items()
    }
    return {
        "spec": template["spec"],
        "annotations": template["metadata"]["annotations"],
        "volumes": {"config": config, "keys": hashes},
        "backend": BACKEND,
        "key": consumer_key(SEED, "chat", 1),
        "path": "/llama/v1/chat/completions",
    }


@pytest.fixture
def run(tmp_path):
    def run(manifest, shell="sh"):
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        (tmp_path / "root").mkdir()
        command = [*OWN, sys.executable, "-m", "tests.dataplane.gateway.pod"]
        arguments = [str(tmp_path / "root"), str(tmp_path / "manifest.json"), shell]
        done = subprocess.run(
            [*command, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    nginx_binary()
    if (
        os.geteuid() != 0
        or subprocess.run([*OWN, "true"], check=False, capture_output=True).returncode != 0
    ):
        pytest.skip("a root and a network of its own need root and the right to make namespaces")
    return run


# The default image has busybox's tools where Debian has its own.
@pytest.mark.parametrize("shell", ["sh", pytest.param("busybox", marks=pytest.mark.full)])
def test_the_pod_checks_itself_serves_and_lets_a_stream_end(manifest, run, shell):
    if shell == "busybox" and shutil.which("busybox") is None:
        pytest.skip("there is no busybox on PATH")
    made = run(manifest, shell)
    assert made["prepared"] == 0, made["words"]
    assert (made["with a key"], made["without"]) == (200, 401), made
    assert made["running on"]
    assert made["stream"] == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert made["ended"] == 0
    # Each worker writes its own lines.
    lines = sorted(
        (each["status"], each["consumer"]) for each in map(json.loads, made["log"].splitlines())
    )
    assert lines == [(200, "chat"), (200, "chat"), (401, "")]


def test_a_configuration_that_nginx_refuses_never_starts_the_proxy(manifest, run):
    config = manifest["volumes"]["config"]
    spoilt = {
        **config,
        "nginx.conf": config["nginx.conf"].replace("pcre_jit on;", "pcre_jit perhaps;"),
    }
    made = run({**manifest, "volumes": {**manifest["volumes"], "config": spoilt}})
    assert made["prepared"] != 0
    assert 'invalid value "perhaps"' in made["words"]


@pytest.mark.full
def test_a_pod_that_mounts_the_keys_of_before_does_not_start(manifest, run):
    made = run({**manifest, "annotations": dict.fromkeys(manifest["annotations"], "0" * 16)})
    assert made["prepared"] == 1
    assert "the mounted keys do not have the expected fingerprint" in made["words"]
