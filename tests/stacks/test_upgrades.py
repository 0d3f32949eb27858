"""A change of ours replaces or deletes nothing that a release deployed, unless "Upgrade notes" in
the changelog says so.
"""

from __future__ import annotations

import fnmatch
import json
import lzma
import re
import shutil
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.commands.upgrade_check.upgrade import Upgrade, check_upgrade, save_release
from inferplan.workspace import project
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).resolve().parents[2]
PLANS = sorted((ROOT / "releases").glob("*/*.json.xz"))


def notes(changelog: str, release: str) -> list[str]:
    """The resources, as `Kind/name` patterns in backticks, in the upgrade notes of the versions
    after `release`.
    """
    newer = changelog.partition(f"\n## {release} ")[0]
    sections = re.findall(r"^### Upgrade notes\n(.*?)(?=^##|\Z)", newer, re.MULTILINE | re.DOTALL)
    return re.findall(r"`([A-Za-z]+/[^`\s]+)`", "\n".join(sections))


def unexplained(upgrade: Upgrade, patterns: list[str]) -> list[str]:
    steps = [step for step in upgrade.steps if step.op in ("replace", "delete")]
    names = [
        f"{re.split(r'[$:]', step.urn.split('::')[-2])[-1]}/{step.urn.rpartition('::')[2]}"
        for step in steps
    ]
    return [
        name
        for name in names
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


@pytest.fixture(autouse=True)
def _apart(monkeypatch):
    monkeypatch.setattr(project, "SELECTION", project.Selection())
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")


@pytest.mark.parametrize(
    "path", PLANS, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}"
)
def test_no_resource_of_a_release_is_replaced_or_deleted_without_an_upgrade_note(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    release, stack = path.parent.name, path.name.partition(".")[0]
    upgrade = check_upgrade(open_workspace(stack), release)
    patterns = notes((ROOT / "CHANGELOG.md").read_text(), release)
    assert unexplained(upgrade, patterns) == [], (
        'name them under "### Upgrade notes" in CHANGELOG.md, with the reason and what users do'
    )


def test_every_example_stack_has_a_plan_of_every_release():
    stacks = {
        path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        for path in (ROOT / "stacks").glob("*.yaml")
    }
    for release in {path.parent for path in PLANS}:
        assert {path.name.partition(".")[0] for path in release.iterdir()} == stacks


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A project with the stack `dev`, and a plan of it by version 0.0.9 whose gateway had another
    selector.
    """
    for name in ("Pulumi.yaml", "inferplan/infra"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "stacks" / "Pulumi.dev.yaml", tmp_path / "stacks")
    monkeypatch.chdir(tmp_path)
    saved = save_release(open_workspace("dev"))
    document = json.loads(lzma.decompress(saved.read_bytes()))
    for each in document["resources"]:
        if each["urn"].endswith("kubernetes:apps/v1:Deployment::gateway"):
            each["inputs"]["spec"]["selector"]["matchLabels"]["old"] = "label"
            each["inputs"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    saved.unlink()
    older = tmp_path / "releases" / "0.0.9" / "dev.json.xz"
    older.parent.mkdir()
    older.write_bytes(lzma.compress(json.dumps(document).encode()))
    return older


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(arguments)
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("own")
def test_a_changed_selector_is_a_replacement_shown_first_with_exit_code_3(capsys):
    assert _run("upgrade-check") == 3
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"dev: from 0\.0\.9 to 0\.1\.0: 1 to replace, \d+ unchanged", lines[0])
    assert lines[1].startswith("  to replace: Deployment gateway  ")
    assert "spec.selector.matchLabels.old" in lines[1]
    upgrade = check_upgrade(open_workspace("dev"))
    assert unexplained(upgrade, []) == ["Deployment/gateway"]
    changelog = (
        "# Changelog\n\n## 0.2.0 - 2027-01-01\n\n### Upgrade notes\n- `Deployment/gate*` is"
        " replaced.\n\n## 0.0.9 - 2026-01-01\n"
    )
    assert unexplained(upgrade, notes(changelog, "0.0.9")) == []
    assert notes(changelog, "0.2.0") == []


@pytest.mark.usefixtures("own")
def test_later_edits_of_the_stack_file_are_not_part_of_the_upgrade(capsys):
    stack = Path("stacks/Pulumi.dev.yaml")
    stack.write_text(stack.read_text().replace("maxModelLen: 8192", "maxModelLen: 4096"))
    assert _run("upgrade-check", "dev", "--json") == 3
    [document] = json.loads(capsys.readouterr().out)
    assert [(step["op"], step["type"], step["name"]) for step in document["steps"]] == [
        ("replace", "Deployment", "gateway")
    ]


def test_a_missing_or_damaged_plan_is_an_error_that_says_what_to_do(own, capsys):
    own.write_bytes(own.read_bytes()[:100])
    assert _run("upgrade-check", "dev") == 2
    assert "releases/0.0.9/dev.json.xz is damaged" in capsys.readouterr().err
    own.unlink()
    assert _run("upgrade-check", "dev") == 2
    assert "uvx --from WHEEL inferplan upgrade-check dev --save" in capsys.readouterr().err
    assert _run("upgrade-check") == 2
    assert _run("upgrade-check", "--save") == 0
    assert _run("upgrade-check") == 0
    assert re.fullmatch(
        r"dev: from 0\.1\.0 to 0\.1\.0: \d+ unchanged\n",
        capsys.readouterr().out.splitlines(keepends=True)[-1],
    )


@pytest.mark.usefixtures("own")
def test_renamed_keys_are_edited_in_place_and_nothing_else(capsys):
    shutil.copy(ROOT / "stacks" / "Pulumi.local.yaml", "stacks")
    stack = Path("stacks/Pulumi.local.yaml")
    before = stack.read_text().replace(
        "nodes: 2, zones: [zone-a, zone-b]}", "nodes: 2,  zones: [zone-a, zone-b]} # two of them", 1
    )
    stack.write_text(before.replace("instanceType:", "machine:"))
    stack.chmod(0o640)
    assert _run("upgrade-check", "local", "--rename") == 0
    assert (
        capsys.readouterr().out
        == "stacks/Pulumi.local.yaml: nodePools.l40s.machine: now instanceType\n"
    )
    assert stack.read_text() == before
    assert stack.stat().st_mode & 0o777 == 0o640
    assert _run("upgrade-check", "local", "--rename") == 0
    assert capsys.readouterr().out == "stacks/Pulumi.local.yaml: no key of an older version\n"
    quoted = before.replace("instanceType:", '"machine":')
    stack.write_text(quoted)
    assert _run("upgrade-check", "local", "--rename") == 1
    assert "Rename it to instanceType by hand" in capsys.readouterr().err
    assert stack.read_text() == quoted
