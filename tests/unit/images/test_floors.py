"""Images below a floor are named, and none of ours is, but for exceptions that have not ended."""

from __future__ import annotations

import re
from datetime import date

import pytest

from inferplan.images.catalogue import catalogue
from inferplan.images.floors import below_floor
from inferplan.tables import table
from tests.unit.images.test_dockerfiles import RECIPES, base_of

TODAY = date(2026, 11, 28)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("docker.io/rclone/rclone:1.71.0", "GHSA-8mxv-9xhp-86h4"),
        ("rclone/rclone:1.74.4@sha256:0a", "Use 1.75.0 or newer"),
        ("python:3.13.7-slim", "CVE-2025-13836"),
        ("nvcr.io/nvidia/tritonserver:23.12-py3", "26.06"),
        ("registry.example.com/ai/gaudi-triton:1.22.0-740", "accepted until 2027-05-31"),
        ("registry.example.com:5000/triton-gaudi:1", "23.12"),
        ("registry.example.com/mirror/docker.io/library/python:3.13.7", "(read 2026-11)"),
        ("acme/rclone:1.0", "Use 1.75.0 or newer"),
        ("quay.io/acme/triton-inference-server:25.01", "CVE-2026-24207"),
        ("acme/vllm-openai:v0.21.0", "CVE-2026-47155"),
    ],
)
def test_an_image_below_a_floor_is_named_with_its_advisory(image, words):
    [problem] = below_floor(image, TODAY)
    assert words in problem
    assert image in problem


@pytest.mark.parametrize(
    "image",
    [
        *("rclone/rclone:1.75.0", "rclone/rclone:v1.76.0", "python:3.13.11-slim", "python:3.12.1"),
        *(
            "nvcr.io/nvidia/tritonserver:26.06-py3",
            "acme/rclone-exporter:1.0",
            "python:3.13-slim",
        ),
    ],
)
def test_other_images_have_no_known_fault(image):
    assert not list(below_floor(image, TODAY))


def test_no_image_of_ours_is_below_a_floor():
    bases = [base_of(each) for each in RECIPES]
    ours = [*(each.reference for each in catalogue().values()), *bases]
    excepted = {"nvcr.io/nvidia/tritonserver:23.12-py3"}
    assert {each for each in ours if list(below_floor(each, TODAY))} <= excepted


def test_an_exception_has_a_reason_and_an_end():
    for floor in table("images/floors.toml").values():
        assert floor["advisories"]
        assert re.fullmatch(r"20[0-9]{2}-[0-9]{2}", floor["read"])
        if exception := floor.get("exception"):
            assert exception["reason"]
            assert exception["until"] > TODAY
        if rule := floor.get("rule"):
            parameters = table("policies/rules.toml")[rule]["parameters"]
            assert floor["oldest"] in [each["default"] for each in parameters.values()]
            assert set(floor["advisories"]) & set(
                re.findall(r"[A-Z]+-[\w-]+", str(table("policies/rules.toml")[rule]))
            )
    assert "was accepted until" in next(below_floor("x/triton-gaudi:1", date(2028, 1, 1)))
