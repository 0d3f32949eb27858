"""What a human sees while a model travels: a line every few seconds, and the same as a JSON file on the share.

It reports and never decides; a status file that cannot be written does not end a transfer.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from .outcome import scrubbed

_WINDOW = 6


class Progress:
    """Counts bytes from several threads and reports them every `interval` seconds while it is entered."""

    def __init__(self, job: str, status: Path | None, interval: float) -> None:
        self._job = job
        self._status = status
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

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def begin(self, phase: str, total: int, present: int = 0) -> None:
        """Start counting a phase of `total` bytes, `present` of which are done already."""
        with self._lock:
            self.phase, self.total, self.present = phase, total, present
            self._samples = [(time.monotonic(), present)]

    def add(self, count: int, *, moved: bool = False) -> None:
        """Count bytes as done; `moved` when they came over the network."""
        with self._lock:
            self.present += count
            if moved:
                self.moved += count

    def say(self, message: str) -> None:
        """Print one line now."""
        sys.stdout.write(scrubbed(f"{self._job}: {message}\n"))
        sys.stdout.flush()

    def line(self) -> str:
        """The line of the moment: bytes, rate and time left."""
        with self._lock:
            rate = self._rate()
            share = f" ({100 * self.present // self.total}%)" if self.total else ""
            left = f", {duration((self.total - self.present) / rate)} left" if rate > 0 and self.total > self.present else ""
            return f"{self.phase}: {size(self.present)} of {size(self.total)}{share}, {size(rate)}/s{left}"

    def save(self, state: str, **more: Any) -> None:
        """Write the status file: `state` is running, ready, failed or stopped."""
        if self._status is None:
            return
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
                "updated": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                **more,
            }
        replace(self._status, json.dumps(document, indent=1) + "\n")

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
