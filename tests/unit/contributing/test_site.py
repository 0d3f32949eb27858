"""The site of the documentation: every page is in its navigation, no link leads out of it, and the
generator accepts it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from inferplan.commands.main import COMMANDS, load

ROOT = Path(__file__).resolve().parents[3]


def _script(name: str) -> Any:
    """The module .ci/NAME.py, which no package contains."""
    spec = importlib.util.spec_from_file_location(f"{name}_of_docs", ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build():
    return _script("site")


@pytest.fixture(scope="module")
def pages(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "pages"
    build.write_pages(folder)
    return folder


def test_the_navigation_has_every_page_once(build, pages):
    nav = tomllib.loads(build.configuration(pages))["project"]["nav"]
    shown = re.findall(r"[\w/-]+\.md", json.dumps(nav))
    assert len(shown) == len(set(shown))
    assert set(shown) == {each.relative_to(pages).as_posix() for each in pages.rglob("*.md")}


def test_no_link_leads_out_of_the_site(pages):
    for path in pages.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text()):
            file = (path.parent / target).resolve()
            assert file.exists(), (path.name, target)
            assert file.is_relative_to(pages.resolve()), (path.name, target)


def test_the_generated_pages_have_commands_keys_and_rules(pages):
    options = (pages / "reference/options.md").read_text()
    assert [name for name in COMMANDS if f"\n## {name}\n" not in options] == []
    assert "| `--against` |" in options
    assert "maxModelLen" in (pages / "reference/stack-file.md").read_text()
    assert len(list((pages / "policies/rules").glob("*.md"))) > 100


def test_llms_txt_lists_every_page(pages):
    text = (pages / "llms.txt").read_text()
    for path in pages.rglob("*.md"):
        assert f"({path.relative_to(pages).as_posix()})" in text


@pytest.mark.full
def test_the_generator_accepts_every_page_and_loads_nothing(build, pages, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    uv = str(Path(sys.executable).with_name("uv"))
    for arguments in (
        ["venv", "--quiet", str(tmp_path / "venv")],
        ["pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(ROOT / ".ci/site.lock")],
    ):  # fmt: skip
        subprocess.run([uv, *arguments], check=True)
    shutil.copytree(pages, tmp_path / "pages")
    (tmp_path / "zensical.toml").write_text(build.configuration(pages))
    subprocess.run(
        [str(python.with_name("zensical")), "build", "--clean", "--strict"],
        cwd=tmp_path,
        check=True,
    )
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]+)"|<link[^>]* rel="stylesheet"[^>]* href="(https?:[^"]+)"', page.read_text())  # fmt: skip
        assert loaded == [], page.name
    assert (tmp_path / "site" / "llms.txt").is_file()
    assert "engines/vllm.html" in (tmp_path / "site" / "gateway.html").read_text()
    assert "drainSeconds" in (tmp_path / "site" / "search.json").read_text()


def test_the_manual_page_is_that_of_the_commands():
    page = ROOT / "docs" / "inferplan.1"
    assert page.read_text() == _script("manual").manual(), "run python .ci/manual.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff on PATH")
def test_groff_shows_the_manual_page_without_a_warning():
    command = ["groff", "-man", "-Tutf8", "-ww", str(ROOT / "docs" / "inferplan.1")]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    assert not shown.stderr
    assert "--against" in re.sub(r"\x1b\[[0-9;]*m|.\x08", "", shown.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_is_accepted(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    program, command, *words = shlex.split(COMMANDS[name][2].partition(" > ")[0])
    assert (program, command) == ("inferplan", name)
    context = load(name).make_context(name, words)
    assert context.command.name == name


def test_a_page_takes_a_few_minutes_to_read():
    """Tables that the code writes are looked up, not read."""
    written_by_code = {"accuracy.md", "supported.md"}
    long = [
        (path.name, words)
        for path in (ROOT / "docs").rglob("*.md")
        if path.name not in written_by_code and (words := len(path.read_text().split())) > 1500
    ]
    assert not long
