"""What newcomers wish for: each wish gets the row that answers it, and none is silent or misleading.

The expected outcome of each wish was written from the user's side: supported, another way, or not,
and words that must be in the answer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from inferplan.commands.main import run
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.documents.errors import InvalidStack
from inferplan.hardware.accelerators import accelerators
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.stackfile.support import GROUPS, about, page, topics
from tests.unit.stackfile.test_natural_mistakes import VLLM, mistaken

ROOT = Path(__file__).resolve().parents[3]
# The wish as people type it, its status, and words of the answer.
WISHES: list[tuple[str, str, tuple[str, ...]]] = [
    ("aks", "instead", ("provider: existing",)),
    ("gke", "instead", ("provider: existing",)),
    ("OpenShift", "instead", ("provider: existing",)),
    ("k3s", "instead", ("provider: existing",)),
    ("eks", "supported", ("provider: eks",)),
    ("on-prem", "supported", ("provider: existing",)),
    ("spot", "supported", ("capacityTypes",)),
    ("karpenter", "instead", ("autoMode",)),
    ("trn2", "not", ("Trainium", "nvidia-l40s")),
    ("trn2.48xlarge", "not", ("Neuron",)),
    ("inferentia", "not", ("Neuron",)),
    ("tpu", "not", ("TPU",)),
    ("gb200", "not", ("arm64", "nvidia-b200")),
    ("h100", "supported", ("nvidia-h100",)),
    ("mi300x", "supported", ("amd-mi300x", "existing")),
    ("MI250X", "not", ("amd-mi300x",)),
    ("rocm", "supported", ("amd-mi300x",)),
    ("gaudi", "supported", ("gaudi-3",)),
    ("xpu", "not", ("nvidia-l4",)),
    ("cpu", "supported", ("accelerator: cpu",)),
    ("mig", "supported", ("1g.10gb",)),
    ("half a GPU", "instead", ("mig:", "sharing:", "nvidia-l4", "loraAdapters")),
    ("0.5", "instead", ("mig:",)),
    ("runtime lora", "supported", ("loraLoading: runtime",)),
    ("lora hot swapping", "supported", ("loraLoading: runtime",)),
    ("time slicing", "supported", ("timeSlicing: {replicas: 2}", "mig:")),
    ("mps", "supported", ("mps: {replicas: 2}",)),
    ("DRA", "supported", ("devices: dra", "DRA driver of NVIDIA or AMD")),
    ("infiniband", "not", ("EFA",)),
    ("multi-node", "supported", ("nnodes",)),
    ("sglang", "supported", ("engine: sglang",)),
    ("vllm", "supported", ("engine: vllm",)),
    ("tgi", "not", ("engine: vllm",)),
    ("ollama", "not", ("llama.cpp", "safetensors")),
    ("gguf", "not", ("llama.cpp", "safetensors")),
    ("onnx", "supported", ("engine: triton",)),
    ("kserve", "instead", ("inferplan import",)),
    ("awq", "supported", ("quantization",)),
    ("lora", "supported", ("loraAdapters",)),
    ("embeddings", "supported", ("task: embed", "/v1/embeddings")),
    ("rerank", "supported", ("/v1/rerank",)),
    ("whisper", "supported", ("/v1/audio/transcriptions",)),
    ("vision", "supported", ("/v1/chat/completions",)),
    ("stable-diffusion", "instead", ("pytriton",)),
    ("tool calling", "supported", ("extraArgs",)),
    ("speculative decoding", "supported", ("extraArgs",)),
    ("prefix caching", "supported", ("enablePrefixCaching",)),
    ("prefix routing", "supported", ("router: {}",)),
    ("llm-d", "not", ("router: {}",)),
    ("disaggregated prefill", "supported", ("prefill: {replicas: 1}", "decode: {replicas: 1}")),
    ("LMCache", "supported", ("extraArgs",)),
    ("s3", "supported", ("kind: s3",)),
    ("fsx", "supported", ("kind: fsx",)),
    ("weka", "instead", ("kind: pvc",)),
    ("nfs", "supported", ("kind: nfs",)),
    ("oci", "supported", ("kind: oci", "digest")),
    ("gcs", "instead", ("storage.googleapis.com",)),
    ("azure blob", "instead", ("kind: pvc",)),
    ("mlflow", "instead", ("kind: s3",)),
    ("oidc", "instead", ("proxy in front",)),
    ("Okta", "instead", ("proxy in front",)),
    ("rate limit", "supported", ("requestsPerMinute",)),
    ("chargeback", "supported", ("usageLog: true", "inferplan docs usage")),
    ("token budget", "supported", ("tokensPerDay",)),
    ("tokens per minute", "instead", ("tokensPerDay",)),
    ("litellm", "instead", ("Envoy Gateway",)),
    ("gateway api", "supported", ("gatewayApi",)),
    ("scale to zero", "supported", ("min: 0",)),
    ("kueue", "supported", ("queues",)),
    ("terraform", "instead", ("render",)),
    ("air-gapped", "supported", ("mirror",)),
    ("fine-tuning", "not", ("checkpoint",)),
    ("batch API", "not", ("/v1/batches",)),
]  # fmt: skip


@pytest.mark.parametrize(("wish", "status", "words"), WISHES, ids=[each[0] for each in WISHES])
def test_each_wish_gets_the_row_that_answers_it(wish, status, words):
    [row, *others] = about(wish)
    assert row.status == status, row.topic
    assert [each for each in words if each not in row.reason] == []
    # Further rows must not contradict the first one.
    assert {each.status for each in others} <= {status, "instead"}, [each.topic for each in others]


def test_there_are_more_than_48_wishes_and_every_status_among_them():
    assert len({wish.lower() for wish, *_ in WISHES}) >= 48
    assert {status for _, status, _ in WISHES} == {"supported", "instead", "not"}


def test_rows_are_whole():
    names = [row.topic for row in topics()]
    assert len(names) == len(set(names))
    for row in topics():
        assert row.group in GROUPS, row.topic
        assert bool(row.since) == (row.status == "supported"), row.topic
        assert not row.since or re.fullmatch(r"20[0-9]{2}-[01][0-9]", row.since)
        assert row.words or row.values or row.keys, row.topic
        assert row.reason.endswith("."), row.topic
        assert bool(row.fields) == bool(row.values), row.topic


def test_what_the_product_has_is_called_supported():
    for name in (*MODEL_SPECS, *accelerators()):
        rows = about(name)
        assert rows, f"inferplan explain {name} knows nothing"
        assert rows[0].status == "supported", (name, rows[0].topic)


def test_the_page_is_the_table():
    assert (ROOT / "docs" / "supported.md").read_text() == page(), "run inferplan schema --write"


def explained(capsys, *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as end:
        run(["explain", *arguments])
    assert (end.value.code or 0) == code
    streams = capsys.readouterr()
    return streams.out, streams.err


def test_the_command_answers_in_text_and_json(capsys):
    assert "not supported" in explained(capsys, "infiniband")[0]
    [row] = json.loads(explained(capsys, "aks", "--json")[0])["topics"]
    assert row["status"] == "instead"
    assert len(explained(capsys)[0].splitlines()) == len(list(topics()))


def test_a_word_that_no_row_knows_is_an_error_with_the_nearest_topic(capsys):
    _, error = explained(capsys, "sglng", code=2)
    assert "Unknown topic 'sglng'. Did you mean 'SGLang'" in error


# A field or value in a stack file that this release does not have, and words of the answer.
WRITTEN = [
    (f"{VLLM}.inferencePool", "llama", "router: {}"),
    (f"{VLLM}.lora", {"a": "b"}, "loraAdapters"),
    (f"{VLLM}.accelerators", 0.5, "mig:"),
    (f"{VLLM}.tokensPerDay", 1000, "limits.tokensPerDay"),
    ("nodePools.l40s.deviceClass", "gpu.nvidia.com", "devices: dra"),
    ("nodePools.l40s.timeSlice", {"replicas": 4}, "mig:"),
    ("nodePools.l40s.gpuSharing", "mps", "mig:"),
    ("nodePools.l40s.accelerator", "trn2", "Neuron"),
    ("nodePools.l40s.accelerator", "intel-max-1550", "nvidia-l4"),
    ("cluster.provider", "aks", "provider: existing"),
    ("cluster.provider", "gke", "provider: existing"),
    ("gateway.oidc", {"issuer": "https://idp.example"}, "proxy in front"),
    ("gateway.jwt", {}, "proxy in front"),
    ("gateway.implementation", "litellm", "Envoy Gateway"),
    ("storage.weights.kind", "mlflow", "kind: s3"),
    (f"{VLLM}.engine", "ollama", "llama.cpp"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "words"), WRITTEN, ids=lambda each: str(each)[:30])
def test_an_error_of_a_stack_file_gives_the_same_answer(tmp_path, path, value, words):
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(mistaken("local", path, json.dumps(value)), sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    lines = [each for each in error.value.lines if f" {path}:" in each]
    assert len(lines) == 1, error.value.lines
    assert "is not supported." in lines[0]
    assert words in lines[0]
    assert re.search(r":[0-9]+:[0-9]+: ", lines[0])


def names_in(schema: object) -> set[str]:
    """The names of fields, and the enumerated values, of a JSON Schema."""
    if isinstance(schema, list):
        return {name for each in schema for name in names_in(each)}
    if not isinstance(schema, dict):
        return set()
    values = [*schema.get("enum", ()), schema.get("const")]
    fields = [name.removeprefix("inferplan:") for name in schema.get("properties", {})]
    own = {each for each in (*values, *fields) if isinstance(each, str)}
    return own.union(*(names_in(each) for each in schema.values()))


def test_each_field_and_value_that_an_answer_names_exists():
    names = names_in(json.loads((ROOT / "schemas" / "stack.schema.json").read_text()))
    written = {
        (row.topic, word)
        for row in topics()
        for word in re.findall(r"\b[a-z]+[A-Z][A-Za-z]*\b|(?<=kind: )[a-z]\w+", row.reason)
    }
    assert {each for each in written if each[1] not in {*names, "vLLM", "gRPC"}} == set()
