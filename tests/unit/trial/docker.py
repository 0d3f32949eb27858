"""The stub of docker on PATH, and images for it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trial import docker_stub


@dataclass(frozen=True)
class Docker:
    """The directory of a stub of docker."""

    root: Path

    def image(self, name: str, packages: dict[str, str], **programs: str) -> Path:
        """An image with the modules `packages` of Python, by their path, and with `programs`."""
        directory = self.root / "images" / re.sub(r"[/:]", "_", name)
        (directory / "bin").mkdir(parents=True)
        (directory / "site").mkdir()
        for path, text in packages.items():
            file = directory / "site" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for program, text in {"python3": f'exec {sys.executable} "$@"', **programs}.items():
            file = directory / "bin" / program
            file.write_text(f"#!/bin/sh\n{text}\n")
            file.chmod(0o755)
        return directory

    @property
    def containers(self) -> list[str]:
        return sorted(each.name for each in (self.root / "containers").glob("*"))

    @property
    def last_run(self) -> list[str]:
        """The words of the last `docker run`."""
        words: Any = json.loads((self.root / "last-run").read_text())
        return words

    @property
    def last_client(self) -> dict[str, str]:
        """The variables of the client in the last `docker run`."""
        variables: Any = json.loads((self.root / "last-client").read_text())
        return variables


def installed(root: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """The stub as `docker` on PATH, before everything else."""
    root.mkdir()
    program = root / "docker"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {docker_stub.__file__} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("STUB_DOCKER", str(root))
    monkeypatch.setenv("PATH", f"{root}:/usr/bin:/bin")
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(root / "state"))
    return Docker(root)
