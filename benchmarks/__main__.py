"""`python -m benchmarks [NAME]`: runs one benchmark or all, and prints each figure with its bound,
its baseline or its peer.
"""

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from importlib import import_module

from benchmarks.measuring import INTERRUPTED, INTERRUPTS, ROOT, Result, ended

# In the order of a user's day: a plan, its registration, a cluster, then the data plane and a
# review.
BENCHMARKS = (
    "start",
    "registration",
    "cluster_start",
    "audit",
    "engine",
    "gateway",
    "gateway_denials",
    "gateway_streams",
    "preheat",
    "preheat_large_files",
    "preheat_many_files",
    "report",
    "policies",
    "scale",
)
COMMAND = [sys.executable, "-m", "benchmarks"]
# These take minutes, so they run only on request.
ON_REQUEST = ("fleet", "preheat_small_files", "router")
# The time in which a benchmark stops what it started, for example a cluster.
_STOP_SECONDS = 120


def main() -> int:
    """Run all, name those that missed a bound, and return how many did; 130 after an interrupt."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(
        f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    missed = []
    for name in BENCHMARKS:
        print(f"\n{name}", flush=True)
        code = _run(name)
        if code == INTERRUPTED:
            return code
        if code:
            missed.append(name)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall within their bounds")
    return len(missed)


def measure(name: str) -> int:
    """Print each figure of one benchmark, and return 1 if one misses its bound."""
    missed = 0
    results: Iterable[Result] = import_module(f"benchmarks.{name}").figures()
    for figure, value, bound, met in results:
        print(f"  {'ok    ' if met else 'MISSED'} {figure}: {value} ({bound})", flush=True)
        missed += not met
    return 1 if missed else 0


def _run(name: str) -> int:
    """The exit code of one benchmark. It has a session, so that Ctrl-C reaches this process, which
    tells the benchmark to stop.
    """
    # Until Popen returns, an interrupt could not stop the process. It inherits this mask, and
    # `ended` lifts it there.
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    process = subprocess.Popen([*COMMAND, name], cwd=ROOT, start_new_session=True)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if process.wait(_STOP_SECONDS) == INTERRUPTED:
                return INTERRUPTED  # it has printed the line about that itself
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("name", nargs="?", choices=(*BENCHMARKS, *ON_REQUEST))
    chosen = parser.parse_args().name
    sys.exit(ended(partial(measure, chosen) if chosen else main, chosen or "benchmarks"))
