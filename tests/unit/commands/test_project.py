"""Every command acts on one project: the nearest one, or that of --project, and says which if it is
not in the current folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.workspace import project

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "from inferplan.infra.program import run\n\nrun()\n"


@pytest.fixture(autouse=True)
def _selection(monkeypatch):
    monkeypatch.setattr(project, "SELECTION", project.Selection())


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def other(tmp_path):
    """A project with its own name and program at its top, and the stack `local`."""
    folder = tmp_path / "other"
    (folder / "stacks" / "deep").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text(
        "name: acme-models\nstackConfigDir: stacks\nruntime: python\n"
    )
    (folder / "__main__.py").write_text(PROGRAM)
    (folder / "stacks" / "Pulumi.local.yaml").write_text(
        (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    )
    return folder


def test_the_option_selects_the_project_before_and_after_the_command(
    other, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ("validate", "local", "--project", "other"),
        ("--project", "other/stacks", "validate", "local"),
    ):
        assert _run(*arguments) == 0
        read = capsys.readouterr()
        assert (
            read.out
            == "ok  other/stacks/Pulumi.local.yaml: 3 pools, 2 stores, 2 models, 2 consumers\n"
        )
        assert read.err == f"project: {other}\n"


def test_nothing_is_said_in_the_projects_own_folder_and_its_path_below_it(
    other, monkeypatch, capsys
):
    monkeypatch.chdir(other)
    assert _run("validate", "local") == 0
    assert capsys.readouterr().err == ""
    monkeypatch.chdir(other / "stacks" / "deep")
    assert _run("validate", "local") == 0
    assert capsys.readouterr().err == f"project: {other}\n"


@pytest.mark.usefixtures("other")
def test_paths_of_files_stay_relative_to_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert _run("plan", "local", "--project", "other", "--save", "saved.json") == 0
    assert (tmp_path / "saved.json").exists()
    capsys.readouterr()


def test_the_name_in_pulumi_yaml_is_in_every_urn(other, monkeypatch, capsys):
    monkeypatch.chdir(other)
    assert _run("plan", "local", "--events", "events.ndjson") == 0
    text = (other / "events.ndjson").read_text()
    assert "urn:pulumi:local::acme-models::" in text
    assert "::inferplan::" not in text
    capsys.readouterr()


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("folder", ["missing", "other/Pulumi.yaml"])
def test_a_folder_that_does_not_exist_is_an_error_with_its_name(
    folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert _run("validate", "--project", folder) == 2
    assert (
        capsys.readouterr().err
        == f"inferplan: --project: '{folder}' is not a folder. Name the folder of a Pulumi.yaml, or"
        " one below it.\n"
    )


def test_a_folder_outside_of_any_project_is_an_error_that_names_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    # A simulated cluster of that name, which may belong to another project, stays as it is.
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state" / "clusters" / "local").mkdir(parents=True)
    assert _run("down", "local", "--project", "empty") == 2
    assert (
        f"There is no Pulumi.yaml in {tmp_path / 'empty'} or above it." in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: rhymes\nmain: verse # the program\nruntime: python\n", ("rhymes", "verse")),
        ("{name: 'rhymes', runtime: python, main: \"verse\"}\n", ("rhymes", "verse")),
        ("name: rhymes\ndescription: |\n  main: prose\nruntime: python\n", ("rhymes", ".")),
    ],
)
def test_the_program_is_read_from_the_project_file_as_yaml(tmp_path, text, expected):
    (tmp_path / "Pulumi.yaml").write_text(text)
    assert (project.project_name(tmp_path), project.program_folder(tmp_path)) == (
        expected[0],
        tmp_path / expected[1],
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: [rhymes\nruntime: python\n", ":2:8: Invalid YAML"),
        ("- name\n", ":1:1: A project file"),
    ],
)
def test_a_project_file_that_is_no_mapping_is_named_with_its_position(tmp_path, text, place):
    (tmp_path / "Pulumi.yaml").write_text(text)
    with pytest.raises(project.RequestError, match=f"Pulumi.yaml{place}"):
        project.project_name(tmp_path)
