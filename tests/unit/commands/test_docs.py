"""`inferplan docs` and `inferplan explain`: a person finds the page of a task, and every key."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.commands import main
from inferplan.commands.pages import anchor, pages, search, sections
from inferplan.errors import RequestError
from inferplan.stackfile.explanation import explain, paths

ROOT = Path(__file__).resolve().parents[3]
# What a person types for a task of the day, and the page that has it.
TASKS = {
    "rotate key": "keys",
    "add model": "tasks",
    "budget": "report-cost",
    "upgrade vllm": "tasks",
    "interrupted update": "recovering",
    "drift": "drift",
    "private registry": "bring-your-own",
    "argo cd": "gitops",
    "scale to zero": "tasks",
    "remove stack": "removing",
    "nfs share": "storage",
    "alerts": "monitoring",
}


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main.run(list(arguments))
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


@pytest.mark.parametrize(("words", "page"), TASKS.items())
def test_a_task_of_the_day_is_among_the_first_five(words, page):
    assert page in [each.page for each in search(words.split())[:5]]


def test_a_page_a_section_and_a_list(capsys):
    code, out, _ = run(capsys, "docs")
    assert code == 0
    assert all(name in out for name in ("gateway", "storage", "tutorials/"))
    code, out, _ = run(capsys, "docs", "docs/gateway.md")
    assert out == (ROOT / "docs/gateway.md").read_text().rstrip() + "\n"
    code, out, _ = run(capsys, "docs", "keys#rotate-a-key")
    assert out.startswith("## Rotate a key\n")
    assert "inferplan keys retire" in out
    assert out.count("\n## ") == 0
    code, out, _ = run(capsys, "docs", "reference")
    assert "| `maxModelLen`" in out


def test_what_no_page_has_is_an_error_with_the_next_step(capsys):
    code, _, error = run(capsys, "docs", "xylophone")
    assert code == 2
    assert "list the pages with: inferplan docs" in error
    code, _, error = run(capsys, "docs", "keys#xylophone")
    assert code == 2
    assert "rotate-a-key" in error


def test_a_heading_inside_code_is_text():
    text = "# One\ntext\n```\n# no heading\n```\n## Two\nmore\n"
    assert [(each.title, each.level) for each in sections("x", text)] == [("One", 1), ("Two", 2)]


@pytest.mark.parametrize("path", sorted(paths()))
def test_every_key_is_explained(path):
    for each in explain(path):
        assert each.meaning or path.startswith("extraObjects.")
        assert each.type


def test_the_explanation_has_what_the_schema_says(capsys):
    code, out, _ = run(capsys, "explain", "nodePools.l40s.size.max")
    assert code == 0
    assert "integer" in out
    assert "at most 5000" in out
    assert "read more: inferplan docs" in out
    _, out, _ = run(capsys, "explain", "models.chat.weights.revision", "--json")
    [key] = json.loads(out)["keys"]
    assert key["owners"] == ["WeightsSpec"]
    assert key["type"] == "string"


def test_kinds_with_another_meaning_are_told_apart():
    by_owner = {each.owners: each.required for each in explain("gateway.host")}
    assert by_owner[("EnvoyGatewaySpec",)] is True
    assert by_owner[("NginxGatewaySpec",)] is False


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("models.wieghts", "Did you mean models.weights?"),
        ("nodePool", "Did you mean nodePools?"),
        ("models.chat.weights.rev.x", "models.chat.weights.rev is not a key"),
        ("", "A key is missing"),
    ],
)
def test_a_key_that_no_stack_file_has(path, message):
    with pytest.raises(RequestError, match=re.escape(message)):
        explain(path)


def _messages() -> list[tuple[str, str]]:
    """Every string of the package that is no docstring, and every line of its tables."""
    found = []
    for path in sorted((ROOT / "inferplan").rglob("*.py")):
        tree = ast.parse(path.read_text())
        apart = {
            id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        }  # fmt: skip
        found += [
            (path.name, each.value)
            for each in ast.walk(tree)
            if isinstance(each, ast.Constant)
            and isinstance(each.value, str)
            and id(each) not in apart
        ]
    for path in sorted((ROOT / "inferplan").rglob("*.toml")):
        found += [
            (path.name, line) for line in path.read_text().splitlines() if not line.startswith("#")
        ]
    return found


def test_messages_name_pages_by_the_command_that_prints_them():
    known = set(pages())
    for file, text in _messages():
        for name in re.findall(r"inferplan docs ([a-z0-9/-]+)", text):
            assert name in {*known, "reference"}, (file, text)


def test_every_link_between_pages_leads_to_a_heading():
    for name, path in pages().items():
        for target, heading in re.findall(r"\]\(([\w/.-]*\.md)?#([\w-]+)\)", path.read_text()):
            page = (path.parent / target).resolve() if target else path
            anchors = {anchor(each.title) for each in sections(page.stem, page.read_text())}
            assert heading in anchors or f'id="{heading}"' in page.read_text(), (
                name,
                target,
                heading,
            )


def test_the_wheel_has_the_pages_and_prints_them(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    out = subprocess.run(
        [sys.executable, "-c", "from inferplan.commands.main import run; run()", "docs", "drift"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    ).stdout  # fmt: skip
    assert out == (ROOT / "docs/drift.md").read_text().rstrip() + "\n"


def _edits() -> list[dict[str, Any]]:
    # Stack files are read as YAML 1.2, in which `on` is a word.
    text = (ROOT / "docs/tasks.md").read_text().replace(" on:", " 'on':")
    return [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


def _merged(base, edit):
    if not isinstance(base, dict) or not isinstance(edit, dict):
        return edit
    return {**base, **{key: _merged(base.get(key), value) for key, value in edit.items()}}


@pytest.mark.parametrize("number", range(len(_edits())))
def test_every_edit_of_the_tasks_is_a_stack_that_plans(tmp_path, monkeypatch, capsys, number):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    stack = yaml.safe_load((ROOT / "stacks/Pulumi.local.yaml").read_text())
    stack["config"] = _merged(stack["config"], _edits()[number])
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(stack))
    code, _, error = run(capsys, "plan", str(file))
    assert code == 0, error


def test_the_readme_is_short_and_has_one_picture():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    assert len(re.findall(r"!\[", text)) == 1


def test_the_page_of_commands_has_every_command():
    text = (ROOT / "docs/commands.md").read_text()
    assert [name for name in main.COMMANDS if f"`inferplan {name}" not in text] == []


def test_every_link_of_readme_and_pages_leads_to_a_file():
    for path in [ROOT / "README.md", *pages().values()]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text()):
            assert (path.parent / target).exists(), (path.name, target)
