"""Models of vLLM that generate no text: their options, routes, snippets, and what rejects them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from inferplan.commands.main import run
from inferplan.components.gateway.proxy import proxy_config
from inferplan.components.gateway.spec import NginxGatewaySpec
from inferplan.components.serving.vllm.engine_args import TASK_OPTIONS
from inferplan.components.serving.vllm.values import problems, unknown
from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from inferplan.workspace.contract import contract_of
from tests.plans import ROOT, recorded

EXAMPLE = ROOT / "docs" / "tasks" / "Pulumi.tasks.yaml"
# The path of upstream's route below the gateway, for each model of the example.
PATHS = {
    "embedder": "/v1/embeddings",
    "reranker": "/v1/rerank",
    "judge": "/judge/classify",
    "whisper": "/v1/audio/transcriptions",
}


@pytest.mark.parametrize("release", ["0.32.0", "0.33.0"])
@pytest.mark.parametrize("task", TASK_OPTIONS)
def test_the_options_of_a_task_are_those_of_vllm(task, release):
    options = TASK_OPTIONS[task]
    assert not [*unknown(options, release), *problems(options, release)]


def test_servers_start_with_the_options_of_their_task():
    args = {
        each.name: each.inputs["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in recorded(EXAMPLE)
        if each.type.endswith(":Deployment") and each.name != "gateway"
    }
    assert {
        name: [each for each in words if "runner" in each or "convert" in each]
        for name, words in args.items()
    } == {
        "embedder": ["--runner=pooling", "--convert=embed"],
        "reranker": ["--runner=pooling"],
        "judge": ["--runner=pooling", "--convert=classify"],
        "whisper": [],
    }


def edited(tmp_path: Path, section: str, **change) -> Path:
    tree = yaml.safe_load(EXAMPLE.read_text())
    place = tree["config"][f"inferplan:{section.partition('.')[0]}"]
    (place[section.partition(".")[2]] if "." in section else place).update(change)
    file = tmp_path / "Pulumi.tasks.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    return file


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "embedding"}, ("'embedding'", "embed")),
        ({"task": "chat"}, ("'chat'", "generate")),
        ({"extraArgs": ["--runner", "pooling"]}, ("task: embed sets --runner", "Remove one")),
        ({"extraArgs": ["--convert=classify"]}, ("--convert", "Remove one")),
    ],
)
def test_a_wrong_task_is_rejected_with_what_is_allowed(tmp_path, change, words):
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(edited(tmp_path, "models.embedder", **change)))
    assert len(error.value.lines) == 1
    assert [each for each in words if each not in error.value.lines[0]] == []


@pytest.mark.parametrize(("limit", "warned"), [("16Mi", True), ("32Mi", False)])
def test_a_gateway_that_rejects_files_of_speech_is_a_warning(tmp_path, limit, warned):
    stack = read_stack(edited(tmp_path, "gateway", maxBodySize=limit))
    notes = [each for each in map(str, advised(validate(stack), stack)) if "maxBodySize" in each]
    assert bool(notes) == warned
    assert all("models.whisper" in each and "25 MB" in each for each in notes)


def test_a_benchmark_of_a_model_that_generates_nothing_is_rejected(tmp_path):
    file = edited(tmp_path, "models.embedder")
    tree = yaml.safe_load(file.read_text())
    tree["config"]["inferplan:benchmark"] = {
        "models": ["embedder", "reranker"],
        "tokenizer": "embedder",
        "consumer": "search",
    }
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack, match="embedder does not take prompts: its task is embed"):
        validate(read_stack(file))


def test_only_models_that_classify_open_its_route():
    settings = validate(read_stack(EXAMPLE))
    endpoints = list(contract_of(settings).endpoints.values())
    classifiers = [each for each in endpoints if each.task == "classify"]
    assert [each.model for each in classifiers] == ["judge"]
    others = [each for each in endpoints if each.task != "classify"]
    assert isinstance(settings.gateway, NginxGatewaySpec)
    texts = [
        proxy_config(settings.gateway, each, settings.consumers) for each in (endpoints, others)
    ]
    assert ["/classify" in text for text in texts] == [True, False]


def printed(capsys, *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        run(list(arguments))
    assert (end.value.code or 0) == code
    streams = capsys.readouterr()
    return streams.out + streams.err * bool(code)


@pytest.mark.parametrize("model", PATHS)
@pytest.mark.parametrize("language", ["curl", "python"])
def test_snippets_call_the_route_of_the_task(capsys, monkeypatch, model, language):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    text = printed(capsys, "snippet", model, "--stack", str(EXAMPLE), "--language", language)
    if language == "python":
        compile(text, "snippet.py", "exec")
    path = PATHS[model]
    client = {
        "/v1/embeddings": "embeddings.create",
        "/v1/audio/transcriptions": "transcriptions.create",
    }
    assert (path if language == "curl" else client.get(path, path)) in text
    assert "chat" not in text


def test_call_names_the_command_for_models_that_generate_nothing(capsys, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    text = printed(
        capsys,
        "call",
        "embedder",
        "hi",
        "--stack",
        str(EXAMPLE),
        "--gateway",
        "http://127.0.0.1:1",
        code=2,
    )
    assert "generates no text: its task is embed" in text
    assert "inferplan snippet embedder" in text


def test_json_of_a_rerank_has_a_query_and_documents(capsys, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    text = printed(capsys, "snippet", "reranker", "--stack", str(EXAMPLE), "--language", "curl")
    body = json.loads(text[text.index("'{") + 1 : text.rindex("}'") + 1])
    assert set(body) == {"model", "query", "documents"}
