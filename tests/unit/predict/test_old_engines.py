"""A release with another scheduler has no prediction, instead of a wrong one."""

from __future__ import annotations

import pytest

from inferplan.predict.configurations import UnknownSpeedError, check_release


@pytest.mark.parametrize(
    "image",
    ["docker.io/vllm/vllm-openai:v0.7.3", "mirror.test/vllm/vllm-openai:v0.6.1@sha256:0a"],
)
def test_images_before_the_scheduler_have_no_speed(image):
    with pytest.raises(UnknownSpeedError) as raised:
        check_release("vllm", image)
    assert f"{image} predates the scheduler of release 0.8" in str(raised.value)
    assert "Use an image of 0.8 or newer" in str(raised.value)


@pytest.mark.parametrize(
    ("framework", "image"),
    [
        ("vllm", "docker.io/vllm/vllm-openai:v0.8.0"),
        ("vllm", "docker.io/vllm/vllm-openai:v0.33.0@sha256:0a"),
        ("vllm", "docker.io/vllm/vllm-openai-rocm:v0.33.0"),
        # The release of an image of one's own is not known.
        ("vllm", "docker.io/acme/engine:v0.1.0"),
        ("vllm", ""),
        ("sglang", "docker.io/lmsysorg/sglang:v0.5.1"),
    ],
)
def test_other_images_have_one(framework, image):
    check_release(framework, image)
