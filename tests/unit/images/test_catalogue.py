"""The image catalogue: its rows, and what it says about images and commands."""

from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter

from inferplan.components.spec import PinnedImage
from inferplan.images.catalogue import catalogue, facts_of, family_of
from inferplan.images.starts import missing_programs, programs_called, unwritable_paths
from tests.plans import ROOT

ROWS = list(catalogue().values())
SCRATCH = "/tmp"  # noqa: S108 - a path inside of containers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_a_pinned_image_with_its_source_date_and_access_terms(row):
    TypeAdapter(PinnedImage).validate_python(row.reference)
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.read)
    assert re.search(r"v?\d+\.\d+|Dockerfile|yaml", row.source)
    assert "anonymous" in row.access or "key" in row.access or "role" in row.access
    assert row.workdir.startswith("/")
    assert row.keeps_entrypoint or row.programs
    assert all(each.path.startswith("/") for each in row.writes)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", row.digest or "sha256:" + "0" * 64)
    assert family_of(row.image) is row
    assert [other.name for other in ROWS if other.image == row.image] == [row.name]


def test_components_name_no_image_themselves():
    reference = re.compile(
        r"""["'](?:docker\.io|nvcr\.io|vault\.habana\.ai|registry\.k8s\.io|ghcr\.io|quay\.io|[\w.-]+\.amazonaws\.com)/[^"'\s]+:[^"'\s]+["']"""
    )
    files = [
        *(ROOT / "inferplan" / "components").rglob("*.py"),
        *(ROOT / "inferplan" / "components").rglob("*.toml"),
        *(ROOT / "inferplan" / "infra").rglob("*.py"),
    ]
    assert [
        f"{path.name}: {found}" for path in files for found in reference.findall(path.read_text())
    ] == []


@pytest.mark.parametrize(
    ("image", "row"),
    [
        ("nvcr.io/nvidia/tritonserver:25.06-vllm-python-py3", "triton-vllm"),
        (f"vllm/vllm-openai:v0.30.0@sha256:{'0' * 64}", "vllm"),
        (
            "vault.habana.ai/gaudi-docker/1.24.0/ubuntu22.04/habanalabs/vllm-0.21.0-ptupstream-2.10.0:latest",
            "vllm-gaudi",
        ),
        ("registry.example/own/vllm-openai:1.0", None),
        ("docker.io/vllm/vllm-openai-nightly:abc", None),
    ],
)
def test_another_release_of_a_known_image_is_of_the_same_family_and_an_unknown_image_of_none(
    image, row
):
    family = family_of(image)
    assert (family and family.name) == row
    assert facts_of(image) is None


def test_programs_are_found_in_commands_launchers_and_scripts():
    assert programs_called(
        ["python3", "/launch/ranks.py", "mpirun", "-n", "1", "tritonserver", "--x"]
    ) == {
        "python3",
        "mpirun",
        "tritonserver",
    }
    assert programs_called(["/usr/bin/sh", "-c", "test -s /x || python3 -m y"]) == {"sh", "python3"}
    assert missing_programs(catalogue()["triton"], ["mpirun", "-n", "2", "tritonserver"]) == [
        "mpirun"
    ]


def test_a_path_that_a_variable_moves_is_judged_where_it_is_moved_to():
    gaudi = catalogue()["vllm-gaudi"]
    assert [
        each.path for each in unwritable_paths(gaudi, {"HOME": "/cache"}, [SCRATCH, "/cache"])
    ] == ["/var/log/habana_logs"]
    told = {"HOME": "/cache", "HABANA_LOGS": "/scratch/logs", "VLLM_CACHE_ROOT": "/cache/vllm"}
    assert unwritable_paths(gaudi, told, [SCRATCH, "/scratch", "/cache"]) == []
    assert [each.path for each in unwritable_paths(gaudi, told, ["/cache", "/scratch/other"])] == [
        SCRATCH,
        "/var/log/habana_logs",
    ]
