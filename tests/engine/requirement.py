"""Whether this machine can run the tests that need Pulumi's own engine, and the environment in
which it runs.

A complete Pulumi on PATH is used as it is: the CLI, its Python language host and a Kubernetes
provider. Without one, the tests run the programs that `python -m tests.engine.programs` has built,
with the language host of `language_host`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.engine.programs import CLI, PROVIDER, YAML, built_programs

HOST = Path(__file__).parent / "language_host" / "host.py"
QUIET = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}


def missing() -> str:
    """What this machine lacks, or "" if it has an engine on PATH or a built one."""
    lacks = missing_on_path()
    if not lacks or built_programs() is not None:
        return ""
    return f"{lacks}; nothing is built instead: run python -m tests.engine.programs"


def missing_on_path() -> str:
    """What PATH lacks: the CLI, its Python language host, or a Kubernetes provider that it would
    find.
    """
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        return "no pulumi on PATH; see https://www.pulumi.com/docs/install"
    if not _beside_or_on_path(pulumi, "pulumi-language-python"):
        return (
            f"pulumi is at {pulumi}, but pulumi-language-python is neither there nor on PATH;"
            " install the whole Pulumi CLI"
        )
    # An ambient plugin: Pulumi prefers a provider on PATH to every installed one, and `pulumi
    # plugin ls` does not list it.
    if shutil.which("pulumi-resource-kubernetes"):
        return ""
    listed = subprocess.run(
        [pulumi, "plugin", "ls", "--json"], capture_output=True, text=True, check=False
    )
    if listed.returncode:
        return f"pulumi plugin ls failed: {' '.join(listed.stderr.split())[-300:]}"
    if any(
        each["name"] == "kubernetes" and each["kind"] == "resource"
        for each in json.loads(listed.stdout or "[]")
    ):
        return ""
    install = f"pulumi plugin install resource kubernetes {version('pulumi-kubernetes')}"
    return (
        "no pulumi-resource-kubernetes on PATH, and pulumi plugin ls lists no resource plugin"
        f" kubernetes; install it with: {install}"
    )


def _beside_or_on_path(pulumi: str, program: str) -> bool:
    return (Path(pulumi).resolve().parent / program).exists() or shutil.which(program) is not None


@cache
def engine_variables(directory: Path) -> dict[str, str]:
    """Variables of an environment that finds the engine, whose programs and home are linked in the
    new folder `directory`.
    """
    programs = built_programs()
    if not missing_on_path() or programs is None:
        return QUIET
    folder, home = directory / "bin", directory / "home"
    folder.mkdir(parents=True)
    for name in (CLI, YAML):
        (folder / name).symlink_to(programs[name])
    host = folder / "pulumi-language-python"
    program = programs["pulumi-language-python-exec"]
    host.write_text(
        f'#!/bin/sh\nPULUMI_LANGUAGE_PYTHON_EXEC="{program}" exec "{sys.executable}" "{HOST}"'
        ' "$@"\n'
    )
    host.chmod(0o755)
    # Installed under the version that the SDK asks for, so that the CLI does not warn about another
    # one.
    plugin = home / "plugins" / f"resource-kubernetes-v{version('pulumi-kubernetes')}"
    plugin.mkdir(parents=True)
    (plugin / PROVIDER).symlink_to(programs[PROVIDER])
    return {**QUIET, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PULUMI_HOME": str(home)}


REASON = missing()
needs_pulumi = pytest.mark.skipif(bool(REASON), reason=REASON or "the engine is here")
