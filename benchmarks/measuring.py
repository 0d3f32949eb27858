"""Times, ratios and bounds that benchmarks share, and their end after Ctrl-C."""

import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
INTERRUPTED = 130
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)

_TICK = os.sysconf("SC_CLK_TCK")
_NONE: Mapping[str, str] = MappingProxyType({})
_MODEL = """\
    model-{n}:
      engine: vllm
      weights: {{store: weights, path: model-{n}, revision: 8afb486c1db24fe5011ec46dfbe5b5dccdb575c2, size: 16Gi}}
      preheat: {{into: shared}}
      pool: l40s
      replicas: {replicas}
      consumers: [chat]
"""

Result = tuple[str, str, str, bool]
"""A figure: its name, its value and its bound as text, and whether the value is within the bound.
"""


def models_section(models: int, *, replicas: int) -> str:
    """The entries `model-0` and so on of a stack file, below `inferplan:models:`."""
    return "".join(_MODEL.format(n=n, replicas=replicas) for n in range(models))


def at_most(name: str, value: float, bound: float, unit: str = "") -> Result:
    return name, f"{value:.2f}{unit}", f"at most {bound:g}{unit}", value <= bound


def at_least(name: str, value: float, bound: float, unit: str = "") -> Result:
    return name, f"{value:.2f}{unit}", f"at least {bound:g}{unit}", value >= bound


def unbounded(name: str, value: str) -> Result:
    return name, value, "no bound", True


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of `work` on the clock, and processor seconds of the processes that it started and
    awaited.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = timed(work)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processor_seconds(pid: int) -> float:
    """Processor time of a process and of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    fields = [
        Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        for each in (pid, *children)
    ]
    return sum(int(each[11]) + int(each[12]) for each in fields) / _TICK


def costs_in_turns(*commands: Sequence[str], runs: int = 5) -> list[list[tuple[float, float]]]:
    """`cost` of each of `commands` in `runs` runs after one to warm up; they run in turns, so that
    a busy machine slows all of them.
    """
    environment = {**os.environ, "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
    costs: list[list[tuple[float, float]]] = [[] for _ in commands]
    for _ in range(runs + 1):
        for each, command in zip(costs, commands, strict=True):
            each.append(
                cost(
                    partial(
                        subprocess.run,
                        command,
                        cwd=ROOT,
                        env=environment,
                        capture_output=True,
                        check=True,
                    )
                )
            )
    return [each[1:] for each in costs]


def median_ratio(ones: Iterable[float], others: Iterable[float]) -> float:
    """The median of the ratios of pairs, which were measured in turns."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """A temporary directory in memory where the machine has one: a disk would only measure itself."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)  # noqa: S108 - a new directory


@contextmanager
def serving(
    command: Sequence[str],
    port: int,
    *,
    log: int | None = None,
    variables: Mapping[str, str] = _NONE,
) -> Iterator[int]:
    """Run the server `command` until the block ends, with standard error to `log` and `variables`
    added to those of this process; yields its process id once it answers at `port`.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, **variables}
    )
    try:
        while not _answers(port):
            if process.poll() is not None:
                raise RuntimeError(
                    f"{' '.join(command)} ended with {process.returncode} before it served"
                )
            time.sleep(0.02)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ended(main: Callable[[], int], name: str) -> int:
    """The exit code of `main`; after Ctrl-C or SIGTERM 130, once `main` has unwound and so stopped
    what it started.
    """
    for number in INTERRUPTS:
        signal.signal(number, _interrupt)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        return main()
    except KeyboardInterrupt:
        print(f"{name}: interrupted; what it had started is stopped", file=sys.stderr)
        return INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second Ctrl-C must not interrupt the stopping.
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
