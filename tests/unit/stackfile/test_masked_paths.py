"""No volume of a pod hides a file of the image that the stack file names; secrets in plain text and
open revisions are warned about.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from tests.unit.serving.models import GAUDI2, container_of, declared, pool, vllm
from tests.unit.serving.test_ray_serve import ray as ray_spec
from tests.unit.stackfile.test_checks import CONFIG, only
from tests.unit.stackfile.test_egress_checks import model, ray

TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108 - paths in containers, nothing is created there
SPEECH: dict[str, Any] = {
    "engine": "pytriton",
    "pool": "l40s",
    "image": "registry.acme.example/s:1",
    "consumers": ["chat"],
}


@pytest.mark.parametrize(
    ("models", "where", "words"),
    [
        (
            ray({"args": {"model": f"{TMP}/mistral-7b"}}),
            "applications.find.args.model",
            f"'/tmp/mistral-7b' is below {TMP}",
        ),
        (
            ray({"env": {"LEXICON": "/cache/de.dic"}}),
            "applications.find.env.LEXICON",
            "Add scratch: /scratch to models.find",
        ),
        (model(env={"PYTHONPATH": f"/opt/a:{TMP}/lib"}), "env.PYTHONPATH", f"is below {TMP}"),
        (
            model(extraArgs=[f"--chat-template={TMP}/t.jinja"]),
            "extraArgs[0]",
            f"'/tmp/t.jinja' is below {TMP}",
        ),
        (model(env={"WORDS": "~/words"}), "env.WORDS", "'~/words' is below HOME"),
        (
            model(env={"WORDS": "/scratch/tmp/a"}, scratch="/scratch"),
            "env.WORDS",
            "is below /scratch/tmp",
        ),
        (
            {"find": {**SPEECH, "scriptFile": f"{TMP}/serve.py"}},
            "scriptFile",
            f"'/tmp/serve.py' is below {TMP}",
        ),
        (
            {
                "find": {
                    **SPEECH,
                    "pool": "gaudi2",
                    "scriptFile": "/a.py",
                    "env": {"X": "/var/log/habana_logs/x"},
                }
            },
            "env.X",
            "below /var/log/habana_logs",
        ),
    ],
)
def test_a_file_of_the_image_below_a_volume_is_an_error(lines, models, where, words):
    line = only(lines(models=models))
    assert f"models.find.{where}: " in line
    assert words in line


@pytest.mark.parametrize(
    "models",
    [
        ray({"args": {"model": f"{TMP}/mistral-7b"}}, scratch="/scratch"),
        model(
            env={
                "TRITON_CACHE_DIR": f"{TMP}/triton",
                "TMPDIR": f"{TMP}/x",
                "HF_HOME": "/cache/hf",
                "NCCL_DEBUG_FILE": "/opt/x",
            }
        ),
        model(
            env={"LIB": f"{TMP}files/a", "NAME": "a/tmp/b", "URL_PATH": "/v1/models"},
        ),
    ],
)
def test_directories_that_programs_write_and_moved_volumes_are_accepted(lines, models):
    assert lines(models=models) == ()


def test_scratch_moves_the_volumes_and_what_points_at_them():
    container = container_of(vllm(scratch="/space"), target=pool("nvidia-l40s"))
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert (mounts["tmp"], mounts["cache"], mounts["shm"]) == ("/space/tmp", "/space/cache", SHM)
    values = {each["name"]: each.get("value", "") for each in container["env"]}
    assert (values["TMPDIR"], values["HOME"], values["VLLM_CACHE_ROOT"]) == (
        "/space/tmp",
        "/space/cache",
        "/space/cache/vllm",
    )
    assert container["workingDir"] == "/space/cache"
    assert not [name for name, value in values.items() if value.startswith(("/cache", f"{TMP}"))]


def test_scratch_moves_the_volumes_of_ray_and_gaudi_too():
    cluster = (
        declared(ray_spec(scratch="/space"))
        .one("kubernetes:ray.io/v1:RayService")
        .inputs["spec"]["rayClusterConfig"]
    )
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        [container] = group["template"]["spec"]["containers"]
        assert {"name": "tmp", "mountPath": "/space/tmp"} in container["volumeMounts"]
        assert {"name": "RAY_TMPDIR", "value": "/space/tmp"} in container["env"]
    values = {
        each["name"]: each.get("value")
        for each in container_of(vllm(scratch="/space"), target=GAUDI2)["env"]
    }
    assert values["PT_HPU_RECIPE_CACHE_CONFIG"].startswith("/space/cache/recipes,")


def warnings(tmp_path, **fields):
    path = tmp_path / "Pulumi.warned.yaml"
    path.write_text(
        json.dumps(
            {
                "config": {
                    f"inferplan:{key}": value
                    for key, value in {**CONFIG, "models": model(**fields)}.items()
                }
            },
            indent=1,
        )
    )
    file = read_stack(path, shown_path="w.yaml")
    return list(advised(validate(file), file))


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"env": {"ADMIN_PASSWORD": "geheim-und-lang"}}, "env.ADMIN_PASSWORD"),
        ({"env": {"X": "hf_abcdefghijklmnopqrstuvwx"}}, "env.X"),
        ({"extraArgs": ["--response-role", "hf_abcdefghijklmnopqrstuvwx"]}, "extraArgs[1]"),
    ],
)
def test_a_secret_in_plain_text_is_warned_about_and_not_shown(tmp_path, fields, where):
    [line] = [each for each in warnings(tmp_path, **fields) if "plain text" in each]
    assert line.startswith("w.yaml:")
    assert f"models.find.{where}: The value looks like a secret" in line
    assert "geheim" not in line
    assert "hf_abc" not in line


def test_weights_without_a_revision_are_warned_about(tmp_path):
    [line] = warnings(tmp_path, weights={"store": "weights", "path": "llama", "size": "16Gi"})
    assert "models.find.weights.revision: Without a revision" in line


def test_an_unknown_token_without_egress_is_warned_about(tmp_path):
    reference = {"secretName": "qdrant", "key": "k"}
    [line] = warnings(tmp_path, env={"QDRANT_API_KEY": reference})
    assert (
        "models.find.env.QDRANT_API_KEY: If QDRANT_API_KEY is for another server, add egress"
        in line
    )
    assert (
        warnings(
            tmp_path,
            env={"QDRANT_API_KEY": reference},
            egress={"to": [{"host": "q.db.svc", "ports": [6333]}]},
        )
        == []
    )
    assert warnings(tmp_path, env={"DEBUG_TOKEN": "false", "TOKENIZERS_PARALLELISM": "true"}) == []
