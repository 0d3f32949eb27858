"""A stub of docker for tests: images and containers are directories below STUB_DOCKER, and the
program of a container runs here, with the variables of its image and of `run` alone.

An image NAME is images/NAME with a `bin` on its PATH and a `site` of Python packages. The loopback of
containers is 127.0.0.2. Files that a test writes: `down` (the daemon does not answer), `pull` (the
error of the registry) and `start` (the exit code and the error of `run`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ROOT = Path(os.environ.get("STUB_DOCKER", "nowhere"))
SHARED = ROOT / "containers"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(message)


def fail(message: str, status: int = 125) -> NoReturn:
    print(f"docker: {message}", file=sys.stderr)
    sys.exit(status)


def image_directory(name: str) -> Path:
    return ROOT / "images" / re.sub(r"[/:]", "_", name)


def environment_of(image: str) -> dict[str, str]:
    directory = image_directory(image)
    return {"PATH": f"{directory / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(directory / "site")}


def inside(text: str) -> str:
    return text.replace("127.0.0.1", "127.0.0.2")


def fail_to_start() -> None:
    if (ROOT / "start").exists():
        status, _, message = (ROOT / "start").read_text().partition(" ")
        fail(message, int(status))


def run(words: list[str]) -> int:
    parser = Parser(prog="docker run", allow_abbrev=False)
    for name in ("name", "label", "user", "workdir", "pids-limit", "shm-size", "entrypoint"):
        parser.add_argument(f"--{name}", required=True)
    for name, allowed in (("network", "none"), ("pull", "never"), ("cap-drop", "ALL")):
        parser.add_argument(f"--{name}", required=True, choices=[allowed])
    for name in ("memory", "memory-swap", "gpus"):
        parser.add_argument(f"--{name}")
    for name in ("mount", "env", "security-opt"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(words)
    fail_to_start()
    if not image_directory(options.image).is_dir():
        fail(f"No such image: {options.image}")
    for mount in options.mount:
        source = dict(each.partition("=")[::2] for each in mount.split(","))["source"]
        if not Path(source).exists():
            fail(f"invalid mount config: bind source path does not exist: {source}")
    environment = environment_of(options.image)
    for each in options.env:
        name, is_value, value = each.partition("=")
        if is_value or name in os.environ:
            environment[name] = value if is_value else os.environ[name]
    process = subprocess.Popen(
        [options.entrypoint, *map(inside, options.arguments)],
        env=environment,
        cwd=options.workdir,
        start_new_session=True,
    )
    record = {"pid": process.pid, "image": options.image, "label": options.label, "words": words}
    SHARED.mkdir(exist_ok=True)
    unfinished = ROOT / f"{options.name}.unfinished"
    unfinished.write_text(json.dumps(record))
    unfinished.rename(SHARED / options.name)
    (ROOT / "last-run").write_text(json.dumps(words))
    (ROOT / "last-client").write_text(json.dumps(dict(os.environ)))
    status = process.wait()
    return 128 - status if status < 0 else status


def execute(words: list[str]) -> int:
    parser = Parser(prog="docker exec", allow_abbrev=False)
    parser.add_argument("--interactive", action="store_true", required=True)
    parser.add_argument("name")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(words)
    container = SHARED / options.name
    if not container.exists():
        fail(f"No such container: {options.name}", 1)
    program, path, *others = options.arguments
    command = [program, "-c", inside(Path(path).read_text(encoding="utf-8")), *others]
    image = json.loads(container.read_text())["image"]
    return subprocess.run(command, env=environment_of(image), check=False).returncode


def remove(words: list[str]) -> int:
    *options, name = words
    if options != ["--force", "--volumes"]:
        fail(f"unknown options: {options}")
    container = SHARED / name
    if container.exists():
        with suppress(ProcessLookupError):
            os.killpg(json.loads(container.read_text())["pid"], signal.SIGKILL)
        container.unlink()
    return 0


def listed(words: list[str]) -> int:
    scope, condition, form = words
    if (scope, form) != ("--all", "--format={{.Names}}"):
        fail(f"unknown options: {words}")
    label = condition.removeprefix("--filter=label=")
    for container in SHARED.glob("*"):
        if json.loads(container.read_text())["label"] == label:
            print(container.name)
    return 0


def main(command: str, *words: str) -> int:
    if (ROOT / "down").exists():
        fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", 1)
    match command, words:
        case "run", _:
            return run([*words])
        case "exec", _:
            return execute([*words])
        case "rm", _:
            return remove([*words])
        case "ps", _:
            return listed([*words])
        case "info", ("--format={{.SecurityOptions}}",):
            print("[name=seccomp,profile=builtin]")
        case "image", ("inspect", name):
            return 0 if image_directory(name).is_dir() else 1
        case "pull", ("--quiet", name):
            if (ROOT / "pull").exists():
                fail((ROOT / "pull").read_text(), 1)
            image_directory(name).mkdir(parents=True)
        case _:
            fail(f"unknown command: {command} {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
