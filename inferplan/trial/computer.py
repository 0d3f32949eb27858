"""This computer as the place of a trial: an installed program of the engine."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferplan.errors import RequestError
from inferplan.trial import process

_VARIABLES = ("PATH", "LANG", "HOME", "TMPDIR")


@dataclass(frozen=True)
class Computer:
    """A place of trials: this computer, with the `program` of an engine."""

    program: str
    accelerators = 0
    in_image = False

    def prepare(self, progress: Callable[[str], None]) -> None:
        """Nothing has to be prepared."""

    def python(self, expected: str) -> str:
        """The interpreter of the program: the one next to it, or that of its first line. Raises
        RequestError if it is not a program of Python; `expected` says which one to name.
        """
        path = Path(self.program).resolve()
        if (neighbour := path.with_name("python")).exists():
            return str(neighbour)
        with path.open("rb") as stream:
            first = stream.readline(4096).decode(errors="replace").strip()
        named = Path(first.removeprefix("#!").split(" ")[0])
        if first.startswith("#!") and named.name.startswith("python"):
            return str(named)
        raise RequestError(
            f"{path} is not a Python program. Set INFERPLAN_CPU_SERVER to {expected}"
        )

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """The variables that the engine takes from the shell, as far as they are set."""
        return {name: os.environ[name] for name in names if name in os.environ}

    def absent(self, _: str, advice: str) -> RequestError:
        """The error for a program without the engine."""
        return RequestError(advice)

    @contextmanager
    def started(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        port: int = 0,  # noqa: ARG002 - of containers
        key: str = "",  # noqa: ARG002 - of containers
    ) -> Iterator[process.Process]:
        """Run `command` in `folder` with `environment` alone, and end it afterwards."""
        with process.started(command, environment, folder) as engine:
            yield engine

    def finished(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        seconds: float,
        too_late: str,
        *,
        text: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` on the input `text`, with `environment` and few variables of this process.
        Raises RequestError with the message `too_late` after `seconds`.
        """
        try:
            return subprocess.run(
                command,
                input=text,
                env={**self.variables(_VARIABLES), **environment},
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RequestError(too_late) from None
