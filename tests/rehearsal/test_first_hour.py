"""The first hour of somebody who has a wheel and an empty home folder: README's commands, pasted in
order into one shell, on a machine without nginx, kubectl, git, Go and Pulumi, end with an answer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.documents.files import cache_directory
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
# A newcomer's machine has none of these.
ABSENT = ("nginx", "kubectl", "git", "go", "pulumi", "helm", "docker")
OF_THE_TESTS = ("PULUMI", "INFERPLAN", "KUBE", "VIRTUAL_ENV", "PYTEST", "PYTHON", "XDG_", "AWS_")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux, to hide programs in a mount namespace"),
]  # fmt: skip


def first_block() -> list[str]:
    """The commands of README's first console block, without comments."""
    block = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    return [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in block.splitlines()]


def test_readmes_first_commands_end_with_an_answer(tmp_path):
    install, *commands = first_block()
    assert install == 'uv tool install "dist/inferplan-0.1.0-py3-none-any.whl[gateway]"'
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")], cwd=ROOT, check=True, capture_output=True)  # fmt: skip
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").symlink_to(uv)
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    # The programs of the control plane would be downloaded or built once, which takes minutes.
    (home / ".cache" / "inferplan").symlink_to(cache_directory())
    folders = os.environ["PATH"].split(os.pathsep)
    hidden = [
        path
        for name in ABSENT
        for folder in (*folders, "/usr/sbin", "/usr/local/sbin", "/usr/local/bin")
        if (path := shutil.which(name, path=folder))
    ]
    masks = "\n".join(f"mount --bind /dev/null {path}" for path in sorted(set(hidden)))
    script = "\n".join(
        [
            "set -ex",
            masks,
            f"{install} --python {sys.executable} --constraints {ROOT / 'requirements.lock'}",
            *commands,
            "inferplan down local --cluster --yes --project acme-models",
        ]
    )
    cache = subprocess.run([uv, "cache", "dir"], check=True, capture_output=True, text=True)
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script],  # noqa: S607 - of util-linux
        cwd=tmp_path,
        env={
            # The way to the package index is this machine's own.
            **{key: value for key, value in os.environ.items() if not key.startswith(OF_THE_TESTS)},
            "HOME": str(home),
            "PATH": f"{tmp_path / 'bin'}:{home / '.local/bin'}:/usr/bin:/bin:/usr/sbin",
            "UV_CACHE_DIR": cache.stdout.strip(),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "This is the stub of qwen-3-8b" in done.stdout
    # Nothing asks for what the machine does not have.
    assert "not found" not in done.stderr
    assert "PASSPHRASE" not in done.stderr
