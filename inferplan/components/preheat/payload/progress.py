"""Progress of a run: a log line every few seconds, and the same as a JSON file and as Prometheus metrics on the share.

A report that cannot be written does not end a transfer. The metrics are for the textfile collector of node-exporter: one file
per model, replaced in one step, without time stamps (which that collector rejects), and with bounded labels only.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from .errors import scrubbed

_WINDOW = 6
# The kubelet reads a container's termination message from this file, which only exists in a pod.
_MESSAGE_VARIABLE, _MESSAGE_FILE, _MESSAGE_LENGTH = "PREHEAT_TERMINATION_LOG", "/dev/termination-log", 4096
STATES = ("running", "ready", "failed", "stopped")
_PREFIX = "inferplan_preheat"
# Name, help, and where the status document has it.
_GAUGES = (
    ("bytes", "Bytes of the model that the current phase has copied or verified.", "bytes"),
    ("total_bytes", "Bytes of the model that the current phase works on.", "total"),
    ("moved_bytes", "Bytes that this run moved over the network.", "moved"),
    ("bytes_per_second", "Rate of the current phase over the last seconds.", "bytesPerSecond"),
    ("start_timestamp_seconds", "When this run started.", "startedSeconds"),
    ("update_timestamp_seconds", "When these figures were written.", "updatedSeconds"),
    ("files", "Files of the model, once it is READY.", "files"),
    ("exit_code", "How the run ended: 0 is READY, the others are listed in docs/preheat.md.", "exitCode"),
)


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
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin(self, phase: str, total: int, present: int = 0) -> None:
        """Start a phase of `total` bytes, of which `present` are done already."""
        with self._lock:
            self._start(phase, total, present)
            self._to_verify, self._verified, self._verifying = 0, 0, False

    def await_files(self, count: int) -> None:
        """Report how many of `count` files are left; `add` counts them down."""
        with self._lock:
            self._files_left = count

    def add(self, count: int, *, moved: bool = False, files: int = 0) -> None:
        """Count bytes, and whole files, as done; `moved` if they came over the network."""
        with self._lock:
            self.present += count
            self._files_left = max(0, self._files_left - files)
            if moved:
                self.moved += count

    def expect(self, count: int) -> None:
        """Add `count` bytes to those to verify."""
        with self._lock:
            self._to_verify += count
            self.total += count if self._verifying else 0

    def verified(self, count: int, *, moved: bool = False) -> None:
        """Count bytes as verified; `moved` if they came over the network for that."""
        with self._lock:
            self._verified += count
            self.present += count if self._verifying else 0
            self.moved += count if moved else 0

    def verify(self) -> None:
        """Report verified instead of copied bytes from now on."""
        with self._lock:
            self._start("verifying", self._to_verify, self._verified)
            self._verifying = True

    def _start(self, phase: str, total: int, present: int) -> None:
        self._files_left = 0
        self.phase, self.total, self.present = phase, total, present
        self._samples = [(time.monotonic(), present)]

    @property
    def left(self) -> int:
        """The bytes of the current phase that are not done."""
        return max(0, self.total - self.present)

    def say(self, message: str) -> None:
        sys.stdout.write(scrubbed(f"{self._job}: {message}\n"))
        sys.stdout.flush()

    def line(self) -> str:
        """The current log line: phase, bytes, rate and time left."""
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
        seconds = {"startedSeconds": round(self._started), "updatedSeconds": round(now)}
        replace(self._reports / "status" / f"{self._job}.json", json.dumps(document, indent=1) + "\n")
        replace(self._reports / "metrics" / f"{self._job}.prom", exposition({**document, **seconds}))

    def end(self, state: str, message: str, *, code: int, **more: Any) -> None:
        """Report the end of the run in the log, the status file, the metrics and the container's termination message."""
        # A report that is still being written would replace this one.
        self.__exit__()
        self.say(message)
        self.save(state, exitCode=code, **more)
        log = os.environ.get(_MESSAGE_VARIABLE, _MESSAGE_FILE)
        with contextlib.suppress(OSError), Path(log).open("r+", encoding="utf-8") as stream:
            stream.write(scrubbed(message)[:_MESSAGE_LENGTH])

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
    """Replace the file `path` by `text` in one step; if that fails, leave it unchanged."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def size(count: float) -> str:
    """Bytes for a human reader."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(len(units) - 1, max(0, int(count).bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.{1 if power else 0}f} {units[power]}"


def duration(seconds: float) -> str:
    """Seconds for a human reader."""
    whole = math.ceil(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def exposition(status: Mapping[str, Any]) -> str:
    """The metrics of a status document in Prometheus text format, without those that the document lacks."""
    model = str(status["job"]).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    states = [(f'model="{model}",state="{state}"', int(status["state"] == state)) for state in STATES]
    gauges = [("state", "What the run is at: 1 for its state, 0 for the others.", states)]
    gauges += [(name, text, [(f'model="{model}"', status[key])]) for name, text, key in _GAUGES if status.get(key) is not None]
    lines = []
    for name, text, samples in gauges:
        lines += [f"# HELP {_PREFIX}_{name} {text}", f"# TYPE {_PREFIX}_{name} gauge"]
        lines += [f"{_PREFIX}_{name}{{{labels}}} {value}" for labels, value in samples]
    return "".join(f"{line}\n" for line in lines)
