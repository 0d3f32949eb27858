"""What mutants are made of: recordings of our own stacks, of the engines' examples, and of two
variants that no committed stack has.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from tests.stacks.test_committed_stacks import PASSPHRASE, recording_of

ROOT = Path(__file__).resolve().parents[2]
DAY = "2026-11-21"
COMMITTED = ("local", "onprem", "prod")
EXAMPLES = ("vllm", "triton", "ray-serve")
# The local stack behind a Gateway of the Gateway API with replicas by load; with Envoy Gateway in
# the place of the proxy; with every image pinned, for the rule that wants that; and with its models
# in a queue of Kueue, as those of the Ray example.
VARIANTS = ("routed", "envoy", "pinned", "queued", "queued-rays")
NAMES = (*COMMITTED, *EXAMPLES, *VARIANTS)
_DIGEST = "sha256:" + "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"


def settings_of(name: str) -> Settings:
    """What each recording is judged by: no exemption, and the rule on digests only where images
    have some.
    """
    return Settings(
        today=DAY, levels={"image-require-digest": Level.MANDATORY} if name == "pinned" else {}
    )


@cache
def recorded(name: str) -> Recording:
    """The recording called `name`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        if name in COMMITTED:
            return recording_of(name)
        match name:
            case "pinned":
                return _pinned(recording_of("local"))
            case "queued":
                recording = _queued(ROOT / "stacks" / "Pulumi.local.yaml", name)
            case "queued-rays":
                recording = _queued(ROOT / "docs" / "engines" / "Pulumi.ray-serve.yaml", name)
            case "routed":
                recording = _routed(autoscaling={"maxReplicas": 4})
            case "envoy":
                recording = _routed(implementation="envoyGateway")
            case _:
                recording = recording_with(ROOT / "docs" / "engines" / f"Pulumi.{name}.yaml", name)
        return recording


def recording_with(path: Path, name: str, **over: Any) -> Recording:
    """What the program registers for the stack file at `path`, with the top keys `over` in the
    place of its own.
    """
    from inferplan.pulumi_engine.secrets import open_secrets
    from inferplan.stackfile.reader import read_stack

    file = read_stack(path)
    secrets = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=file.secrets_provider,
        environment=PASSPHRASE,
    )
    config = {
        **file.config,
        **secrets.values,
        **{f"inferplan:{key}": json.dumps(value) for key, value in over.items()},
    }
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack=name,
        config=config,
        secret_keys=frozenset(secrets.values),
    )


def _routed(**more: Any) -> Recording:
    gateway = {
        "host": "llm.local.test",
        "exposure": "gatewayApi",
        "parent": {"name": "edge", "namespace": "edge"},
        **more,
    }
    return recording_with(
        ROOT / "stacks" / "Pulumi.local.yaml",
        "envoy" if "implementation" in more else "routed",
        gateway=gateway,
    )


def _queued(path: Path, name: str) -> Recording:
    from inferplan.stackfile.reader import read_stack

    models = json.loads(read_stack(path).config["inferplan:models"])
    pools = {each["pool"]: {} for each in models.values()}
    return recording_with(
        path,
        name,
        models={key: {**each, "queue": "serving"} for key, each in models.items()},
        queues={"serving": {"pools": pools}},
    )


def _pinned(recording: Recording) -> Recording:
    def pin(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: f"{item.partition('@')[0]}@{_DIGEST}"
                if key == "image" and isinstance(item, str)
                else pin(item)
                for key, item in value.items()
            }
        return [pin(each) for each in value] if isinstance(value, list) else value

    pinned = tuple(
        dataclasses.replace(each, inputs=pin(copy.deepcopy(each.inputs)))
        if each.type.startswith("kubernetes:")
        else each
        for each in recording
    )
    return dataclasses.replace(recording, stack="pinned", registrations=pinned)
