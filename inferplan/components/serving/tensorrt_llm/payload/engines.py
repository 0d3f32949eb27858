"""Builds TensorRT-LLM engines on a card, once, and puts them on the share behind a READY file; run as a module.

It runs inside the model's own image, beside the preheat's program, whose lock, staging and READY file it uses. What is READY already
is left alone. Nothing is published unless every rank has its engine and the engines say that they are of this many ranks.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ....preheat.payload.checksums import digest
from ....preheat.payload.disk import sync
from ....preheat.payload.errors import Exit, PreheatError, Stopped, scrubbed
from ....preheat.payload.lease import workspace
from ....preheat.payload.manifest import Entry, Manifest, walk
from ....preheat.payload.request import Request
from ....preheat.payload.rounds import ready_state

VARIABLE = "ENGINE_REQUEST"


class Build:
    """One build. `stop` ends the program that runs, with nothing published."""

    def __init__(self, asked: dict[str, Any], stop: threading.Event) -> None:
        self._asked = asked
        self._stop = stop
        target = Path(asked["target"])
        self._request = Request(
            kind="local",
            root=asked["weights"],
            target=target,
            directory=asked["directory"],
            job=asked["job"],
            keep=asked["keep"],
            revision=asked["key"],
        )
        self._source = f"engines of {asked['source']}"

    def run(self) -> Manifest:
        """Make the directory READY. Raises PreheatError with the reason, Stopped when told to, OSError when the share fails."""
        with workspace(self._request, self._stop, lambda holder: _say(f"waiting: {holder} builds the same engines")) as work:
            self._staging, rounds = work.staging, work.rounds
            state = ready_state(self._request, self._source)
            manifest = state.manifest
            if manifest is not None:
                _say("these engines are there already")
                return manifest
            for problem in state.problems:
                _say(f"damaged, so it is built again: {problem}")
            if state.wrong:
                rounds.withdraw()
            manifest = self._make()
            rounds.publish(manifest)
            for name in rounds.collect():
                _say(f"removed round {name}")
            return manifest

    def _make(self) -> Manifest:
        checkpoint, engines = self._staging.root / "checkpoint", self._staging.files
        # A build leaves nothing that a next one could use.
        for staged in (engines, self._staging.stale):
            shutil.rmtree(staged)
            staged.mkdir()
        checkpoint.mkdir()
        self._call(
            "converting the weights", [sys.executable, str(self._converter()), *self._asked["convert"], f"--output_dir={checkpoint}"]
        )
        if shutil.which("trtllm-build") is None:
            remedy = "name an image of an earlier release, or remove build, so that the LLM API serves the weights as they are"
            raise PreheatError(Exit.REFUSED, "this image has no trtllm-build", remedy)
        build = ["trtllm-build", f"--checkpoint_dir={checkpoint}", f"--output_dir={engines}", *self._asked["build"]]
        self._call("building the engines", build)
        shutil.rmtree(checkpoint)
        self._check(engines)
        return self._manifest(engines)

    def _converter(self) -> Path:
        family = self._asked["family"]
        places = [Path(root) / family / "convert_checkpoint.py" for root in self._asked["examples"]]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            known = sorted({path.parent.name for root in self._asked["examples"] for path in Path(root).glob("*/convert_checkpoint.py")})
            remedy = f"write one of {', '.join(known)} as build.modelFamily" if known else "name another image, or remove build"
            raise PreheatError(Exit.REFUSED, f"this image cannot convert models of family {family}", remedy, file=str(places[0]))
        return found

    def _call(self, what: str, command: list[str]) -> None:
        """Runs a program with its output in the log, and ends it when told to stop."""
        _say(f"{what}: {' '.join(command)}")
        process = subprocess.Popen(command, cwd=self._staging.root, start_new_session=True)
        while process.poll() is None:
            if self._stop.wait(0.2):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise Stopped
        if process.returncode:
            remedy = "its last lines above say why; correct build.convertArgs, build.buildArgs or the sizes, or give the Job more memory"
            raise PreheatError(Exit.REFUSED, f"{what} failed with exit code {process.returncode}", remedy, file=Path(command[0]).name)

    def _check(self, engines: Path) -> None:
        """Raise PreheatError(REFUSED) unless each rank has its engine, and the engines are of that many ranks."""
        ranks = self._asked["ranks"]
        for name in ["config.json", *(f"rank{rank}.engine" for rank in range(ranks))]:
            if not (engines / name).is_file() or not (engines / name).stat().st_size:
                raise PreheatError(Exit.REFUSED, "trtllm-build ended well and left this file out", "look at its log above", file=name)
        try:
            mapping = json.loads((engines / "config.json").read_text())["pretrained_config"]["mapping"]
            built = int(mapping["world_size"])
        except (ValueError, KeyError, TypeError):
            raise PreheatError(
                Exit.REFUSED, "the engines do not say how many ranks they have", "name another image", file="config.json"
            ) from None
        if built != ranks:
            remedy = (
                "tensorParallelSize x pipelineParallelSize has to reach convert_checkpoint.py; remove what contradicts it in convertArgs"
            )
            raise PreheatError(Exit.REFUSED, "the engines are of another number of ranks", remedy, expected=str(ranks), found=str(built))

    def _manifest(self, engines: Path) -> Manifest:
        entries = []
        for path, _ in sorted(walk(engines), key=lambda each: each[0]):
            (engines / path).chmod(0o644)
            sync(engines / path)
            sha256 = digest(engines / path).sha256
            status = (engines / path).stat()
            entries.append(
                Entry(
                    path=path,
                    size=status.st_size,
                    sha256=sha256,
                    mtime_ns=status.st_mtime_ns,
                    evidence="built here",
                    origin=self._asked["key"],
                )
            )
        return Manifest(content=self._request.content, source=self._source, revision=self._asked["key"], entries=tuple(entries))


def main() -> int:
    """Build what the environment asks for; the exit code."""
    os.umask(0o022)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        manifest = Build(json.loads(os.environ[VARIABLE]), stop).run()
    except PreheatError as failure:
        _say(f"not READY: {failure}")
        return failure.code
    except Stopped:
        _say("stopped as asked; the next run builds anew")
        return Exit.STOPPED
    except OSError as error:
        _say(f"not READY: the share failed at {error.filename}: {error.strerror}; look at the share, its room and who may write to it")
        return Exit.TARGET
    _say(f"READY: {len(manifest.entries)} files, {manifest.bytes} bytes")
    return Exit.READY


def _say(message: str) -> None:
    sys.stdout.write(scrubbed(f"{message}\n"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
