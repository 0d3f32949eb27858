"""Starts the ranks of one model under mpirun, and ends them so that running answers are finished: `ranks.py mpirun ...`.

Told to end, mpirun kills its ranks after a fraction of a second (Open MPI 5) or after one (Open MPI 4). So it is not told: the first rank,
which serves, is asked to drain, and mpirun goes when that rank has gone. It ends as mpirun ends where nobody asked for it.
"""

import os
import signal
import subprocess
import sys
import threading

STEP_SECONDS = 0.1


def main(arguments):
    """Runs the command `arguments`; its exit code, 0 where it was asked to end."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    # The ranks have their own session, so a signal to the group of this process does not reach
    # them.
    ranks = subprocess.Popen(arguments, start_new_session=True)
    while ranks.poll() is None and not asked.wait(STEP_SECONDS):
        pass
    if ranks.poll() is not None:
        return ranks.returncode if ranks.returncode >= 0 else 128 - ranks.returncode
    first = _first(ranks.pid)
    if first is not None:
        os.kill(first, signal.SIGTERM)
        while ranks.poll() is None and _runs(first):
            threading.Event().wait(STEP_SECONDS)
    if ranks.poll() is None:
        ranks.send_signal(signal.SIGTERM)
    ranks.wait()
    return 0


def _first(mpirun):
    """The process of the rank that serves: a descendant of mpirun that MPI calls 0; None while there is none."""
    for process in _descendants(mpirun):
        try:
            with open(f"/proc/{process}/environ", "rb") as environment:  # noqa: PTH123 - the server's Python, not ours
                known = environment.read().split(b"\0")
            with open(f"/proc/{process}/comm", encoding="utf-8") as name:  # noqa: PTH123 - as above
                called = name.read().strip()
        except OSError:
            continue
        if b"OMPI_COMM_WORLD_RANK=0" in known and called == "tritonserver":
            return process
    return None


def _descendants(process):
    parents = {each: _parent(each) for each in map(int, filter(str.isdigit, os.listdir("/proc")))}  # noqa: PTH208 - as above
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _parent(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as status:  # noqa: PTH123 - as above
            return int(status.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _runs(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as status:  # noqa: PTH123 - as above
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
