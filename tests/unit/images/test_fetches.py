"""Everything that recipes, set-up scripts and pipelines fetch has a digest or a hash: every file of the
repository that runs commands is read, and every command that can fetch.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = re.compile(
    r"(^|/)(Dockerfile[^/]*|Containerfile|Makefile|[^/]+\.(sh|mk)|[^/]*\.ya?ml(\.j2)?|[^/]+\.sh\.j2)$"
)
# Files that run commands: recipes, scripts, Makefiles and pipelines.
PIPELINE = re.compile(r"^ *(- )?(run|script|uses|steps|before_script|image):", re.MULTILINE)
FETCHES = re.compile(
    r"(?<![\w./-])(?:(?:python3?|\S*/python3?) -m )?(?:\S*/)?(?P<program>pip3?|uv|pipx|curl|wget|npm|npx|go|git|gem|cargo|helm"
    r"|apk|dnf|yum|ADD|FROM|uses:)(?P<words> [^;&|\n]*)"
)


def commands() -> dict[str, str]:
    """Every tracked file that runs commands, with continued lines joined and comments removed."""
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    texts = {}
    for name in listed.stdout.splitlines():
        if NAMES.search(name) and not name.startswith(("tests/", "inferplan/rehearsal/toolchain/")):
            text = (ROOT / name).read_text(encoding="utf-8")
            pipeline = name.endswith((".yml", ".yaml", ".j2"))
            if not pipeline or (
                ("workflows/" in name or "example" in name) and PIPELINE.search(text)
            ):
                texts[name] = re.sub(r"\\\n *(#.*\n *)*", " ", text)
    return texts


def unpinned(text: str) -> Iterator[str]:
    """Each command of a text that fetches something without a digest or a hash."""
    lines = [re.sub(r"(^| )#(?! v\d).*", "", line) for line in text.splitlines()]
    for line in lines:
        for match in FETCHES.finditer(line):
            program, words = match["program"], match["words"].strip()
            if not PINNED[program](words, line):
                yield f"{program} {words}"


def _installer_is_pinned(words: str, _line: str) -> bool:
    install = re.search(r"\b(install|sync|run|tool)\b", words)
    local = re.search(r"--no-index|--editable|\buninstall\b", words)
    return not install or bool(local) or "--require-hashes" in words


def _download_is_checked(words: str, line: str) -> bool:
    # What is sent to a service is no download; a file is checked in the same command.
    fetches = "://" in words or "$" in words
    sends = "--data" in words or "$notes?" in words or "/dev/null" in words
    return not fetches or sends or "sha256sum --check --strict" in line


def _is(pattern: str) -> Callable[[str, str], bool]:
    return lambda words, _line: re.search(pattern, words) is not None


def _is_not(pattern: str) -> Callable[[str, str], bool]:
    return lambda words, _line: re.search(pattern, words) is None


PINNED: dict[str, Callable[[str, str], bool]] = {
    **dict.fromkeys(("pip", "pip3", "pipx", "uv"), _installer_is_pinned),
    **dict.fromkeys(("curl", "wget"), _download_is_checked),
    **dict.fromkeys(("npx", "gem", "cargo"), _is(r"(?!)")),
    **dict.fromkeys(("apk", "dnf", "yum"), _is_not(r"\b(add|install)\b")),
    "ADD": _is(r"^(?!.*://)|--checksum=sha256:"),
    "FROM": _is(r"@(sha256:[0-9a-f]{64}|\$\{BASE_DIGEST\})( AS \w+)?$"),
    "uses:": _is(r"^(\./\S+|\S+@[0-9a-f]{40}\b)"),
    # Modules have their sums in go.sum; `go install` and `go get` of a name alone do not.
    "go": _is_not(r"^(install|get|run) \S+[@.]\S+/"),
    "git": _is_not(r"\b(clone|submodule)\b"),
    "npm": _is(r"^(ci\b|(?!install\b|i\b|add\b|exec\b))"),
    "helm": _is(r"--verify|^(?!.*\b(repo add|pull|install|upgrade)\b)"),
}


def test_the_sweep_reads_recipes_scripts_and_pipelines():
    names = set(commands())
    for part in (
        "images/pytriton/Dockerfile",
        "images/vllm-efa/Dockerfile",
        "setup.sh",
        "Makefile",
    ):
        assert any(name.endswith(part) for name in names)
    assert sum("workflows/" in name for name in names) >= 10
    assert {"docs/audit.example.yml", "docs/gitlab-ci.example.yml"} <= names


@pytest.mark.parametrize("name", sorted(commands()))
def test_a_file_fetches_nothing_without_a_digest_or_hash(name):
    assert list(unpinned(commands()[name])) == []


@pytest.mark.parametrize(
    "line",
    [
        *("RUN pip install torch", "RUN python3 -m pip install --requirement requirements.txt"),
        *("run: .venv/bin/pip install -q 'inferplan[policy]==0.1.0'", "uv tool install inferplan"),
        *(
            "curl -fsSL https://get.example.com | sh",
            "wget -q https://a.example/b.tgz",
            "pipx run ruff",
        ),
        *(
            "FROM python:3.13",
            "FROM ubuntu AS build",
            "ADD https://a.example/b.tgz /tmp",
            "npx cowsay",
        ),
        *(
            "- uses: actions/checkout@v4",
            "npm install left-pad",
            "go install example.com/a/b@latest",
        ),
        *(
            "git clone https://a.example/b",
            "apk add curl",
            "uv pip install ruff",
            "uv run --with x y",
        ),
        *(
            "FROM a@sha256:12",
            "RUN curl --output a https://a.example && sha256sum a",
            "go run a.b/c@v1/x",
        ),
    ],
)
def test_a_fetch_by_a_name_alone_is_noticed(line):
    assert list(unpinned(line))


@pytest.mark.parametrize(
    "line",
    [
        "RUN pip install --require-hashes --requirement requirements.lock",
        "FROM python:3.13@sha256:" + "a" * 64,
        'RUN curl --output a https://a.example && echo "${SUM}  a" | sha256sum --check --strict',
        "- uses: actions/checkout@" + "a" * 40 + " # v7.0.1",
        "npm ci --ignore-scripts",
        "pip check",
    ],
)
def test_a_pinned_fetch_passes(line):
    assert not list(unpinned(line))
