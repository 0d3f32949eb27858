"""A rehearsal on a system that has neither /proc nor pidfds, like macOS, with spaces in every
path: it starts, answers, is repaired after a kill, and leaves no process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.documents.files import cache_directory
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.cluster, pytest.mark.full]
OF_THE_TESTS = ("PULUMI", "INFERPLAN", "KUBE", "PYTEST", "PYTHON", "XDG_")
# Python imports it at its start. Programs that are not Python, such as ps, see the real system.
SITE = '''
import os, signal, sys

for module, name in ((os, "pidfd_open"), (os, "splice"), (os, "copy_file_range"), (signal, "pidfd_send_signal")):
    if hasattr(module, name):
        delattr(module, name)


def missing(path):
    if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))


def without_proc(real):
    def call(path, *arguments, **options):
        missing(path)
        return real(path, *arguments, **options)
    return call


def opened(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        missing(arguments[0])


sys.addaudithook(opened)
os.stat, os.readlink = without_proc(os.stat), without_proc(os.readlink)
'''  # fmt: skip


@pytest.fixture
def system(tmp_path):
    folder = tmp_path / "Ann's files"
    for name in ("home", "temporary files", "site"):
        (folder / name).mkdir(parents=True)
    (folder / "site" / "sitecustomize.py").write_text(SITE)
    (folder / "home" / ".cache").mkdir()
    (folder / "home" / ".cache" / "inferplan").symlink_to(cache_directory())
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(OF_THE_TESTS)},
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "temporary files"),
        "PYTHONPATH": str(folder / "site"),
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            [Path(sys.executable).with_name("inferplan"), *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run, folder


def _processes(folder: Path) -> dict[int, str]:
    listed = subprocess.run(
        [shutil.which("ps") or "ps", "-axww", "-o", "pid=,command="], check=True, capture_output=True, text=True
    )  # fmt: skip
    rows = (line.split(None, 1) for line in listed.stdout.splitlines() if str(folder) in line)
    return {int(pid): command for pid, command in rows}


def test_a_rehearsal_needs_no_proc_and_takes_any_path(system):
    inferplan, folder = system
    shown = subprocess.run([sys.executable, "-c", "import os; print(os.path.exists('/proc/self'), hasattr(os, 'pidfd_open'))"], env={"PYTHONPATH": str(folder / "site")}, capture_output=True, text=True, check=True)  # fmt: skip
    assert shown.stdout.split() == ["False", "False"]
    inferplan("init", "my platform", "--where", "local", "--accelerator", "nvidia-l4", "--model", "qwen-3-8b", "--consumer", "web")  # fmt: skip
    here = ("--project", "my platform")
    inferplan("up", "local", "--engine", "rehearsal", *here)
    assert "This is the stub of qwen-3-8b" in inferplan("call", "qwen-3-8b", "hello", "--stack", "local", *here)  # fmt: skip
    etcd = [pid for pid, line in _processes(folder).items() if "/etcd " in line]
    assert len(etcd) == 1
    os.kill(etcd[0], signal.SIGKILL)
    inferplan("up", "local", "--engine", "rehearsal", *here)
    inferplan("status", "local", *here)
    inferplan("down", "local", "--engine", "rehearsal", "--cluster", "--yes", *here)
    assert _processes(folder) == {}
