"""Shows what builds, starts and applies while it happens: a line for each thing done, and what is waited for.

On a terminal the waits stand in one line at the bottom; in a log each new reason is a line of its own.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from rehearsal import progress as steps
from rehearsal.engine import progress as engine

_SIGNS = {"created": "[green]+[/]", "changed": "[yellow]~[/]", "replaced": "[magenta]+-[/]"}


class ProgressView:
    """Receives events of the toolchain, the cluster and the engine, from any thread, and prints them to `console`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("", console=console) if console.is_terminal else None
        self._waits: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, event: steps.Event) -> None:
        """One event of building or starting."""
        with self._lock:
            if isinstance(event, steps.StepWaiting):
                self._wait(event.step, f"{event.step}: waiting for {event.reason} ({event.seconds:.0f} s)", event.reason)
                return
            if isinstance(event, steps.StepFinished):
                self._forget(event.step)
            self._print(escape(steps.line_of(event)))

    def resource(self, event: engine.Event) -> None:
        """One event of applying or deleting."""
        with self._lock:
            key = str(event.target)
            match event:
                case engine.Applied(target=target, change=change, note=note):
                    if change != "unchanged":
                        self._print(f"{_SIGNS[change]} {target}{_aside(note)}")
                case engine.Waiting(target=target, reason=reason, seconds=seconds, limit=limit):
                    self._wait(key, f"waiting for {target}: {reason} ({seconds:.0f} s of {limit:.0f} s)", reason)
                case engine.Ready(target=target, seconds=seconds, note=note):
                    waited = self._forget(key)
                    if waited or note:
                        self._print(f"  {target} ready after {seconds:.1f} s{_aside(note)}")
                case engine.Failed(target=target, message=message, remedy=remedy):
                    self._forget(key)
                    self._print(f"[red]x[/] {target}: {escape(message)}\n    {escape(remedy)}")
                case engine.Skipped(target=target, because=because):
                    self._print(f"[yellow]o[/] {target} was not applied, since {because} failed")
                case engine.Deleting():
                    self._wait(key, f"{event.target}: deleting ({event.reason})", event.reason, quiet=True)
                case engine.Deleted(target=target):
                    self._forget(key)
                    self._print(f"[red]-[/] {target}")

    def _wait(self, key: str, line: str, reason: str, *, quiet: bool = False) -> None:
        self._waits[key] = line
        if self._status is not None:
            others = f"  and {len(self._waits) - 1} more" if len(self._waits) > 1 else ""
            self._status.update(escape(line) + others)
        elif not quiet and self._said.get(key) != reason:
            self._said[key] = reason
            self._print(f"  {escape(line)}")

    def _forget(self, key: str) -> bool:
        waited = self._waits.pop(key, None) is not None
        if self._status is not None:
            self._status.update(escape(next(iter(self._waits.values()), "")))
        return waited

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


def _aside(note: str) -> str:
    return f" [dim]({escape(note)})[/]" if note else ""
