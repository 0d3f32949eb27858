"""Rehearses a change: brings up one revision of a stack on a simulated cluster and applies the next
one over it, by its own code.
"""

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from inferplan.review import findings
from inferplan.workspace.files import read_records
from inferplan.workspace.project import child_environment, project_root, stack_file
from inferplan.workspace.revisions import checked_out, commit_of

# Revisions before 2026-11-22 have their runner in cli; a repository without our code runs that of
# this installation.
_RUNNERS = ("inferplan.updating.rehearsal_run", "operations.rehearsal_run")
_CLIENTS = "inferplan.updating.client_load"
_DELETE_CLUSTERS = (
    "from inferplan.rehearsal.cluster import clusters, delete\nfor name in clusters(): delete(name)"
)


def rehearse_change(
    base: str, head: str, stack: str, *, timeout: int, say: Callable[[str], None]
) -> findings.Findings:
    """Bring up `base` and apply `head` over it, for at most `timeout` seconds each. Raises
    RequestError for an unknown revision or stack.
    """
    root = project_root()
    commits = [commit_of(root, each) for each in (base, head)]
    with (
        checked_out(root, commits[0]) as old,
        checked_out(root, commits[1]) as new,
        _workplace() as folder,
    ):
        for each in (old, new):
            stack_file(each, stack)
        short = [each[:12] for each in commits]
        change = {"stack": stack, "base": short[0], "head": short[1]}
        say(f"bringing up {short[0]}")
        code, records = _run(old, folder, stack, timeout)
        if code != 0:
            return findings.findings_of(records, outcome="base failed", **change)
        say(f"applying {short[1]} over it, while clients of {short[0]} call its models")
        with _clients(old, folder, stack) as calls:
            code, records = _run(new, folder, stack, timeout)
        records += read_records(calls)
        return findings.findings_of(
            records, outcome={0: "ready", None: "stuck"}.get(code, "refused"), **change
        )


@contextlib.contextmanager
def _clients(checkout: Path, folder: Path, stack: str) -> Iterator[Path]:
    """The diary of clients of `checkout` that call its models while the block runs; it stays empty
    for a revision without such clients.
    """
    diary = folder / "clients.ndjson"
    diary.touch()
    if (checkout / "inferplan" / "operations").is_dir() and not (
        checkout / f"{_CLIENTS.replace('.', '/')}.py"
    ).is_file():
        yield diary
        return
    environment = child_environment(
        PYTHONPATH=str(checkout), INFERPLAN_STATE_DIR=str(folder / "state")
    )
    line = [sys.executable, "-P", "-m", _CLIENTS, stack, str(diary)]
    with subprocess.Popen(
        line,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdout is not None:
            process.stdout.readline()  # it prints a line when its calls begin
        try:
            yield diary
        finally:
            _stop(process)


def _run(
    checkout: Path, folder: Path, stack: str, timeout: int
) -> tuple[int | None, list[dict[str, Any]]]:
    """The exit code of a run, None if it exceeded `timeout`, and the records of its diary."""
    diary, log = (checkout.with_suffix(each) for each in (".ndjson", ".log"))
    environment = child_environment(
        PYTHONPATH=str(checkout), INFERPLAN_STATE_DIR=str(folder / "state")
    )
    runner = next(
        (each for each in _RUNNERS if (checkout / f"{each.replace('.', '/')}.py").is_file()),
        _RUNNERS[0],
    )
    with log.open("wb") as stream:
        line = [sys.executable, "-P", "-m", runner, stack, str(diary)]
        process = subprocess.Popen(
            line, cwd=checkout, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _stop(process)
    records = list(read_records(diary))
    if code and not any(each["kind"] in ("refused", "failed") for each in records):
        message = (
            " / ".join(log.read_text(errors="replace").strip().splitlines()[-4:])
            or f"it ended with code {code}"
        )
        records.append({"at": 0.0, "kind": "refused", "message": message})
    return code, records


def _stop(process: subprocess.Popen[Any]) -> None:
    # After an interrupt the run finishes in order; a run that ignores it is killed.
    for ending in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)


@contextlib.contextmanager
def _workplace() -> Iterator[Path]:
    """A folder for diaries and a cluster, which are removed after the block."""
    with tempfile.TemporaryDirectory(prefix="inferplan-", ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            environment = child_environment(INFERPLAN_STATE_DIR=f"{folder}/state")
            subprocess.run(
                [sys.executable, "-c", _DELETE_CLUSTERS],
                env=environment,
                capture_output=True,
                check=False,
                timeout=600,
            )
