"""Whether this machine can run the tests that need Pulumi's own engine, and what it lacks otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest


def missing() -> str:
    """What is missing, "" where nothing is: the CLI, its Python language host, or a Kubernetes provider that it would find."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        return "no pulumi on PATH; see https://www.pulumi.com/docs/install"
    if not _beside_or_on_path(pulumi, "pulumi-language-python"):
        return f"pulumi is at {pulumi}, but pulumi-language-python is neither there nor on PATH; install the whole Pulumi CLI"
    # An ambient plugin: Pulumi prefers a provider on PATH to every installed one, and `pulumi plugin ls` does not list it.
    if shutil.which("pulumi-resource-kubernetes"):
        return ""
    listed = subprocess.run([pulumi, "plugin", "ls", "--json"], capture_output=True, text=True, check=False)
    if listed.returncode:
        return f"pulumi plugin ls failed: {' '.join(listed.stderr.split())[-300:]}"
    if any(each["name"] == "kubernetes" and each["kind"] == "resource" for each in json.loads(listed.stdout or "[]")):
        return ""
    install = f"pulumi plugin install resource kubernetes {version('pulumi-kubernetes')}"
    return f"no pulumi-resource-kubernetes on PATH, and pulumi plugin ls lists no resource plugin kubernetes; install it with: {install}"


def _beside_or_on_path(pulumi: str, program: str) -> bool:
    return (Path(pulumi).resolve().parent / program).exists() or shutil.which(program) is not None


REASON = missing()
needs_pulumi = pytest.mark.skipif(bool(REASON), reason=REASON or "the engine is here")
