"""What a rehearsal admits about images: which are described by the catalogue, and of which nothing
is known.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.infra.image_evidence import image_evidence
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.plans import ROOT, containers_of, recorded

ALL = "images: every container rests on the image catalogue; none was pulled or started"


def said_of(plan: Path) -> str:
    return image_evidence(validate(read_stack(plan)))


def test_a_stack_that_names_no_image_rests_on_the_catalogue_alone():
    assert said_of(ROOT / "stacks" / "Pulumi.local.yaml") == ALL


@pytest.mark.parametrize(
    ("engine", "parts"),
    [
        (
            "pytriton",
            [
                "nothing is known about models.gaudi-writer.image (docker.io/acme/gaudi-pytriton:0.7.0-1), models.writer.image (docker.io"
            ],
        ),
        ("ray-serve", ["nothing is known about models.tuned.image (docker.io/acme/rag:1.4.0);"]),
        ("tensorrt-llm", [ALL]),
    ],
)
def test_image_evidence_lists_the_paths_of_images_without_a_row(engine, parts):
    said = said_of(ROOT / "docs" / "engines" / f"Pulumi.{engine}.yaml")
    assert [part for part in parts if part not in said] == []


def test_another_release_of_a_known_image_is_judged_as_the_one_that_is_known(tmp_path):
    text = (ROOT / "docs" / "engines" / "Pulumi.tensorrt-llm.yaml").read_text()
    plan = tmp_path / "Pulumi.other.yaml"
    plan.write_text(text.replace("tritonserver:26.06-trtllm", "tritonserver:25.06-trtllm"))
    assert (
        "models.qwen-3-14b.image (nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3, judged as nvcr.io/"
        in said_of(plan)
    )


def test_the_program_says_it_and_every_image_that_it_calls_unknown_is_declared(monkeypatch):
    monkeypatch.chdir(ROOT)
    plan = ROOT / "docs" / "engines" / "Pulumi.ray-serve.yaml"
    recording = recorded(plan)
    [line] = [each.message for each in recording.diagnostics if each.message.startswith("images: ")]
    assert line == said_of(plan)
    assert "docker.io/acme/rag:1.4.0" in {
        each.container["image"] for each in containers_of(recording)
    }
