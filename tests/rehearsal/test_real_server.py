"""A real server behind the local gateway: the CPU build of an engine, with the arguments of the
plan.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from inferplan.client.local_gateway.real_server import RealServer, arguments_of
from inferplan.rehearsal.cluster import processes
from inferplan.rehearsal.cluster.components import SERVER
from inferplan.workspace.workspace import open_workspace
from tests.dataplane.serving.environment import Unavailable
from tests.dataplane.serving.vllm_stand import prepared, weights
from tests.rehearsal.commands import ROOT, STACK, inferplan, started

TRITON = str(ROOT / "docs" / "engines" / "Pulumi.triton.yaml")


@pytest.fixture
def files(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    for name in ("config.json", "model.safetensors"):
        (directory / name).write_text("{}")
    return directory


@pytest.mark.parametrize(
    ("stack", "option", "message"),
    [
        ("local", "llama=DIR", "--real: Unknown model 'llama'."),
        (
            "local",
            "llama-3-8b=DIR/none",
            (
                "/none has no config.json and no *.safetensors. Name a directory with the files of"
                " a model"
            ),
        ),
        (
            "local",
            "llama-3-8b=DIR",
            "/nowhere/vllm is not a program on this computer. Install the CPU build of vllm",
        ),
        (
            TRITON,
            "writer=DIR",
            "--real: triton has no build for CPUs, so no real server of writer runs here.",
        ),
    ],
)
def test_what_cannot_run_is_said_before_anything_starts(
    tmp_path, files, monkeypatch, stack, option, message
):
    monkeypatch.setenv("INFERPLAN_CPU_SERVER", "/nowhere/vllm")
    done = inferplan(
        tmp_path, "up", stack, "--engine", "rehearsal", "--real", option.replace("DIR", str(files))
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "clusters").exists()


def test_the_arguments_are_those_of_the_plan_without_what_the_build_lacks(tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    path = tmp_path / "Pulumi.local.yaml"
    path.write_text(
        STACK.replace("tensorParallelSize: 4", "tensorParallelSize: 4\n      maxModelLen: 4096")
    )
    workspace = open_workspace(str(path))
    build = workspace.settings.models["llama-3-70b"].cpu_build
    assert build is not None
    server = RealServer(model="llama-3-70b", directory=tmp_path, program="x", build=build)
    kept, dropped = arguments_of(server, workspace.record())
    assert dropped == ["--tensor-parallel-size", "--pipeline-parallel-size", "--block-size"]
    assert {"--served-model-name=llama-3-70b", "--max-model-len=4096", "--dtype=bfloat16"} <= set(
        kept
    )
    assert not [each for each in kept if each.startswith("--port")]


@pytest.mark.full
@pytest.mark.cluster
@pytest.mark.timeout(2400)
def test_the_cpu_build_answers_a_call_and_ends_with_down(tmp_path, monkeypatch):
    from tests.dataplane.serving.environment import environment

    try:
        built = prepared(environment("full/vllm"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    directory = weights(built, tmp_path / "tiny")
    monkeypatch.setenv("INFERPLAN_CPU_SERVER", str(built.root / "bin" / "vllm"))
    stack = tmp_path / "Pulumi.local.yaml"
    stack.write_text(
        STACK.replace(
            "      replicas: 2\n",
            "      replicas: 2\n      maxModelLen: 256\n      extraArgs: [--enforce-eager]\n",
        )
    )
    state = tmp_path / "state"
    try:
        done = inferplan(
            state, "up", str(stack), "--engine", "rehearsal", "--real", f"llama-3-8b={directory}"
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "answers for llama-3-8b with the arguments of the plan" in done.stderr
        cluster = state / "clusters" / "local"
        [pid, *_] = processes.running(cluster)[SERVER]
        assert b"ips_" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        done = started(
            state, "call", "llama-3-8b", "hello", "--stack", str(stack), "--max-tokens", "8"
        )
        # The tiny model has random weights, so it speaks until the limit.
        assert re.search(r"ended its answer at the limit of tokens|^$", done.stderr), done.stderr
        assert "This is the stub" not in done.stdout
        assert done.stdout.strip()
        again = inferplan(state, "up", str(stack), "--engine", "rehearsal")
        assert again.returncode == 0
        assert SERVER not in processes.running(cluster)
        assert started(
            state, "call", "llama-3-8b", "hello", "--stack", str(stack)
        ).stdout.startswith("This is the stub of llama-3-8b")
    finally:
        inferplan(state, "down", str(stack), "--engine", "rehearsal", "--cluster")
    assert not [
        pid
        for pid, words in processes._command_lines()
        if any(str(tmp_path) in word for word in words) and pid != os.getpid()
    ]
