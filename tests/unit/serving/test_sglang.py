"""SGLang: its options are those of its own parser, and its pods start as upstream documents it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from inferplan.components.serving.sglang import options
from inferplan.components.serving.sglang.payload.serve import Exchange, guard
from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from tests.plans import recorded

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "engines" / "Pulumi.sglang.yaml"
PRINTED = json.loads(Path(__file__).with_name("sglang-flags-0.5.23.json").read_text())["flags"]
# A list whose words have choices, and two whose choices a registry computes.
OTHER_VALUES = {"--lora-target-modules", "--kv-canary-real-data", "--monokernel-backend"}


def test_the_options_are_those_that_sglang_printed():
    assert set(options.release()["options"]) == set(PRINTED)


def test_values_are_those_that_the_parser_printed():
    rows = options.release()["options"]
    differing = {
        name
        for name, row in PRINTED.items()
        if row.get("choices", []) != rows[name].get("values", [])
    }
    assert differing == OTHER_VALUES


def test_switches_are_those_that_the_parser_printed():
    rows = options.release()["options"]
    differing = {
        name
        for name, row in PRINTED.items()
        if (row["takes"] == "nothing") != (rows[name].get("takes") in ("switch", "flag"))
    }
    assert differing == {"--monokernel-backend"}


def test_each_field_is_an_option_of_sglang():
    spellings = {each for row in options.FIELD_OPTIONS.values() for each in row}
    assert spellings <= set(PRINTED)


def stack(tmp_path, **fields) -> Path:
    tree = yaml.safe_load(EXAMPLE.read_text())
    tree["config"]["inferplan:models"]["qwen-3-8b"].update(fields)
    file = tmp_path / "Pulumi.sglang.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    return file


def rejected(tmp_path, **fields) -> tuple[str, ...]:
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(stack(tmp_path, **fields)))
    return error.value.lines


def advice(file: Path) -> list[str]:
    read = read_stack(file)
    return [str(each) for each in advised(validate(read), read)]


# What people write, and words of the answer: the problem, what is allowed or what to do.
WRONG = [
    ({"extraArgs": ["--max-model-len", "8192"]}, "--max-model-len", "Set the field contextLength"),
    ({"extraArgs": ["--gpu-memory-utilization=0.9"]}, "vLLM", "memFractionStatic"),
    ({"extraArgs": ["--enable-prefix-caching"]}, "vLLM", "disableRadixCache"),
    ({"extraArgs": ["--tool-call-parser", "qwen9"]}, "'qwen9'", "qwen25"),
    ({"extraArgs": ["--attention-backend=flash"]}, "'flash'", "flashinfer"),
    ({"extraArgs": ["--schedule-policy", "fifo"]}, "'fifo'", "fcfs"),
    ({"extraArgs": ["--max-prefil-tokens", "9"]}, "--max-prefil-tokens", "--max-prefill-tokens"),
    ({"extraArgs": ["--page-size", "big"]}, "'big' is not a number", "--page-size"),
    ({"extraArgs": ["--page-size", "16", "--page-size", "32"]}, "stands twice", "once"),
    ({"extraArgs": ["--page-size"]}, "needs a value", "--page-size"),
    ({"extraArgs": ["--api-key", "x"]}, "--api-key", "Secret"),
    ({"extraArgs": ["--tp", "2"]}, "--tp-size", "tensorParallelSize"),
    ({"extraArgs": ["--dp-size", "2"]}, "--dp-size", "replicas"),
    ({"extraArgs": ["--tokenizer-worker-num", "4"]}, "--tokenizer-worker-num", "keys"),
    ({"extraArgs": ["--grpc-port", "9000"]}, "--grpc-port", "key"),
    ({"extraArgs": ["--trust-remote-code"]}, "--trust-remote-code", "trustRemoteCode"),
    ({"quantization": "fp7"}, "'fp7'", "fp8"),
    ({"kvCacheDtype": "fp8"}, "'fp8'", "fp8_e5m2"),
    ({"env": {"SGLANG_API_KEY": "x"}}, "SGLANG_API_KEY", "Secret"),
    ({"maxModelLen": 4096}, "maxModelLen", "contextLength"),
    ({"loraAdapters": {}}, "maxLoraRank", "loraAdapters"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "problem", "remedy"), WRONG, ids=lambda each: str(each)[:40])
def test_a_wrong_setting_is_answered_with_what_is_allowed(tmp_path, fields, problem, remedy):
    lines = rejected(tmp_path, **fields)
    assert len(lines) == 1, lines
    assert problem in lines[0]
    assert remedy in lines[0]
    assert str(tmp_path / "Pulumi.sglang.yaml") in lines[0]


def test_another_release_is_judged_with_a_warning(tmp_path):
    file = stack(
        tmp_path, image="docker.io/lmsysorg/sglang:v0.5.20", extraArgs=["--page-siz", "1", "--nope"]
    )
    [line] = [each for each in advice(file) if "'--nope'" in each]
    assert "SGLang 0.5.23" in line


def test_a_variable_that_sglang_does_not_read_is_a_warning(tmp_path):
    file = stack(tmp_path, env={"SGLANG_ENABLE_TORCH_COMPIL": "1"})
    assert [each for each in advice(file) if "does not read SGLANG_ENABLE_TORCH_COMPIL" in each]


def test_cpus_and_gaudi_are_rejected_with_what_to_use(tmp_path):
    tree = yaml.safe_load(EXAMPLE.read_text())
    pools = tree["config"]["inferplan:nodePools"]
    pools["l40s"] = {"provider": "simulated", "accelerator": "gaudi-3", "nodes": 2}
    file = tmp_path / "Pulumi.sglang.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    assert any(
        "no build for Gaudi" in line and "engine: vllm" in line for line in error.value.lines
    )


@pytest.fixture(scope="module")
def objects():
    named: dict[str, dict] = {}
    for each in recorded(EXAMPLE):
        named.setdefault(each.type.rpartition(":")[2], {})[each.name] = each.inputs
    return named


def container_of(objects, kind: str, name: str, *path: str):
    node = objects[kind][name]["spec"]
    for each in path:
        node = node[each]
    return node["spec"]["containers"][0]


def test_the_server_starts_behind_the_exchange_of_keys(objects):
    container = container_of(objects, "Deployment", "qwen-3-8b", "template")
    assert container["command"] == ["python3"]
    assert container["args"] == [
        "/launch/serve.py",
        "--model-path=/models/qwen-3-8b",
        "--served-model-name=qwen-3-8b",
        "--host=0.0.0.0",
        "--port=30000",
        "--enable-metrics",
        "--tp-size=1",
        "--pp-size=1",
        "--context-length=32768",
        "--max-lora-rank=16",
        "--enable-lora",
        "--lora-paths",
        "polite=/models/qwen-3-8b/adapters/polite",
        "--tool-call-parser",
        "qwen25",
        "--reasoning-parser",
        "qwen3",
    ]
    keys = {each["name"]: each.get("valueFrom") for each in container["env"]}
    assert keys["SGLANG_API_KEY"]["secretKeyRef"]["name"] == "qwen-3-8b-server-key"
    probes = {
        container[each]["httpGet"]["path"]
        for each in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert probes == {"/health"}


def test_a_replica_of_two_nodes_meets_at_its_first_pod(objects):
    group = objects["LeaderWorkerSet"]["deepseek-r1"]["spec"]["leaderWorkerTemplate"]
    address = "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000"
    args = {
        role: group[f"{role}Template"]["spec"]["containers"][0]["args"][-3:]
        for role in ("leader", "worker")
    }
    assert args == {
        "leader": ["--nnodes=2", "--node-rank=0", address],
        "worker": ["--nnodes=2", "--node-rank=$(LWS_WORKER_INDEX)", address],
    }
    for role in ("leader", "worker"):
        [server] = group[f"{role}Template"]["spec"]["containers"]
        assert server["resources"]["limits"]["nvidia.com/gpu"] == "8"


class App:
    """The part of Starlette's application that the launcher relies on: the handlers are built at
    the first request, and see its headers.
    """

    def __init__(self):
        self.seen: list[dict[bytes, bytes]] = []

    def build_middleware_stack(self):
        async def handlers(scope, receive, send):  # noqa: ARG001 - the signature of ASGI
            self.seen.append(dict(scope["headers"]))

        return handlers


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"Bearer first", b"Bearer inner"),
        (b"Bearer second", b"Bearer inner"),
        (b"Bearer third", b"Bearer third"),
        (b"first", b"first"),
        (b"Bearer inner", b"Bearer inner"),
    ],
)
def test_accepted_keys_are_exchanged_for_the_inner_key(sent, seen):
    app = App()
    guard(app, ["first", "second"], "inner")
    stack = app.build_middleware_stack()
    assert isinstance(stack, Exchange)
    headers = [(b"Authorization", sent), (b"x", b"y")]
    asyncio.run(stack({"type": "http", "headers": headers}, None, None))
    assert app.seen == [{b"Authorization": seen, b"x": b"y"}]
