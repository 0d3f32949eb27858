"""One import package: the wheel, the editable installation and the checkout have the same files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import inferplan
from tests.wheels import files_of, fresh_environment, release

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder of a release of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    release(folder)
    return folder


def test_the_wheel_has_the_files_of_the_checkout_and_one_top_level_name(dist):
    [wheel] = dist.glob("inferplan-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        texts = {name: archive.read(name) for name in names if name.endswith((".py", ".toml"))}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "inferplan", "docs"],  # noqa: S607 - git is how the files came here
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # The settings of this repository's own stacks are data of the project.
    tracked = {
        name if name.startswith("inferplan/") else f"inferplan/{name}"
        for name in listed.split("\0")
        if name and not name.startswith("inferplan/policies/stacks/")
    }
    stem = wheel.name.removesuffix("-py3-none-any.whl")
    assert {name.partition("/")[0] for name in names} == {
        "inferplan",
        f"{stem}.data",
        f"{stem}.dist-info",
    }
    assert {name for name in names if name.startswith(f"{stem}.data/")} == {
        f"{stem}.data/data/share/man/man1/inferplan.1"
    }
    assert {name for name in names if name.startswith("inferplan/")} == tracked
    assert all(
        text == (ROOT / name.replace("inferplan/docs/", "docs/")).read_bytes()
        for name, text in texts.items()
        if name in tracked
    )


def test_the_editable_installation_is_the_checkout():
    assert Path(inferplan.__file__).parent == ROOT / "inferplan"


def test_a_release_has_the_same_bytes_from_another_folder_at_another_time(tmp_path, dist):
    clone = tmp_path / "elsewhere"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)  # noqa: S607 - git is how the files came here
    here = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False)  # noqa: S607 - the same git
    if here.returncode:
        pytest.skip("the checkout has changes that a clone does not have")
    for number, path in enumerate(sorted(clone.rglob("*.py"))):
        os.utime(path, (number, number))
        path.chmod(0o600)
    first, second = files_of(dist), release(tmp_path / "second", clone)
    assert list(first) == ["inferplan-0.1.0-py3-none-any.whl", "inferplan-0.1.0.tar.gz"]
    assert first == second


def test_the_source_distribution_builds_the_same_wheel(tmp_path, dist):
    with tarfile.open(dist / "inferplan-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    wheel = "inferplan-0.1.0-py3-none-any.whl"
    assert (
        release(tmp_path / "again", tmp_path / "inferplan-0.1.0")[wheel]
        == (dist / wheel).read_bytes()
    )


def test_the_wheel_runs_without_the_checkout_and_reads_its_own_data(tmp_path, dist):
    [wheel] = dist.glob("*.whl")
    programs = fresh_environment(tmp_path / "venv", wheel)
    project = tmp_path / "project"
    project.mkdir()
    for name in ("stacks", "Pulumi.yaml"):
        copy = ["cp", "-r", str(ROOT / name), str(project)]
        subprocess.run(copy, check=True)
    (project / "inferplan" / "infra").mkdir(parents=True)
    shutil.copy(ROOT / "inferplan" / "infra" / "__main__.py", project / "inferplan" / "infra")

    def run(*arguments):
        return subprocess.run(
            [programs / "inferplan", *arguments],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )

    where = subprocess.run(
        [programs / "python", "-c", "import inferplan; print(inferplan.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(tmp_path))
    assert run("--version").stdout == "inferplan 0.1.0\n"
    plan = run("plan", "local")
    assert (plan.returncode, plan.stdout.splitlines()[-1]) == (0, "52 resources: 52 to create")


def test_the_changelog_dates_the_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("module", "line", "remedy"),
    [
        (
            "pulumi_aws",
            "from inferplan.components.platforms.aws import lazy_sdk; lazy_sdk.install()",
            "with the extra aws: inferplan docs installing",
        ),
        (
            "botocore",
            (
                "from inferplan.components.platforms.aws.credentials import Credentials;"
                " Credentials('eu-west-1', 'dev')"
            ),
            "with the extra aws: inferplan docs installing",
        ),
    ],
)
def test_a_missing_extra_is_an_error_that_names_it(module, line, remedy):
    blocked = (
        "import sys, importlib.util as u; find = u.find_spec; u.find_spec = lambda name, *rest: "
        f"None if name == {module!r} else find(name, *rest); sys.modules[{module!r}] = None; {line}"
    )
    answer = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False
    )
    assert remedy in answer.stderr.splitlines()[-1]


def test_the_descriptions_of_a_release_are_about_its_files(tmp_path, dist):
    folder = tmp_path / "dist"
    shutil.copytree(dist, folder)
    describe = [sys.executable, str(ROOT / ".ci" / "describe_release.py"), str(folder)]
    subprocess.run(describe, check=True, capture_output=True)
    first = {each.name: each.read_bytes() for each in folder.iterdir()}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True)  # noqa: S607 - the command of docs/releases.md
    assert first["SHA256SUMS"].count(b"\n") == len(first) - 1
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in first.items()}
    bill = json.loads(first["inferplan-0.1.0.cdx.json"])
    wheel = digests["inferplan-0.1.0-py3-none-any.whl"]
    own = bill["metadata"]["component"]
    assert (own["version"], own["hashes"][0]["content"]) == ("0.1.0", wheel)
    with zipfile.ZipFile(folder / "inferplan-0.1.0-py3-none-any.whl") as archive:
        metadata = archive.read("inferplan-0.1.0.dist-info/METADATA").decode()
    direct = set(re.findall(r"^Requires-Dist: ([a-z0-9-]+)[^;\n]*$", metadata, re.MULTILINE))
    assert direct
    assert direct <= {each["name"] for each in bill["components"]}
    assert all(each["properties"] for each in bill["components"])
    origin = json.loads(first["inferplan-0.1.0.provenance.json"])
    for subject in origin["subject"]:
        assert subject["digest"]["sha256"] == digests[subject["name"]]
    with (folder / "inferplan-0.1.0-py3-none-any.whl").open("ab") as stream:
        stream.write(b"x")
    altered = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, check=False)  # noqa: S607 - the same command
    assert altered.returncode
