"""`inferplan validate` and `inferplan schema`, as a person uses them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferplan.commands import main

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "inferplan" / "infra").mkdir(parents=True)
    (tmp_path / "stacks").mkdir()
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    for name in ("local", "onprem"):
        shutil.copy(PROJECT / "stacks" / f"Pulumi.{name}.yaml", tmp_path / "stacks")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def inferplan(capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main.run(arguments)
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.usefixtures("project")
def test_all_stacks_are_checked_by_default(inferplan):
    code, out, err = inferplan("validate")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "ok  stacks/Pulumi.local.yaml",
        "ok  stacks/Pulumi.onprem.yaml",
    ]
    assert "3 pools, 2 stores, 2 models, 2 consumers" in out


def test_routes_are_counted_where_there_are_any(project, inferplan):
    file = project / "stacks" / "Pulumi.local.yaml"
    route = "  inferplan:routes: {chat-large: {backends: {llama-3-70b: 1}, consumers: [chat]}}\n"
    file.write_text(file.read_text().rstrip() + "\n" + route)
    _, out, _ = inferplan("validate", "local")
    assert out.endswith("2 consumers, 1 route\n")


def test_a_faulty_stack_is_bad_input_and_the_others_are_still_checked(project, inferplan):
    broken = project / "stacks" / "Pulumi.local.yaml"
    broken.write_text(broken.read_text().replace("replicas: 2", "replicas: two"))
    code, out, err = inferplan("validate")
    assert code == 2
    assert out.startswith("ok  stacks/Pulumi.onprem.yaml")
    assert (
        "stacks/Pulumi.local.yaml:19:7: models.llama-3-8b.replicas: 'two' is not valid. Expected a"
        " whole number or a range, for example {min: 1, max: 3}." in err
    )
    assert "1 error in stacks/Pulumi.local.yaml" in err


def test_a_path_is_as_good_as_a_name(project, inferplan):
    shutil.copy(PROJECT / "stacks" / "Pulumi.local.yaml", project / "elsewhere.yaml")
    code, out, _ = inferplan("validate", "elsewhere.yaml", "local")
    assert code == 0
    assert len(out.splitlines()) == 2
    assert inferplan("validate", "nowhere.yaml")[::2] == (2, "nowhere.yaml: The file does not exist. Check the name of the stack.\n1 error in nowhere.yaml. Nothing was registered. Fix it and run the command again.\n")  # fmt: skip


@pytest.mark.usefixtures("project")
def test_an_unknown_stack_lists_the_known_ones_and_the_nearest(inferplan):
    code, _, err = inferplan("validate", "locl")
    assert code == 2
    assert (
        err
        == "Unknown stack 'locl'. Did you mean 'local'? Stacks in this project: local, onprem.\n"
    )


def test_the_project_is_found_from_any_folder_in_it(project, inferplan, monkeypatch):
    (project / "docs").mkdir()
    monkeypatch.chdir(project / "docs")
    assert inferplan("validate", "local")[0] == 0


def test_a_project_without_stacks_says_how_to_make_one(project, inferplan):
    shutil.rmtree(project / "stacks")
    code, _, err = inferplan("validate")
    assert code == 2
    assert "Create stacks/Pulumi.<name>.yaml" in err


@pytest.mark.slow
def test_the_schema_is_printed_or_written_once(project, inferplan):
    code, printed, _ = inferplan("schema")
    assert code == 0
    assert inferplan("schema", "--write")[1] == "wrote  schemas/stack.schema.json\n"
    assert (project / "schemas" / "stack.schema.json").read_text() == printed
    assert inferplan("schema", "--write")[1] == "unchanged  schemas/stack.schema.json\n"
