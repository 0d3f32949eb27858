"""Artifacts beside weights: preheated one by one, mounted read-only, gated, and loaded by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from inferplan.documents.errors import InvalidStack
from inferplan.pulumi_engine.program.record import record
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

from .models import vllm

PROJECT = Path(__file__).parents[3]
JOB, DEPLOYMENT = "kubernetes:batch/v1:Job", "kubernetes:apps/v1:Deployment"
ARTIFACTS = {
    "polite": {
        "store": "weights",
        "path": "adapters/polite",
        "revision": "v3",
        "round": 2,
        "size": "200Mi",
    },
    "words": {"store": "weights", "path": "tokenizers/llama", "include": ["*.json"]},
}
MODEL = {
    "engine": "vllm",
    "weights": {"store": "weights", "path": "llama", "revision": "v1", "size": "16Gi"},
    "preheat": {"into": "shared", "keep": 3},
    "artifacts": ARTIFACTS,
    "loraArtifacts": {"gentle": "polite"},
    "tokenizer": "words",
    "pool": "l40s",
}
CONFIG = {
    "cluster": {"provider": "simulated"},
    "nodePools": {
        "l40s": {
            "provider": "simulated",
            "accelerator": "nvidia-l40s",
            "instanceType": "g6e.12xlarge",
            "nodes": 2,
        },
        "system": {"provider": "simulated", "nodes": 1},
    },
    "storage": {
        "weights": {"kind": "s3", "bucket": "acme-weights"},
        "shared": {"kind": "nfs", "server": "nfs.internal", "path": "/models", "capacity": "100Gi"},
        "disks": {
            "kind": "nodeDisk",
            "pool": "l40s",
            "path": "/mnt/models/cache",
            "capacity": "100Gi",
        },
    },
}


def recorded(model=MODEL):
    sections = {
        **CONFIG,
        "models": {"chat": model},
        "apiKeySeed": "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4",
    }
    config = {
        f"inferplan:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in sections.items()
    }
    return record(
        PROJECT / "inferplan" / "infra",
        project="inferplan",
        stack="test",
        config=config,
        secret_keys={"inferplan:apiKeySeed"},
    )


@pytest.fixture(scope="module")
def recording():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        return recorded()


def requests(recording):
    found = {}
    for job in recording.of_type(JOB):
        container = job.inputs["spec"]["template"]["spec"]["containers"][0]
        text = next(each["value"] for each in container["env"] if each["name"] == "PREHEAT_REQUEST")
        found[job.inputs["metadata"]["labels"]["app.kubernetes.io/instance"]] = json.loads(text)
    return found


def test_each_artifact_is_a_preheat_of_its_own_with_its_round_and_globs_and_the_models_keep(
    recording,
):
    found = requests(recording)
    assert set(found) == {"chat", "chat-polite", "chat-words"}
    assert found["chat-polite"]["directory"].endswith("-r2")
    assert found["chat-polite"]["root"] == "source:acme-weights/adapters/polite"
    assert found["chat-words"]["include"] == ["*.json"]
    assert {each["keep"] for each in found.values()} == {3}
    assert len({each["directory"] for each in found.values()}) == 3


def pod(recording):
    return recording.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]


def test_servers_mount_each_artifact_read_only_and_nothing_beside_it(recording):
    mounts = {each["mountPath"]: each for each in pod(recording)["containers"][0]["volumeMounts"]}
    found = requests(recording)
    for name in ARTIFACTS:
        mount = mounts[f"/artifacts/{name}"]
        assert (mount["subPath"], mount["readOnly"]) == (found[f"chat-{name}"]["directory"], True)
    [volume] = [each for each in pod(recording)["volumes"] if "persistentVolumeClaim" in each]
    assert mounts["/artifacts/polite"]["name"] == mounts["/models/chat"]["name"] == volume["name"]


def test_servers_wait_for_every_job_and_look_for_every_ready_mark(recording):
    jobs = {each.urn for each in recording.of_type(JOB)}
    assert jobs <= set(recording.one(DEPLOYMENT).dependencies)
    checks = [" ".join(each["command"]) for each in pod(recording)["initContainers"]]
    folders = {
        each["mountPath"]: each["subPath"]
        for each in pod(recording)["containers"][0]["volumeMounts"]
        if "subPath" in each
    }
    for path in ("/models/chat", "/artifacts/polite", "/artifacts/words"):
        assert sum(f"{path}/{folders[path]}/READY" in check for check in checks) == 1
    # What they refuse with is then part of the pod's status, where `up` and `status` read it.
    assert {each["terminationMessagePolicy"] for each in pod(recording)["initContainers"]} == {
        "FallbackToLogsOnError"
    }


def test_vllm_loads_adapters_and_tokenizer_from_artifacts(recording):
    arguments = pod(recording)["containers"][0]["args"]
    assert "--tokenizer=/artifacts/words" in arguments
    assert arguments[arguments.index("--lora-modules") + 1] == "gentle=/artifacts/polite"
    assert "--enable-lora" in arguments


def test_workers_of_ray_get_the_same_files_behind_the_same_looks():
    ray = {
        "engine": "ray-serve",
        "rayVersion": "2.56.0",
        "applications": {"llm": {"kind": "llm", "modelId": "llama"}},
    }
    shared = {key: MODEL[key] for key in ("weights", "preheat", "artifacts", "pool")}
    found = recorded({**shared, **ray, "image": "docker.io/rayproject/ray-llm:2.56.0-py312-cu130"})
    service = found.one("kubernetes:ray.io/v1:RayService")
    [workers] = service.inputs["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    template = workers["template"]["spec"]
    mounts = {each["mountPath"] for each in template["containers"][0]["volumeMounts"]}
    assert {"/artifacts/polite", "/artifacts/words"} < mounts
    assert {"verified", "verified-polite", "verified-words"} == {
        each["name"] for each in template["initContainers"]
    }
    assert {each.urn for each in found.of_type(JOB)} <= set(service.dependencies)


def test_adapters_of_both_kinds_are_served_by_name():
    spec = vllm(
        loraAdapters={"terse": "lora/terse"},
        loraArtifacts={"gentle": "polite"},
        artifacts=ARTIFACTS,
        preheat={"into": "shared"},
    )
    assert spec.adapter_names == ("terse", "gentle")
    assert not spec.reads_buckets


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"preheat": None}, "Add preheat: {into: <store>}"),
        (
            {"loraArtifacts": {"gentle": "rude"}},
            "loraArtifacts.gentle names 'rude', and artifacts has polite, words",
        ),
        ({"tokenizer": "rude"}, "tokenizer names 'rude'"),
        ({"extraArgs": ["--tokenizer=/x"]}, "repeats the field tokenizer"),
        ({"loraAdapters": {"gentle": "lora/x"}}, "an adapter is called 'gentle'"),
        ({"servedModelName": "gentle"}, "an adapter is called 'gentle'"),
        ({"loraArtifacts": {}, "maxLoras": 2}, "maxLoras bound adapters"),
    ],
    ids=str,
)
def test_artifacts_that_do_not_fit_are_refused_with_what_to_write(fields, words):
    with pytest.raises(ValidationError) as refused:
        vllm(
            **{
                **{
                    key: MODEL[key]
                    for key in ("preheat", "artifacts", "loraArtifacts", "tokenizer")
                },
                **fields,
            }
        )
    assert words in str(refused.value)


def faults(tmp_path, artifacts, **models):
    chat = {**MODEL, "artifacts": artifacts, "loraArtifacts": {}, "tokenizer": None}
    config = {
        **CONFIG,
        "models": {
            "chat": {key: value for key, value in chat.items() if value is not None},
            **models,
        },
    }
    path = tmp_path / "Pulumi.test.yaml"
    secret = {"secure": "v1:bm9uY2U=:Y2lwaGVy"}
    path.write_text(
        json.dumps(
            {
                "config": {
                    **{f"inferplan:{key}": value for key, value in config.items()},
                    "inferplan:apiKeySeed": secret,
                }
            }
        )
    )
    try:
        validate(read_stack(path, shown_path="s.yaml"))
    except InvalidStack as found:
        return " ".join(found.lines)
    return ""


@pytest.mark.parametrize(
    ("artifact", "words"),
    [
        ({"store": "wieghts", "path": "x"}, "Did you mean 'weights'?"),
        ({"store": "disks", "path": "x"}, "files cannot be copied from it"),
        (
            {"store": "weights", "path": "x", "files": {"a": None}},
            "files is only for stores of kind http",
        ),
        ({"store": "weights", "path": "x", "size": "90Gi"}, "exceeds the free space of store"),
    ],
    ids=str,
)
def test_a_store_that_cannot_give_or_hold_an_artifact_is_refused_at_its_place(
    tmp_path, artifact, words
):
    assert words in faults(tmp_path, {"polite": artifact})


def test_an_artifact_whose_preheat_would_be_called_like_a_model_is_refused(tmp_path):
    plain = {key: MODEL[key] for key in ("engine", "weights", "preheat", "pool")}
    found = faults(tmp_path, {"polite": ARTIFACTS["polite"]}, **{"chat-polite": plain})
    assert "The name 'chat-polite' of the preheat is already used by model chat-polite." in found
    assert not faults(tmp_path, {"polite": ARTIFACTS["polite"]}, **{"chat-kind": plain})


RUNTIME = {**MODEL, "loraLoading": "runtime"}
ADDED = {
    **RUNTIME,
    "artifacts": {
        **ARTIFACTS,
        "sql": {"store": "weights", "path": "adapters/sql", "revision": "v1", "size": "200Mi"},
    },
    "loraArtifacts": {"gentle": "polite", "sql": "sql"},
}
FILES = "kubernetes:core/v1:ConfigMap"


def directories_of(recording):
    return json.loads(recording.one(FILES, "chat-live").inputs["data"]["adapters.json"])


def test_a_new_adapter_changes_no_server_only_the_file_that_names_it():
    before, after = recorded(RUNTIME), recorded(ADDED)
    assert before.one(DEPLOYMENT, "chat").inputs == after.one(DEPLOYMENT, "chat").inputs
    assert [*directories_of(before)] == ["gentle"]
    assert [*directories_of(after)] == ["gentle", "sql"]
    [job] = [
        each
        for each in after.of_type(JOB)
        if each.name not in {one.name for one in before.of_type(JOB)}
    ]
    assert job.name.startswith("chat-sql-preheat")
    # Servers learn of the directory once it is complete.
    assert job.urn in after.one(FILES, "chat-live").dependencies


def test_a_new_revision_is_another_directory_and_restarts_no_server():
    polite = {**ARTIFACTS["polite"], "revision": "v4"}
    changed = {**RUNTIME, "artifacts": {**ARTIFACTS, "polite": polite}}
    before, after = recorded(RUNTIME), recorded(changed)
    assert before.one(DEPLOYMENT, "chat").inputs == after.one(DEPLOYMENT, "chat").inputs
    assert directories_of(before) != directories_of(after)


def test_a_server_sees_the_share_read_only_and_has_no_switch_for_loading():
    found = recorded(RUNTIME)
    pod = found.one(DEPLOYMENT, "chat").inputs["spec"]["template"]["spec"]
    [server] = pod["containers"]
    mounts = {each["mountPath"]: each for each in server["volumeMounts"]}
    assert mounts["/share"] == {"name": "model", "mountPath": "/share", "readOnly": True}
    assert "/artifacts/words" in mounts
    assert "/artifacts/polite" not in mounts
    [volume] = [each for each in pod["volumes"] if each["name"] == "model"]
    assert volume["persistentVolumeClaim"]["readOnly"] is True
    variables = {each["name"]: each.get("value") for each in server["env"]}
    assert variables["ADAPTERS"] == "/live/adapters.json"
    assert not [name for name in variables if name.startswith("VLLM_ALLOW")]
    assert "--enable-lora" in server["args"]
    assert "--lora-modules" not in server["args"]
    [path] = directories_of(found).values()
    assert path.startswith("/share/polite/")
    assert {each["name"] for each in pod["initContainers"]} == {"verified", "verified-words"}


def test_servers_without_an_adapter_yet_accept_the_first_one():
    empty = {**RUNTIME, "artifacts": {"words": ARTIFACTS["words"]}, "loraArtifacts": {}}
    before, after = recorded(empty), recorded(RUNTIME)
    assert before.one(DEPLOYMENT, "chat").inputs == after.one(DEPLOYMENT, "chat").inputs


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"preheat": None, "artifacts": {}, "loraArtifacts": {}, "tokenizer": None},
            "needs preheat",
        ),
        ({"extraArgs": ["--api-server-count=2"]}, "needs one API server for each replica"),
        ({"extraArgs": ["--api_server_count=2"]}, "needs one API server for each replica"),
        ({"image": "docker.io/vllm/vllm-openai:v0.23.1"}, "needs vLLM 0.24 or newer"),
        ({"image": "registry.acme.example/vllm:v0.9.2-acme"}, "needs vLLM 0.24 or newer"),
    ],
)
def test_runtime_loading_says_what_it_needs(fields, words):
    with pytest.raises(ValidationError) as caught:
        vllm(**{**RUNTIME, **fields})
    assert words in str(caught.value)


@pytest.mark.parametrize("tag", ["v0.24.0", "v0.33.0-cu130", "team-build-7"])
def test_runtime_loading_accepts_releases_that_can_and_names_that_state_none(tag):
    image = f"registry.acme.example/vllm:{tag}"
    assert vllm(**{**RUNTIME, "image": image}).image == image
