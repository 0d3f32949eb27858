"""What a model's variables and arguments call has to be in its egress; the remedy of each error is
accepted.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from inferplan.tables import table
from tests.unit.stackfile.test_checks import MODEL, only

RAY: dict[str, Any] = {
    "engine": "ray-serve",
    "image": "registry.acme.example/rag:1.4.0",
    "rayVersion": "2.56.0",
    "pool": "l40s",
}
SECRET = {"secretName": "search", "key": "value"}


def ray(application: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    custom = {"kind": "custom", "importPath": "search.app:build", **(application or {})}
    return {"find": {**RAY, "consumers": ["chat"], "applications": {"find": custom}, **fields}}


def model(**fields: Any) -> dict[str, Any]:
    return {"find": {**MODEL, **fields}}


@pytest.mark.parametrize(
    ("models", "where", "words"),
    [
        (
            model(env={"VECTORS_URL": "https://milvus.db.svc:19530"}),
            "env.VECTORS_URL",
            "'https://milvus.db.svc' is a server",
        ),
        (
            model(env={"CACHE": "redis://:pw@10.4.0.9/0"}),
            "env.CACHE",
            "{host: 10.4.0.9, ports: [6379]}",
        ),
        (model(env={"MILVUS_HOST": "milvus.acme.example"}), "env.MILVUS_HOST", "ports: [<port>]"),
        (
            model(env={"BROKERS": "kafka-0.acme.example:9092"}),
            "env.BROKERS",
            "cidrs: [<networks of its servers>], ports: [9092]",
        ),
        (
            model(env={"MILVUS_URI": SECRET}),
            "env.MILVUS_URI",
            "MILVUS_URI is the address of a server",
        ),
        (
            model(env={"https_proxy": "http://10.9.0.1:3128"}),
            "env.https_proxy",
            'egress: {proxy: {url: "http://10.9.0.1:3128"}}',
        ),
        (
            model(env={"HF_TOKEN": SECRET}),
            "env.HF_TOKEN",
            "credentials of a store of kind huggingface",
        ),
        (
            model(env={"WANDB_API_KEY": SECRET}),
            "env.WANDB_API_KEY",
            "WANDB_API_KEY is for api.wandb.ai",
        ),
        (
            model(extraArgs=["--otlp-traces-endpoint=http://tempo.obs.svc:4317"]),
            "extraArgs[0]",
            "{host: tempo.obs.svc, ports: [4317]}",
        ),
        (
            model(extraArgs=["--hf-config-path", "x", "--tokenizer", "Qwen/Qwen3-8B"]),
            "extraArgs[3]",
            "id of a model on huggingface.co",
        ),
        (
            model(extraArgs=['--speculative-config={"model": "acme/draft-1b"}']),
            "extraArgs[0]",
            "'acme/draft-1b' is the id of a model",
        ),
        (
            ray({"pip": ["qdrant-client==1.15.1"]}),
            "applications.find.pip",
            "Build the packages into the image",
        ),
        (
            ray({"workingDir": "s3://acme-code/search.zip"}),
            "applications.find.workingDir",
            "'s3://acme-code' is on s3.amazonaws.com",
        ),
        (
            ray({"args": {"index": {"endpoint": "http://es.logs.svc:9200/a"}}}),
            "applications.find.args.index.endpoint",
            "es.logs.svc",
        ),
        (
            ray({"args": {"model_id": "BAAI/bge-m3"}}),
            "applications.find.args.model_id",
            "'BAAI/bge-m3' is the id of a model",
        ),
        (
            ray({"env": {"ES": "http://es.logs:9200"}}),
            "applications.find.env.ES",
            "{host: es.logs, ports: [9200]}",
        ),
    ],
)
def test_what_a_value_calls_is_missing_in_the_egress(lines, models, where, words):
    line = only(lines(models=models))
    assert f"models.find.{where}: " in line
    assert "which the model's pods cannot reach" in line or "HF_HUB_OFFLINE" in line
    assert words in line
    assert re.match(r"s\.yaml:\d+:\d+: ", line)


@pytest.mark.parametrize(
    "env",
    [
        {"VECTORS_URL": "https://milvus.db.svc:19530"},
        {"CACHE": "redis://10.4.0.9/0"},
        {"BROKERS": "kafka-0.acme.example:9092"},
        {"HTTP_PROXY": "http://squid.acme.example:3128"},
        {"WANDB_API_KEY": SECRET},
        {"SENTRY_DSN": "https://abc@o1.ingest.sentry.io/4"},
        {"MILVUS_URI": SECRET},
    ],
)
def test_the_remedy_as_printed_is_accepted(lines, env):
    [line] = lines(models=model(env=env))
    [remedy] = re.findall(r"egress: \{.*?\}(?:\]\}|\}\}|$)", line)
    for blank, value in {
        "networks of its servers": "10.7.0.0/24",
        "networks of the proxy": "10.7.0.9/32",
        "port": "19530",
    }.items():
        remedy = remedy.replace(f"<{blank}>", value)
    fields = yaml.safe_load(remedy.replace("<its host>", "milvus.db.svc"))
    kept = {} if "Replace it" in line else env
    assert lines(models=model(env=kept, **fields)) == ()


PROXY = {"proxy": {"url": "http://10.9.0.1:3128"}}
HUB = {"HF_TOKEN": SECRET, "HF_HUB_OFFLINE": "0"}


@pytest.mark.parametrize(
    "models",
    [
        model(
            env={
                "LOCAL_URL": "http://127.0.0.1:9000",
                "BIND": "tcp://0.0.0.0:5555",
                "SOCK": "unix:///tmp/a",
            }
        ),
        model(
            env={
                "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512",
                "CORS_ORIGINS": "https://app.acme.example",
                "TZ": "Europe/Berlin",
            }
        ),
        model(env={"NO_PROXY": "acme.example", "LEVELS": "root:20", "SERVER_NAME": "find"}),
        model(
            servedModelName="acme/find",
            extraArgs=["--chat-template=/models/find/t.jinja", "--hf-config-path", "a/b"],
        ),
        model(env={"TOKENIZER": "Qwen/Qwen3-8B", "HF_HOME": "/data/hub"}),
        model(env={"API": "https://api.acme.example"}, egress=PROXY),
        model(env=HUB, egress=PROXY),
        model(
            env={"API_URL": "https://api.acme.example"},
            egress={"to": [{"cidrs": ["0.0.0.0/0"], "ports": [443]}]},
        ),
        model(env={"PORTAL_HOST": "portal.acme.example"}, egress={"notCalled": ["PORTAL_HOST"]}),
        model(
            env={"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": "http://other.llm.svc/v1"},
            egress={"to": [{"host": "x.llm.svc", "ports": [80]}]},
        ),
        ray({"pip": ["a==1"]}, egress=PROXY),
        ray(
            {"args": {"u": "redis://state.db.svc:6379"}},
            gcsFaultTolerance={"redisAddress": "state.db.svc:6379"},
        ),
    ],
)
def test_what_needs_no_egress_or_has_it_is_accepted(lines, models):
    assert lines(models=models) == ()


@pytest.mark.parametrize(
    ("egress", "env", "words"),
    [
        (
            PROXY,
            {"HF_TOKEN": SECRET},
            'HF_HUB_OFFLINE=1 is set in every pod. Add env: {HF_HUB_OFFLINE: "0"}',
        ),
        (PROXY, {"no_proxy": "acme.example"}, "egress.proxy sets no_proxy too. Remove it here"),
        (PROXY, {"DB_URL": "postgres://pg.acme.example/x"}, "pg.acme.example"),
        (PROXY, {"DB_URL": "http://search.db.svc"}, "search.db.svc"),
        (
            {"to": [{"host": "a.db.svc", "ports": [80]}]},
            {"DB_URL": "http://a.db.svc:81"},
            "Add to models.find.egress.to: {host: a.db.svc",
        ),
        (
            {"to": [{"host": "api.acme.example", "ports": [443]}]},
            {},
            "A NetworkPolicy cannot match the host name 'api.acme.example'",
        ),
        ({"to": [{"ports": [443]}]}, {}, "Neither host nor cidrs is set"),
        (
            {"to": [{"cidrs": ["169.254.0.0/16"], "ports": [80]}]},
            {},
            "contains an instance metadata address",
        ),
        (
            {"proxy": {"url": "http://proxy.acme.example:3128"}},
            {},
            "cidrs: [<networks of its servers>]",
        ),
        (
            {"proxy": {"url": "http://u:geheim@10.9.0.1:3128"}},
            {},
            "contains a user name or password",
        ),
    ],
)
def test_egress_that_does_not_do_it_is_an_error(lines, egress, env, words):
    line = only(lines(models=model(env=env, egress=egress)))
    assert words in line
    assert "geheim" not in line


@pytest.mark.parametrize("variable", sorted(table("stackfile/checks/outgoing.toml")["variables"]))
def test_each_token_of_the_table_needs_its_service(lines, variable):
    assert table("stackfile/checks/outgoing.toml")["variables"][variable] in only(
        lines(models=model(env={variable: SECRET}))
    )


@pytest.mark.parametrize("scheme", sorted(table("stackfile/checks/outgoing.toml")["ports"]))
def test_each_scheme_of_the_table_is_a_call(lines, scheme):
    assert f"ports: [{table('stackfile/checks/outgoing.toml')['ports'][scheme]}]" in only(
        lines(models=model(env={"X": f"{scheme}://h.acme.example/a"}))
    )
