"""The accelerator and machine tables, held against what others publish."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from inferplan.components.nodes import table
from inferplan.components.spec import PinnedImage
from inferplan.hardware.accelerators import accelerators, lookup
from inferplan.hardware.machines import allocatable, machine, machines, machines_of, nominal

ROOT = Path(__file__).parents[3]
# website/content/en/preview/reference/instance-types.md of aws/karpenter-provider-aws, commit
# 1d927085, 2026-08-21.
with Path(__file__).with_name("karpenter-2026-08.csv").open(encoding="utf-8", newline="") as _file:
    KARPENTER = {row["name"]: row for row in csv.DictReader(_file)}
MI = 2**20
# Where EC2 tells more memory than nvidia-smi, and so an engine, ever sees.
LESS_THAN_EC2_TELLS = {"nvidia-t4": 15360}


@pytest.mark.parametrize(
    "row", [*accelerators().values(), *machines().values()], ids=lambda row: row.name
)
def test_every_row_says_where_it_comes_from_and_when_that_was_read(row):
    assert len(row.source) > 10
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.read)


@pytest.mark.parametrize("file", ["accelerators.toml", "machines.csv"])
def test_no_name_stands_twice_in_a_table(file):
    text = (ROOT / "inferplan/hardware" / file).read_text(encoding="utf-8")
    names = re.findall(
        r"^\[accelerators\.([^.\]]+)\]" if file.endswith("toml") else r"^([^,\n]+),",
        text,
        re.MULTILINE,
    )
    assert len(names) == len(set(names)) >= 15


@pytest.mark.parametrize("row", accelerators().values(), ids=lambda row: row.name)
def test_a_card_names_a_machine_that_carries_it(row):
    usual = machine(row.machine)
    assert usual.accelerator == row.name
    assert usual.accelerator_count >= 1


@pytest.mark.parametrize(
    "row", [row for row in machines().values() if row.accelerator], ids=lambda row: row.name
)
def test_a_machine_carries_a_known_card_and_enough_huge_pages_for_all_of_them(row):
    card = lookup(row.accelerator)
    assert row.accelerator_count >= 1
    assert row.hugepages_2mi_bytes % (2 * MI) == 0
    assert card.hugepages_2mi_bytes % (2 * MI) == 0
    assert card.hugepages_2mi_bytes * row.accelerator_count <= row.hugepages_2mi_bytes


@pytest.mark.parametrize("row", accelerators().values(), ids=lambda row: row.name)
def test_default_images_carry_fixed_tags(row):
    for support in row.engines.values():
        if support.image is not None:
            TypeAdapter(PinnedImage).validate_python(support.image)
        assert support.image is None or support.refusal is None


@pytest.mark.parametrize("name", KARPENTER)
def test_an_ec2_machine_offers_what_karpenter_expects_of_it(name):
    row, published = machine(name), KARPENTER[name]
    offered = allocatable(row)
    assert f"{offered.cpu_millicores}m" == published["cpu"]
    assert (
        f"{offered.memory_bytes / MI:g}Mi" == f"{int(published['memory'].removesuffix('Mi')):g}Mi"
    )
    assert row.max_pods == int(published["pods"])
    assert row.accelerator_count == int(published["gpus"])
    if row.accelerator:
        assert (
            lookup(row.accelerator).memory_bytes
            == LESS_THAN_EC2_TELLS.get(row.accelerator, int(published["gpuMiB"])) * MI
        )


def test_every_ec2_machine_but_dl1_is_held_against_karpenter():
    assert {row.name for row in machines().values() if row.provider == "ec2"} - set(KARPENTER) == {
        "dl1.24xlarge"
    }


@pytest.mark.parametrize("row", machines().values(), ids=lambda row: row.name)
def test_pods_get_less_than_the_machine_has_and_huge_pages_come_out_of_memory(row):
    offered, whole = allocatable(row), nominal(row)
    assert 0 < offered.cpu_millicores < whole.cpu_millicores
    assert (
        0
        < offered.memory_bytes + offered.hugepages_2mi_bytes
        < whole.memory_bytes
        < row.memory_bytes
    )
    assert 0 < offered.ephemeral_storage_bytes < whole.ephemeral_storage_bytes
    assert offered.accelerators == whole.accelerators == row.accelerator_count


def test_gaudi_memory_is_that_of_the_vendor():
    assert [lookup(f"gaudi-{generation}").memory_bytes // 2**30 for generation in (1, 2, 3)] == [
        32,
        96,
        128,
    ]


def test_vllm_is_refused_on_first_generation_gaudi_with_the_reason_and_has_an_image_everywhere_else():
    refusal = lookup("gaudi-1").engine("vllm").refusal
    assert refusal is not None
    assert "1.21" in refusal
    assert {name for name, row in accelerators().items() if row.engine("vllm").image is None} == {
        "gaudi-1"
    }


def test_an_engine_that_the_table_does_not_list_is_taken_to_run_without_a_default_image():
    assert lookup("gaudi-2").engine("ray-serve").refusal is None
    assert lookup("gaudi-2").engine("ray-serve").image is None


def test_bfloat16_and_fp8_follow_the_cuda_compute_capability():
    for row in accelerators().values():
        if row.compute is not None:
            capability = tuple(int(part) for part in row.compute.split("."))
            assert row.bfloat16 == (capability >= (8, 0)), row.name
            assert ("fp8" in row.precisions) == (capability >= (8, 9)), row.name
            assert ("fp4" in row.precisions) == (capability >= (10, 0)), row.name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("h100", "nvidia-h100"),
        ("Gaudi2", "gaudi-2"),
        ("NVIDIA_L40S", "nvidia-l40s"),
        ("nvidia-l40", "nvidia-l40s"),
        ("gaudi-4", "gaudi-"),
    ],
)
def test_an_unknown_accelerator_is_answered_with_the_nearest_name_and_all_allowed_ones(
    written, meant
):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}") as refused:
        lookup(written)
    assert repr(written) in str(refused.value)
    assert all(name in str(refused.value) for name in accelerators())


@pytest.mark.parametrize("written", ["", "tpu", "\N{SNOWMAN}", "x" * 10_000])
def test_a_name_like_no_other_gets_no_guess_and_a_short_answer(written):
    with pytest.raises(ValueError, match="Allowed: nvidia-t4") as refused:
        lookup(written)
    assert "Did you mean" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_machine_is_found_by_name_and_by_card():
    assert machine("g6e.12xlarge").accelerator_count == 4
    assert {row.name for row in machines_of("nvidia-h100")} == {"p5.4xlarge", "p5.48xlarge"}
    assert all(row.accelerator_count == 0 for row in machines_of(None))
    with pytest.raises(ValueError, match=r"Did you mean 'g6e\.4xlarge'"):
        machine("g6e-4xlarge")


def test_reading_the_table_loads_neither_pydantic_nor_pulumi():
    code = (
        "import sys; from inferplan.hardware.accelerators import lookup; lookup('gaudi-2');"
        " print({'pydantic', 'pulumi'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert answer.stdout == "set()\n"


def test_the_page_has_a_row_for_every_accelerator_and_machine():
    rows = [
        line.split(" | ")[0] for line in table.markdown().splitlines() if line.startswith("| `")
    ]
    for name in (*accelerators(), *machines()):
        assert any(f"`{name}`" in row for row in rows), name
