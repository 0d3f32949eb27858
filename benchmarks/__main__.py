"""Runs every benchmark and prints each figure with its bound, its baseline or its peer."""

import contextlib
import os
import platform
import signal
import subprocess
import sys

from benchmarks.measuring import INTERRUPTED, ROOT, ended

# In the order of a user's day: a plan, its registration, a cluster, then the data plane and a review.
BENCHMARKS = (
    *("benchmarks.start", "benchmarks.registration", "benchmarks.cluster_start", "benchmarks.gateway", "benchmarks.gateway_denials"),
    *("benchmarks.preheat", "benchmarks.report", "benchmarks.policies", "benchmarks.scale"),
)
# The time in which a benchmark stops what it started, for example a cluster.
_STOP_SECONDS = 120


def main() -> int:
    """Run all, name those that missed a bound, and return how many did; 130 after an interrupt."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    missed = []
    for module in BENCHMARKS:
        print(f"\n{module}", flush=True)
        code = _run(module)
        if code == INTERRUPTED:
            return code
        if code:
            missed.append(module)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall within their bounds")
    return len(missed)


def _run(module: str) -> int:
    """The exit code of one benchmark. It has a session, so that Ctrl-C reaches this process, which tells the benchmark to stop."""
    process = subprocess.Popen([sys.executable, "-m", module], cwd=ROOT, start_new_session=True)
    try:
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
    sys.exit(ended(main, "benchmarks"))
