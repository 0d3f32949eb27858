"""Python packages of images: installed from a lock file, without the libraries of CUDA that PyTorch
on PyPI links to and that nothing calls on CPUs.
"""

import mmap
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from inferplan.documents.files import cache_directory
from inferplan.errors import RehearsalError

FOLDER: Final = "usr/local/lib/python3.11/dist-packages"
MOUNT: Final = "/opt/rehearsal-packages"
_PYTHON: Final = "3.11"
_HERE: Final = Path(__file__).parent
# ELF64, little-endian: the headers of sections, and entries of the table of dynamic symbols.
_MAGIC, _DYNAMIC_SYMBOLS, _SYMBOL, _GLOBAL, _WEAK = b"\x7fELF\x02\x01", 11, 24, 1, 2


def install_command(lock: str, target: Path) -> list[str]:
    """The command that installs the packages of `lock` below `target`, by their hashes."""
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet"]
    options += ["--python-version", _PYTHON, "--target", str(target), "-r", str(_HERE / lock)]
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        where = ["--python-platform", "x86_64-manylinux_2_36", "--link-mode", "copy"]
        return [str(uv), "pip", "install", *where, *options]
    where = ["--platform", "linux_x86_64"]
    for minor in (36, 34, 31, 28, 27, 24, 17, 12, 5):
        where += ["--platform", f"manylinux_2_{minor}_x86_64"]
    old = [word for year in (2014, 2010, 1) for word in ("--platform", f"manylinux{year}_x86_64")]
    return [sys.executable, "-m", "pip", "install", "--ignore-installed", *where, *old, *options]


def finish(root: Path, recipe: Mapping[str, Any]) -> None:
    """Leave out what the `recipe` drops, name packages as their programs look them up, and let the
    linker accept libraries without the symbols of CUDA.
    """
    site = root / FOLDER
    for pattern in recipe["drop"]:
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, (other, version) in recipe["also"].items():
        [source] = site.glob(f"{name}-*.dist-info")
        copy = shutil.copytree(source, site / f"{other}-{version}.dist-info")
        lines = (copy / "METADATA").read_text(encoding="utf-8").splitlines()
        changed = {"Name": other, "Version": version}
        kept = [
            f"{key}: {changed[key]}" if key in changed else line
            for line in lines
            for key in [line.partition(":")[0]]
        ]
        (copy / "METADATA").write_text("\n".join(kept), encoding="utf-8")
    for pattern in recipe["weaken"]:
        for path in site.glob(pattern):
            weaken(path)
    for each in recipe["absent"]:
        # Any library without versioned symbols satisfies the linker.
        (site / recipe["absent_in"] / each).symlink_to("/lib/x86_64-linux-gnu/libbz2.so.1.0")
    compiled = ["/usr/bin/python3.11", "-m", "compileall", "-q"]
    # The root of a container is read-only: without bytecode each start compiles everything.
    subprocess.run(
        ["chroot", root, *compiled, "--invalidation-mode", "unchecked-hash", f"/{FOLDER}"],  # noqa: S607 - the system's own tool
        check=False,  # packages have templates with the suffix of Python files
        capture_output=True,
    )
    if not any(site.glob("*/__pycache__")):
        raise RehearsalError("the packages of the image were not compiled", "try again")


def packages_folder() -> Path:
    """The folder of installed packages, which every container of a real node sees: they are not
    copied into the store of images, which takes a minute for each new node.
    """
    folder = cache_directory() / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def move_out(root: Path, name: str) -> None:
    """Move the packages of `root` to the `name` in the folder of packages."""
    target = packages_folder() / name
    shutil.rmtree(target, ignore_errors=True)
    (root / FOLDER).rename(target)


def link(root: Path, name: str) -> None:
    """Let `root` have the packages that containers see below the name."""
    (root / FOLDER).parent.mkdir(parents=True, exist_ok=True)
    (root / FOLDER).symlink_to(f"{MOUNT}/{name}")


def weaken(path: Path) -> None:
    """Make the undefined symbols of a shared library weak: the linker then accepts that no library
    defines them. A call of one ends the process.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as image:
        if image[:6] != _MAGIC:
            return
        [sections] = struct.unpack_from("<Q", image, 40)
        size, count = struct.unpack_from("<HH", image, 58)
        for start in range(sections, sections + size * count, size):
            _, kind, _, _, place, length = struct.unpack_from("<IIQQQQ", image, start)
            if kind != _DYNAMIC_SYMBOLS:
                continue
            for symbol in range(place, place + length, _SYMBOL):
                info, _, section = struct.unpack_from("<BBH", image, symbol + 4)
                if section == 0 and info >> 4 == _GLOBAL:
                    image[symbol + 4] = _WEAK << 4 | info & 15


def reason_against(folder: Path, gigabytes: int) -> str:
    """Why this machine cannot make or run the image of a CPU build; "" if it can. `folder` is on the
    disk that needs the `gigabytes`.
    """
    if platform.machine() != "x86_64":
        return f"its packages are for x86_64, and this machine is {platform.machine()}"
    if "avx2" not in _flags():
        return "its programs need a processor with AVX2"
    free = shutil.disk_usage(folder).free // 10**9
    return f"it needs {gigabytes} GB of disk, and {folder} has {free}" if free < gigabytes else ""


def _flags() -> Iterable[str]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split() for line in lines if line.startswith("flags")), [])
