"""Shows builds, starts and updates while they run: a line for each step, and the current waits."""

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.status import Status
from rich.text import Text

from inferplan import progress as steps
from inferplan.commands.screen import progress
from inferplan.rehearsal.wait import object_events as engine

_BAR_WIDTH = 20
_SIGNS = {"created": "[green]+[/]", "changed": "[yellow]~[/]", "replaced": "[magenta]+-[/]"}


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait since `began` (of the monotonic clock), for at most `limit` seconds."""

    words: str
    began: float
    limit: float | None = None

    def __str__(self) -> str:
        most = "" if self.limit is None else f" of {self.limit:.0f} s"
        return f"{self.words} ({time.monotonic() - self.began:.0f} s{most})"


class ProgressView:
    """Receives events of the toolchain, the cluster and the engine, from any thread, and prints
    them to `console`: by default notices.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or progress()
        self._status = Status(self, console=self._console) if self._console.is_terminal else None
        self._waits: dict[str, _Wait] = {}
        self._said: dict[str, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, event: steps.Event) -> None:
        with self._lock:
            if isinstance(event, steps.StepWaiting):
                began = time.monotonic() - event.seconds
                self._wait(
                    event.step,
                    _Wait(f"{event.step}: waiting for {event.reason}", began),
                    event.reason,
                )
                return
            if isinstance(event, steps.StepFinished):
                self._forget(event.step)
            self._print(escape(steps.line_of(event)))

    def resource(self, event: engine.Event) -> None:
        with self._lock:
            key = str(event.target)
            match event:
                case engine.Applied(target=target, change=change, note=note):
                    if change != "unchanged":
                        self._print(f"{_SIGNS[change]} {target}{_aside(note)}")
                case engine.Waiting(target=target, reason=reason, seconds=seconds, limit=limit):
                    self._wait(
                        key,
                        _Wait(f"waiting for {target}: {reason}", time.monotonic() - seconds, limit),
                        reason,
                    )
                case engine.Ready(target=target, seconds=seconds, note=note):
                    waited = self._forget(key)
                    if waited or note:
                        self._print(f"  {target} ready after {seconds:.1f} s{_aside(note)}")
                case engine.Failed(target=target, message=message, remedy=remedy):
                    self._forget(key)
                    self._print(f"[red]x[/] {target}: {escape(message)}\n    {escape(remedy)}")
                case engine.Skipped(target=target, because=because):
                    self._print(f"[yellow]o[/] {target} was not applied, because {because} failed")
                case engine.Deleting() | engine.Deleted() | engine.JournalRepaired():
                    self._end(key, event)

    def _end(
        self, key: str, event: engine.Deleting | engine.Deleted | engine.JournalRepaired
    ) -> None:
        match event:
            case engine.Deleting(target=target, reason=reason):
                self._wait(
                    key,
                    _Wait(f"{target}: deleting, {reason}", time.monotonic()),
                    reason,
                    quiet=True,
                )
            case engine.Deleted(target=target):
                self._forget(key)
                self._print(f"[red]-[/] {target}")
            case engine.JournalRepaired(damage=damage, adopted=adopted):
                names = escape(f": {', '.join(adopted)}" if adopted else "")
                self._print(
                    f"[yellow]![/] {escape(damage)}. {len(adopted)} objects of this rehearsal that"
                    f" it lacks are adopted{names}"
                )

    def __rich__(self) -> Columns:
        """The last line: how long the first wait has lasted, the part of its time as a bar if it
        has a limit, and how many others there are.
        """
        # Called while the console is locked: taking our lock too could deadlock with a thread that
        # prints.
        waits = list(self._waits.values())
        others = f"  and {len(waits) - 1} more" if len(waits) > 1 else ""
        parts: list[RenderableType] = [Text(f"{waits[0]}{others}" if waits else "")]
        if waits and (limit := waits[0].limit) is not None:
            passed = time.monotonic() - waits[0].began
            parts.insert(0, ProgressBar(total=limit, completed=passed, width=_BAR_WIDTH))
        return Columns(parts)

    def _wait(self, key: str, wait: _Wait, reason: str, *, quiet: bool = False) -> None:
        self._waits[key] = wait
        if self._status is None and not quiet and self._said.get(key) != reason:
            self._said[key] = reason
            self._print(f"  {escape(str(wait))}")

    def _forget(self, key: str) -> bool:
        return self._waits.pop(key, None) is not None

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


def _aside(note: str) -> str:
    return f" [dim]({escape(note)})[/]" if note else ""
