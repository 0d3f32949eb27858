"""The recipes of images that users build: what they pin, and that tests run the same versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from inferplan.components.spec import PinnedImage
from inferplan.images.catalogue import catalogue, family_of

ROOT = Path(__file__).parents[3]
LOCKS = ROOT / "tests" / "dataplane" / "serving" / "environments"
RECIPES = {
    path.parent.name: path for path in sorted((ROOT / "inferplan" / "images").glob("*/Dockerfile"))
}
# The environments in which tests start what a recipe installs, and the Python of its base image.
STARTED_IN = {"pytriton": ("triton", "full/vllm"), "ray-app": ("ray",)}
PYTHON = {"pytriton": "3.12", "ray-app": "3.12", "triton-gaudi": "3.10"}
PINNED = re.compile(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+]+$")


def text_of(recipe: str) -> str:
    return RECIPES[recipe].read_text(encoding="utf-8")


def base_of(recipe: str) -> str:
    """The base without the digest, which the builder gives."""
    [base] = re.findall(r"^FROM (\S+)@\$\{BASE_DIGEST\}$", text_of(recipe), re.MULTILINE)
    return base


def pins(recipe: str) -> dict[str, str]:
    file = RECIPES[recipe].with_name("requirements.txt")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert all(PINNED.match(line) for line in wanted), wanted
    return dict(line.split("==") for line in wanted)


def test_there_is_a_recipe_for_every_image_that_nobody_publishes():
    assert set(RECIPES) == {"pytriton", "ray-app", "triton-gaudi", "vllm-efa"}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_pins_its_base_and_every_version(recipe):
    base = base_of(recipe)
    TypeAdapter(PinnedImage).validate_python(base)
    for version in re.findall(r"^ARG \w+=(\S+)", text_of(recipe), re.MULTILINE):
        assert version != "latest"
    pins(recipe)


@pytest.mark.parametrize("recipe", STARTED_IN)
def test_tests_start_the_versions_that_a_recipe_installs(recipe):
    locked = {
        match
        for name in STARTED_IN[recipe]
        for match in re.findall(
            r"^([A-Za-z0-9._-]+==[^ ;\\]+)", (LOCKS / f"{name}.lock").read_text(), re.M
        )
    }
    for package, version in pins(recipe).items():
        assert f"{package.partition('[')[0]}=={version}" in locked


@pytest.mark.parametrize("recipe", PYTHON)
def test_a_recipe_installs_its_pins_by_their_hashes(recipe):
    lock = RECIPES[recipe].with_name("requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(
        r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?: +--hash=sha256:\S+(?: \\)?\n?)+)", lock, re.M
    )
    assert len(entries) == lock.count("==")
    for package, version in pins(recipe).items():
        assert (package.partition("[")[0], version) in {each[:2] for each in entries}
    assert f"--require-hashes --requirement /tmp/{'requirements.lock'}" in text_of(recipe)


def test_vllm_with_efa_is_the_release_that_a_model_gets_by_default():
    assert base_of("vllm-efa") == catalogue()["vllm"].image


def test_the_ray_application_is_built_on_the_ray_that_tests_run():
    base = base_of("ray-app")
    assert family_of(base) is catalogue()["ray"]
    [release] = re.findall(r"^ray==(\S+)", (LOCKS / "ray.lock").read_text(), re.MULTILINE)
    assert base.rpartition(":")[2].startswith(f"{release}-")


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_page_shows_how_each_is_built(recipe):
    page = (ROOT / "docs" / "building-images.md").read_text(encoding="utf-8")
    assert re.search(rf"^\s+docker build .* inferplan/images/{recipe}$", page, re.MULTILINE)


@pytest.mark.full
@pytest.mark.parametrize("recipe", PYTHON)
def test_the_pins_of_a_recipe_fit_together_on_its_python(recipe):
    uv = Path(sys.executable).with_name("uv")
    command = [
        str(uv),
        "pip",
        "compile",
        "--quiet",
        "--python-version",
        PYTHON[recipe],
        str(RECIPES[recipe].with_name("requirements.txt")),
    ]
    if recipe == "triton-gaudi":
        command += ["--override", str(RECIPES[recipe].with_name("overrides.txt"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
