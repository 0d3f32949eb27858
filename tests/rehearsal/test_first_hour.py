"""The first hour of a newcomer with a wheel and an empty home folder: README's commands, pasted in
order into one shell, on a machine without nginx, kubectl, git, Go and Pulumi, end with an answer.
The full lane does it in a root of its own, which has what Debian calls minimal, Python and make.
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


def block_of_readme(number: int) -> list[str]:
    """The commands of a console block of README, without comments."""
    block = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[number]
    return [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in block.splitlines()]


def build_wheel(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True)  # fmt: skip


def cache_of_uv() -> str:
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run([uv, "cache", "dir"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_readmes_first_commands_end_with_an_answer(tmp_path):
    install, *commands = block_of_readme(0)
    assert install == 'uv tool install "dist/inferplan-0.1.0-py3-none-any.whl[gateway]"'
    uv = Path(sys.executable).with_name("uv")
    build_wheel(tmp_path / "dist")
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
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script],  # noqa: S607 - of util-linux
        cwd=tmp_path,
        env={
            # The way to the package index is this machine's own.
            **{key: value for key, value in os.environ.items() if not key.startswith(OF_THE_TESTS)},
            "HOME": str(home),
            "PATH": f"{tmp_path / 'bin'}:{home / '.local/bin'}:/usr/bin:/bin:/usr/sbin",
            "UV_CACHE_DIR": cache_of_uv(),
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


@pytest.fixture(scope="module")
def empty_root(tmp_path_factory):
    """The root folder of a machine on which nothing was installed but Python and make, with the
    committed files of this checkout and the wheel. Programs of the control plane are there.
    """
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap, which ./setup.sh --tests installs on Debian")
    root = tmp_path_factory.mktemp("root")
    release = re.findall(r"(?m)^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    packages = "python3,python3-venv,make,ca-certificates"
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", *release, str(root)], check=True, capture_output=True)  # noqa: S607 - of Debian # fmt: skip
    for name in ("/etc/ssl/certs/ca-certificates.crt", "/etc/resolv.conf", "/etc/hosts"):
        shutil.copy(name, f"{root}{name}")
    shutil.copy(Path(sys.executable).with_name("uv"), root / "usr/local/bin/uv")
    clone = root / "srv" / "clone"
    clone.mkdir()
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)  # noqa: S607 - of the developer
    subprocess.run(["tar", "-x"], cwd=clone, input=files.stdout, check=True)  # noqa: S607 - of Debian
    build_wheel(root / "srv" / "dist")
    yield root
    shutil.rmtree(root)


@pytest.mark.full
@pytest.mark.parametrize(
    ("folder", "number", "count", "last"),
    [
        ("srv", 0, 4, "inferplan down local --cluster --yes --project acme-models"),
        ("srv/clone", 1, 1, "make down"),
    ],
    ids=["wheel", "clone"],
)
def test_readmes_commands_work_in_an_empty_root(empty_root, folder, number, count, last):
    caches = {"/root/.cache/inferplan": str(cache_directory()), "/root/.cache/uv": cache_of_uv()}
    mounts = [f"mkdir -p {empty_root}{inside} && mount --bind {own} {empty_root}{inside}" for inside, own in caches.items()]  # fmt: skip
    way = ("SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "UV_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")  # fmt: skip
    environment = [f"{name}={os.environ[name]}" for name in way if name in os.environ]
    commands = block_of_readme(number)[:count]
    script = "\n".join(
        ["set -ex", f"cd /{folder}", 'PATH="$PATH:/root/.local/bin"', *commands, last]
    )
    outside = "\n".join(
        [
            "set -e",
            *mounts,
            f"mount --rbind /dev {empty_root}/dev",
            f'exec unshare --pid --fork --mount-proc={empty_root}/proc chroot {empty_root} env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" bash -c "$SCRIPT"',
        ]
    )
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", outside, "outside", *environment],  # noqa: S607 - of util-linux
        env={**os.environ, "SCRIPT": script},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "This is the stub of" in done.stdout
    assert "is gone, and everything in it" in done.stdout + done.stderr
    assert "not found" not in done.stderr
