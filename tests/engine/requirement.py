"""Whether this machine can run the tests that need Pulumi's own engine, and what it lacks otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest


def missing() -> str:
    if shutil.which("pulumi") is None:
        return "no pulumi on PATH; see https://www.pulumi.com/docs/install"
    listed = subprocess.run(["pulumi", "plugin", "ls", "--json"], capture_output=True, text=True, check=False)  # noqa: S607 - the user's own CLI
    if listed.returncode or not any(each["name"] == "kubernetes" for each in json.loads(listed.stdout or "[]")):
        return "pulumi has no kubernetes provider plugin; install it with: pulumi plugin install resource kubernetes"
    return ""


REASON = missing()
needs_pulumi = pytest.mark.skipif(bool(REASON), reason=REASON or "the engine is here")
