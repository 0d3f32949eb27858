"""What a human sees while a model travels: a line every few seconds, the same as a JSON file and as metrics on the share.

It reports and never decides; a file of figures that cannot be written does not end a transfer.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from .errors import scrubbed
from .metrics import exposition

_WINDOW = 6
# Where the kubelet reads a container's last words from; only there in a pod, or where a test names another file.
_LAST_WORDS = "PREHEAT_LAST_WORDS"
_KUBELET_READS = "/dev/termination-log"
_KUBELET_KEEPS = 4096


class Progress:
    """Counts bytes from several threads and reports them every `interval` seconds while it is entered.

    `reports` is the directory of status/<job>.json and metrics/<job>.prom; without it nothing is written.
    """

    def __init__(self, job: str, reports: Path | None, interval: float) -> None:
        self._job = job
        self._reports = reports
        self._started = time.time()
        self._interval = interval
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report, name="progress", daemon=True)
        self._samples: list[tuple[float, int]] = []
        self.phase = "starting"
        self.file = ""
        self.total = 0
        self.present = 0
        self.moved = 0
        self._to_verify = 0
        self._verified = 0
        self._verifying = False
        self._files_left = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._fall_silent()

    def _fall_silent(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin(self, phase: str, total: int, present: int = 0) -> None:
        """Start counting a phase of `total` bytes, `present` of which are done already."""
        with self._lock:
            self._start(phase, total, present)
            self._to_verify, self._verified, self._verifying = 0, 0, False

    def await_files(self, count: int) -> None:
        """Tell how many files are left of `count`, which `add` counts down."""
        with self._lock:
            self._files_left = count

    def add(self, count: int, *, moved: bool = False, files: int = 0) -> None:
        """Count bytes as done, and with them whole files; `moved` when they came over the network."""
        with self._lock:
            self.present += count
            self._files_left = max(0, self._files_left - files)
            if moved:
                self.moved += count

    def expect(self, count: int) -> None:
        """Know of `count` more bytes that have to be verified."""
        with self._lock:
            self._to_verify += count
            self.total += count if self._verifying else 0

    def verified(self, count: int, *, moved: bool = False) -> None:
        """Count bytes as verified, behind those that are still copied; `moved` when they came over the network once more."""
        with self._lock:
            self._verified += count
            self.present += count if self._verifying else 0
            self.moved += count if moved else 0

    def verify(self) -> None:
        """Tell from now on how much is verified, since everything is copied."""
        with self._lock:
            self._start("verifying", self._to_verify, self._verified)
            self._verifying = True

    def _start(self, phase: str, total: int, present: int) -> None:
        self._files_left = 0
        self.phase, self.total, self.present = phase, total, present
        self._samples = [(time.monotonic(), present)]

    def say(self, message: str) -> None:
        """Print one line now."""
        sys.stdout.write(scrubbed(f"{self._job}: {message}\n"))
        sys.stdout.flush()

    def line(self) -> str:
        """The line of the moment: bytes, rate and time left, where bytes are what the phase is about."""
        with self._lock:
            if not self.total:
                return self.phase
            rate = self._rate()
            share = f" ({100 * self.present // self.total}%)"
            left = f", {duration((self.total - self.present) / rate)} left" if rate > 0 and self.total > self.present else ""
            files = f", {self._files_left} files left" if self._files_left else ""
            return f"{self.phase}: {size(self.present)} of {size(self.total)}{share}, {size(rate)}/s{left}{files}"

    def save(self, state: str, **more: Any) -> None:
        """Write the status file and the metrics: `state` is running, ready, failed or stopped."""
        if self._reports is None:
            return
        now = time.time()
        with self._lock:
            rate = self._rate()
            document = {
                "job": self._job,
                "state": state,
                "phase": self.phase,
                "bytes": self.present,
                "total": self.total,
                "moved": self.moved,
                "bytesPerSecond": round(rate),
                "secondsLeft": round((self.total - self.present) / rate) if rate > 0 else None,
                "updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
                **more,
            }
        replace(self._reports / "status" / f"{self._job}.json", json.dumps(document, indent=1) + "\n")
        seconds = {"startedSeconds": round(self._started), "updatedSeconds": round(now)}
        replace(self._reports / "metrics" / f"{self._job}.prom", exposition({**document, **seconds}))

    def end(self, state: str, message: str, *, code: int, **more: Any) -> None:
        """Say how the run ended: in the log, the status file, the metrics, and as the container's last words. Nothing is reported after it."""
        # A report that is still being written would take the place of this one.
        self._fall_silent()
        self.say(message)
        self.save(state, exitCode=code, **more)
        words = os.environ.get(_LAST_WORDS, _KUBELET_READS)
        with contextlib.suppress(OSError), Path(words).open("r+", encoding="utf-8") as stream:
            stream.write(scrubbed(message)[:_KUBELET_KEEPS])

    def _rate(self) -> float:
        now = time.monotonic()
        self._samples = [*self._samples[-_WINDOW:], (now, self.present)]
        (then, before), (_, present) = self._samples[0], self._samples[-1]
        return (present - before) / (now - then) if now > then else 0.0

    def _report(self) -> None:
        while not self._stop.wait(self._interval):
            self.say(self.line())
            self.save("running")


def replace(path: Path, text: str) -> None:
    """Put `text` at `path` in one step; where that fails, leave what was there."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def size(count: float) -> str:
    """Bytes as a human reads them."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(len(units) - 1, max(0, int(count).bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.{1 if power else 0}f} {units[power]}"


def duration(seconds: float) -> str:
    """Seconds as a human reads them."""
    whole = math.ceil(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
