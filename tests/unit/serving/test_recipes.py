"""Compiled graphs of Gaudi outlive a pod: what is declared for it, and the program that copies
them, on real directories.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from inferplan.components.serving.vllm.payload import recipes
from tests.patience import PATIENCE_SECONDS
from tests.unit.serving.models import MOUNT, container_of, deployment_of, pool, vllm

GAUDI2, GAUDI3, H100 = pool("gaudi-2"), pool("gaudi-3"), pool("nvidia-h100")
PREHEAT = {"into": "shared"}
KEPT = replace(MOUNT, marked=True, folder="recipes/chat/0123456789")


def folder(target=GAUDI2, **fields):
    return vllm(preheat=PREHEAT, **fields).folder_on(target)


def sidecar(pod):
    [found] = [each for each in pod["initContainers"] if each.get("restartPolicy") == "Always"]
    return found


def test_only_a_sidecar_may_write_to_the_store_and_only_to_the_folder_of_compiled_graphs():
    pod = deployment_of(vllm(preheat=PREHEAT), target=GAUDI2, weights=KEPT)["template"]["spec"]
    claims = [each for each in pod["volumes"] if "persistentVolumeClaim" in each]
    assert len(claims) == 1, "a kubelet waits forever for a second volume of the same claim"
    written = [
        (container["name"], mount.get("subPath"))
        for container in (*pod["containers"], *pod["initContainers"])
        for mount in container["volumeMounts"]
        if mount["name"] == claims[0]["name"] and not mount.get("readOnly")
    ]
    assert written == [("recipes", "recipes/chat/0123456789")]


def test_the_sidecar_copies_the_directory_that_the_server_compiles_into_and_is_done_before_it_starts():
    pod = deployment_of(vllm(preheat=PREHEAT), target=GAUDI2, weights=KEPT)["template"]["spec"]
    [server] = pod["containers"]
    [path] = [
        each["value"].split(",")[0]
        for each in server["env"]
        if each["name"] == "PT_HPU_RECIPE_CACHE_CONFIG"
    ]
    kept, local, _ = sidecar(pod)["args"]
    mounts = {each["mountPath"]: each["name"] for each in sidecar(pod)["volumeMounts"]}
    assert local == path
    assert mounts[kept] == "model"
    assert mounts["/cache"] == next(
        each["name"] for each in server["volumeMounts"] if each["mountPath"] == "/cache"
    )
    assert (
        sidecar(pod)["startupProbe"]["exec"]["command"][-1]
        == f"{Path(local).parent}/{recipes.RESTORED}"
    )


def test_another_user_of_the_preheat_writes_the_folder_and_owns_the_pod_s_volumes():
    pod = deployment_of(vllm(preheat={**PREHEAT, "runAsUser": 1234}), target=GAUDI2, weights=KEPT)[
        "template"
    ]["spec"]
    assert (sidecar(pod)["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (
        1234,
        1234,
    )
    assert pod["securityContext"]["runAsUser"] == 65532


@pytest.mark.parametrize(
    "weights", [MOUNT, replace(MOUNT, marked=True)], ids=["direct", "preheated"]
)
def test_without_a_folder_nothing_is_added_and_the_claim_stays_read_only(weights):
    pod = deployment_of(vllm(), target=GAUDI2, weights=weights)["template"]["spec"]
    assert [each for each in pod.get("initContainers") or [] if each.get("restartPolicy")] == []
    assert [
        each["persistentVolumeClaim"]["readOnly"]
        for each in pod["volumes"]
        if "persistentVolumeClaim" in each
    ] == [True]


def test_the_folder_changes_with_what_gaudi_compiles_again_for_and_with_nothing_else():
    plain = folder()
    others = {
        folder(GAUDI3),
        folder(tensorParallelSize=4),
        folder(dtype="bfloat16"),
        folder(quantization="inc"),
        folder(image="registry.example/vllm-gaudi:0.26.0"),
        folder(weights={"store": "shared", "path": "chat", "revision": "v2"}),
    }
    assert len({plain, *others}) == 7
    assert plain == folder(replicas=3, drainSeconds=10, env={"PLAIN": "1"})


@pytest.mark.parametrize(
    "fields",
    [
        {"gaudi": {"skipWarmup": True}},
        {"env": {"PT_HPU_RECIPE_CACHE_CONFIG": "/elsewhere,False,1"}},
    ],
    ids=["no-warm-up", "own"],
)
def test_no_folder_is_made_where_nothing_would_be_kept(fields):
    assert folder(**fields) is None
    assert folder(H100) is None
    assert vllm().folder_on(GAUDI2) is None


def test_a_second_pod_finds_what_the_first_one_compiled(tmp_path):
    kept, first, second = tmp_path / "kept", tmp_path / "first/recipes", tmp_path / "second/recipes"
    kept.mkdir()
    assert recipes.restore(kept, first) == 0
    (first / "0.recipe").write_bytes(b"graph")
    (first / "sub").mkdir()
    (first / "sub/1.recipe").write_bytes(b"other")
    assert recipes.save(kept, first, 1 << 20, time.time() + 60) == 2
    assert recipes.restore(kept, second) == 2
    assert (second / "sub/1.recipe").read_bytes() == b"other"
    assert recipes.save(kept, second, 1 << 20, time.time() + 60) == 0


def test_a_file_that_is_being_written_is_not_kept_and_no_partial_file_has_a_name(tmp_path):
    kept, local = tmp_path / "kept", tmp_path / "local"
    kept.mkdir()
    local.mkdir()
    (local / "0.recipe").write_bytes(b"gra")
    assert recipes.save(kept, local, 1 << 20, time.time()) == 0
    (kept / ".1.recipe.other-pod").write_bytes(b"half")
    assert recipes.restore(kept, tmp_path / "next") == 0


def test_the_folder_never_grows_beyond_its_limit(tmp_path):
    kept, local = tmp_path / "kept", tmp_path / "local"
    kept.mkdir()
    local.mkdir()
    for name in range(4):
        (local / f"{name}.recipe").write_bytes(b"x" * 100)
    assert recipes.save(kept, local, 250, time.time() + 60) == 2
    assert recipes.save(kept, local, 250, time.time() + 60) == 0


def test_the_program_keeps_graphs_when_its_pod_ends_and_survives_a_store_that_cannot_be_written(
    tmp_path,
):
    kept, local = tmp_path / "kept", tmp_path / "cache/recipes"
    kept.mkdir()
    for place, count in ((kept, 1), (Path("/dev/null"), 0)):
        process = subprocess.Popen(
            [sys.executable, recipes.__file__, str(place), str(local), "8"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        assert "restored 0" in process.stdout.readline()
        while not local.with_name(recipes.RESTORED).exists():
            os.sched_yield()
        (local / "0.recipe").write_bytes(b"graph")
        os.utime(local / "0.recipe", (0, 0))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, process.stdout.read()
        assert len(list(kept.glob("*.recipe"))) == count
        for each in (*kept.glob("*"), *local.glob("*"), local.with_name(recipes.RESTORED)):
            each.unlink()


def test_the_server_of_another_accelerator_has_no_such_variable():
    assert "PT_HPU_RECIPE_CACHE_CONFIG" not in {
        each["name"] for each in container_of(vllm(), target=H100)["env"]
    }
