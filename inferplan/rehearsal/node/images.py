"""Images for a machine without a registry: made from packages of Debian and PyPI by the recipes of
`recipes.toml`, and imported into containerd under the names that a stack has.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inferplan.documents.files import cache_directory, disk_faults, read_json, write_atomically
from inferplan.errors import RehearsalError
from inferplan.images.catalogue import catalogue, family_of
from inferplan.progress import Progress, StepFinished, StepStarted
from inferplan.rehearsal.node import wheels
from inferplan.tables import table

RECIPES: dict[str, dict[str, Any]] = table("rehearsal/node/recipes.toml")
_PAYLOAD = Path(__file__).parent / "payload"
_SECONDS = 1800
_MERGED = ("bin", "sbin", "lib", "lib64")


def recipes_of(image: str) -> list[str]:
    """The recipes that stand for `image`, those of stubs last."""
    row = family_of(image)
    names = [
        name
        for name, recipe in RECIPES.items()
        if row is not None and any(catalogue()[each] is row for each in recipe["of"])
    ]
    return sorted(names, key=is_stub)


def recipe_of(image: str) -> str | None:
    """The recipe that stands for `image` on this machine, None if there is none: then it stays on
    fake nodes.
    """
    return next((each for each in recipes_of(image) if not reason_against(each)), None)


def is_stub(recipe: str) -> bool:
    """True if the image answers for a model without one."""
    return bool(RECIPES[recipe].get("stub"))


def reason_against(recipe: str) -> str:
    """Why this machine cannot make the image of `recipe`; "" if it can, or has it."""
    needed = RECIPES[recipe].get("disk_gigabytes", 0)
    folder = cache_directory() / "images"
    if not needed or any(folder.glob(f"{recipe}-*.tar")):
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    return wheels.reason_against(folder, needed)


def archives(images: Iterable[str], progress: Progress) -> Iterator[tuple[str, Path]]:
    """The archive of each of `images` that has a recipe, built if the cache lacks it. Raises
    RehearsalError.
    """
    for image in sorted(set(images)):
        if (name := recipe_of(image)) is not None:
            yield image, _archive(name, image, progress)


def _archive(name: str, image: str, progress: Progress) -> Path:
    recipe = RECIPES[name]
    sources = [(_PAYLOAD / each).read_bytes() for each in recipe.get("files", {}).values()]
    if packages := recipe.get("wheels"):
        sources.append((_PAYLOAD.parent / packages["lock"]).read_bytes())
        sources.append(Path(wheels.__file__).read_bytes())
    key = hashlib.sha256(json.dumps([recipe, image], sort_keys=True).encode() + b"".join(sources))
    path = cache_directory() / "images" / f"{name}-{key.hexdigest()[:24]}.tar"
    is_whole = not packages or (wheels.packages_folder() / path.stem).is_dir()
    if not (path.exists() and is_whole):
        step = f"make image {image.rpartition('/')[2]}"
        origin = "packages of Debian and PyPI, minutes" if packages else "Debian's packages"
        progress(StepStarted(step, 1, 1, f"once, from {origin}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk_faults(path.parent), TemporaryDirectory(dir=path.parent) as folder:
            _build(recipe, image, Path(folder), path)
        progress(StepFinished(step, 1, 1, 0.0, f"{path.stat().st_size / 1e6:.0f} MB"))
    return path


def _build(recipe: dict[str, Any], image: str, folder: Path, path: Path) -> None:
    root, packages = folder / "root", folder / "packages"
    for each in (root / "usr" / "lib64", root / "tmp", root / "etc", packages):
        each.mkdir(parents=True)
    for each in _MERGED:
        (root / "usr" / each).mkdir(exist_ok=True)
        (root / each).symlink_to(f"usr/{each}")
    (root / "tmp").chmod(0o1777)
    _run(["apt-get", "download", *recipe["packages"]], packages)
    for each in sorted(packages.iterdir()):
        files = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", each], stdout=subprocess.PIPE)  # noqa: S607 - Debian's own
        subprocess.run(
            ["tar", "-x", "--keep-directory-symlink", "-C", root],  # noqa: S607 - the system's own tool
            stdin=files.stdout,
            check=True,
        )
        files.wait()
    for each in recipe.get("tools", ()):
        (root / "usr" / "bin" / each).unlink(missing_ok=True)
        (root / "usr" / "bin" / each).symlink_to("busybox")
    for place, target in recipe.get("links", {}).items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).symlink_to(target)
    for place, source in recipe.get("files", {}).items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes((_PAYLOAD / source).read_bytes())
        (root / place).chmod(0o755)
    user = recipe["user"]
    (root / "etc" / "passwd").write_text(
        f"root:x:0:0::/:/bin/sh\nuser:x:{user}:{user}::/:/bin/sh\n"
    )
    (root / "etc" / "group").write_text(f"root:x:0:\nuser:x:{user}:\n")
    if packages := recipe.get("wheels"):
        _run(wheels.install_command(packages["lock"], root / wheels.FOLDER), folder)
        wheels.finish(root, packages)
        wheels.move_out(root, path.stem)
    _write_archive(root, recipe, image, folder, path)


def _write_archive(
    root: Path, recipe: dict[str, Any], image: str, folder: Path, path: Path
) -> None:
    """Write the format of `docker save`: one layer, its configuration and a manifest."""
    layer = folder / "layer.tar"
    order = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
    _run(["tar", "-c", *order, "-f", str(layer), "-C", str(root), "."], folder)
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}
    import platform

    configuration = {
        "architecture": machine.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": recipe["user"],
            "Entrypoint": recipe.get("entrypoint", ["/bin/sh"]),
            "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *recipe.get("env", ())],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    write_atomically(folder / "config.json", json.dumps(configuration).encode())
    write_atomically(folder / "manifest.json", json.dumps(manifest).encode())
    unfinished = path.with_suffix(".unfinished")
    with tarfile.open(unfinished, "w") as archive:
        for each in ("manifest.json", "config.json", "layer.tar"):
            archive.add(folder / each, each)
            (folder / each).unlink()
    unfinished.rename(path)


def import_images(
    socket: Path, images: Iterable[str], record: Path, progress: Progress
) -> list[str]:
    """Import the archives of `images` into the containerd at `socket`, except those that the file
    `record` names; return all that are there.
    """
    imported, here = read_json(record) or {}, []
    for image, path in archives(images, progress):
        if imported.get(image) != path.name:
            command = ["ctr", "-a", str(socket), "-n", "k8s.io", "images", "import", str(path)]
            _run(command, path.parent)
            write_atomically(record, json.dumps(imported := imported | {image: path.name}).encode())
        here.append(image)
    return here


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode and os.strerror(errno.ENOSPC).lower() in done.stderr.lower():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["it says nothing"]
        raise RehearsalError(
            f"{' '.join(command[:2])} failed: {words[-1]}",
            "run apt-get update, and try again" if command[0] == "apt-get" else "try again",
        )


def container_spec() -> bytes:
    """containerd's default for containers, with the packages of images."""
    done = subprocess.run(["ctr", "oci", "spec"], capture_output=True, check=True)  # noqa: S607 - the system's own tool
    spec = json.loads(done.stdout)
    source = str(wheels.packages_folder())
    mount = {
        "destination": wheels.MOUNT,
        "type": "bind",
        "source": source,
        "options": ["rbind", "ro"],
    }
    return json.dumps({**spec, "mounts": [*spec["mounts"], mount]}).encode()


def missing_programs() -> list[str]:
    """Return the programs that making images needs and this machine lacks."""
    return [each for each in ("apt-get", "dpkg-deb", "tar") if shutil.which(each) is None]
