"""Nothing tells a reader to install inferplan by its name alone: an index gives a name to whoever
registers it first.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORDS = "inferplan/kube/disclosure/words.txt"
BY_NAME = re.compile(
    r"""(?:\b(?:pip3?|pipx|uv\s+tool|uv\s+pip)\s+install\b|\buvx\b|\bpipx\s+run\b|\buv\s+add\b)
        [^\n|;&]*?(?<![\w./-])inferplan(?=[\s'"`\[=<>~,)]|$)(?!\s+(?:up|plan|check|upgrade-check))
        |\b[Ii]nstall\s+inferplan\[
        |^inferplan(?:\[\w+\])?\s*(?:[=<>~!]=.*)?$""",
    re.VERBOSE | re.MULTILINE,
)


def texts() -> list[str]:
    """Every tracked text outside the tests."""
    listed = subprocess.run(
        ["git", "ls-files", "--", ".", ":!tests", f":!{WORDS}"],  # noqa: S607 - the system's own tool
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        name
        for name in listed.stdout.splitlines()
        if not name.endswith((".xz", ".png", ".gz", ".json")) and (ROOT / name).is_file()
    ]


def test_every_text_installs_inferplan_from_a_file():
    found = {
        name: [" ".join(each.split()) for each in BY_NAME.findall(joined)]
        for name in texts()
        if BY_NAME.search(joined := re.sub(r'"\n\s*f?"', "", (ROOT / name).read_text("utf-8")))
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "uv tool install inferplan",
        " Run: pip install 'inferplan[policy]'",
        "run: .venv/bin/pip install -q 'inferplan[policy]==0.1.0'",
        "uvx --from inferplan==VERSION inferplan upgrade-check",
        "Install inferplan[aws].",
        "pandas\ninferplan[policy]\n",
    ],
)
def test_an_installation_by_name_is_found(text):
    assert BY_NAME.search(text)


@pytest.mark.parametrize(
    "text",
    [
        'uv tool install "dist/inferplan-0.1.0-py3-none-any.whl[gateway]"',
        "uvx --from WHEEL inferplan upgrade-check dev --save",
        "inferplan[policy] @ file:///opt/wheels/inferplan-0.1.0-py3-none-any.whl#sha256=HEX",
        "# Install inferplan",
    ],
)
def test_an_installation_from_a_file_passes(text):
    assert not BY_NAME.search(text)
