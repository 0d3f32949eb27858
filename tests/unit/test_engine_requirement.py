"""The tests of the real engine run where a provider is on PATH, and skip with the true reason
otherwise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.requirement import missing_on_path


def program(folder: Path, name: str, script: str = "exit 0") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "listed", "reason"),
    [
        ((), "[]", "no pulumi on PATH"),
        (("pulumi",), "[]", "pulumi-language-python is neither there nor on PATH"),
        (("pulumi", "pulumi-language-python"), "[]", "no pulumi-resource-kubernetes on PATH"),
        (
            ("pulumi", "pulumi-language-python"),
            '[{"name": "kubernetes", "kind": "converter"}]',
            "no pulumi-resource-kubernetes on PATH",
        ),
        (("pulumi", "pulumi-language-python"), '[{"name": "kubernetes", "kind": "resource"}]', ""),
        (("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes"), "[]", ""),
    ],
)
def test_what_is_missing_is_named(tmp_path, monkeypatch, programs, listed, reason):
    for name in programs:
        program(tmp_path, name, f"echo '{listed}'")
    monkeypatch.setenv("PATH", str(tmp_path))
    said = missing_on_path()
    assert reason in said if reason else said == ""


def test_a_plugin_list_that_fails_is_quoted(tmp_path, monkeypatch):
    program(tmp_path, "pulumi-language-python")
    program(tmp_path, "pulumi", "echo 'error: no home directory' >&2; exit 255")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_on_path() == "pulumi plugin ls failed: error: no home directory"
