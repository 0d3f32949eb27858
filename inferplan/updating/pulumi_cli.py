"""Runs the Pulumi CLI on a stack. A failure becomes one paragraph, made from the events that the
engine logs.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

from inferplan.errors import OperationError, Terminated, remedy_for
from inferplan.interrupts import delayed_interrupts
from inferplan.rehearsal.cluster import Cluster
from inferplan.updating import run_marks
from inferplan.updating.program_server import serve_program
from inferplan.workspace.file_backend import checkpoint
from inferplan.workspace.files import read_records
from inferplan.workspace.project import child_environment, project_name, project_root
from inferplan.workspace.workspace import Workspace

_LAST_LINES = 40
_COPY_SECONDS = 5.0
_SUMMARY_BYTES = 2**16


def up(
    workspace: Workspace,
    arguments: list[str],
    environment: Mapping[str, str],
    *,
    yes: bool,
    output: int | None = None,
) -> bool:
    """Run `pulumi up` with `arguments` on the stack; its output goes to the descriptor `output`.
    Returns False if no resource changed. Raises OperationError that says what failed, why, and what
    to do next.
    """
    confirmed = ["--yes", "--skip-preview"] if workspace.simulated else ["--yes"] if yes else []
    with serve_program(workspace, environment) as served:
        return run(
            ["up", "--stack", workspace.stack, *confirmed, *arguments, *served],
            environment,
            output=output,
        )


def simulated_environment(cluster: Cluster) -> dict[str, str]:
    """The environment in which Pulumi works on a simulated cluster, with its state in the cluster's
    directory.
    """
    state = cluster.directory / "pulumi"
    state.mkdir(exist_ok=True)
    return {
        "PULUMI_BACKEND_URL": state.as_uri(),
        **child_environment(INFERPLAN_KUBECONFIG=str(cluster.kubeconfig)),
    }


def answer(arguments: list[str], environment: Mapping[str, str]) -> str:
    """The standard output of `pulumi` with `arguments`. Raises OperationError with its error
    output, and if there is no `pulumi`.
    """
    try:
        ended = subprocess.run(
            [  # noqa: S607 - the user's own CLI, wherever PATH has it
                "pulumi",
                *arguments,
                "--non-interactive",
            ],
            cwd=project_root(),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise OperationError(
            "pulumi is not on PATH (https://www.pulumi.com/docs/install). Install it"
        ) from None
    if ended.returncode:
        text = _refusal((ended.stderr or ended.stdout).splitlines(keepends=True))
        row = remedy_for("update", text)
        stack = arguments[-1] if arguments[-2:-1] == ["--stack"] else "STACK"
        remedy = f" Next: {row['remedy'].format(verb='up', stack=stack)}." if row else ""
        raise OperationError(f"pulumi {' '.join(arguments[:2])} failed: {text[-600:]}.{remedy}")
    return ended.stdout


def state_of(stack: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The state of `stack` as `pulumi stack export` prints it, with encrypted secrets. Raises
    OperationError if it cannot be read.
    """
    url = environment.get("PULUMI_BACKEND_URL", "")
    return checkpoint(url, project_name(project_root()), stack) or json.loads(
        answer(["stack", "export", "--stack", stack], environment) or "{}"
    )


def run(arguments: list[str], environment: Mapping[str, str], *, output: int | None = None) -> bool:
    """Run `pulumi` on the user's terminal, its standard output to the descriptor `output` if that
    is set. Returns False if no resource changed. Raises OperationError that says what failed, why,
    and what to do next.
    """
    verb, stack = arguments[0], arguments[2]
    with tempfile.TemporaryDirectory(prefix="inferplan-events-") as folder:
        log = Path(folder) / "events.ndjson"
        # The CLI offers its event log together with its debugging commands.
        environment = {
            **environment,
            "PULUMI_DEBUG_COMMANDS": "true",
            run_marks.VARIABLE: run_marks.mark_of(stack),
        }
        run_marks.begin(verb, stack)
        arguments = [*arguments, "--event-log", str(log)]
        with delayed_interrupts() as deliver_interrupts:
            process = subprocess.Popen(
                ["pulumi", *arguments],  # noqa: S607 - as above
                cwd=project_root(),
                env=environment,
                stdout=output,
                stderr=subprocess.PIPE,
            )
            words: deque[str] = deque(maxlen=_LAST_LINES)
            copier = threading.Thread(target=_copy_errors, args=(process, words), daemon=True)
            copier.start()
            code, interrupted = _wait_for(process, deliver_interrupts)
        # Plugins that outlive a killed CLI keep its standard error open.
        copier.join(_COPY_SECONDS)
        if code < 0:
            run_marks.end_orphans(stack)
        if interrupted:
            raise KeyboardInterrupt
        if not code:
            run_marks.end(stack)
            return _has_changes(log)
        command = {"destroy": "down"}.get(verb, verb)
        records = list(read_records(log))
        failures = failures_of(records)
        began = failures or any("resourcePreEvent" in each for each in records)
        if not began and (cause := _refusal(words)):
            raise OperationError(
                f"{command} of {stack} did not start: {cause}. Nothing was"
                f" changed.{_remedy(cause, command, stack)}"
            )
        raise OperationError(explain(failures, verb=command, stack=stack))


def _has_changes(log: Path) -> bool:
    """False if the last summary of the event log counts unchanged resources only. The log may have
    10 MB, so its end alone is read.
    """
    if not log.exists():
        return True
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _SUMMARY_BYTES))
        counts = re.findall(rb'"resourceChanges":(\{[^}]*\})', stream.read())
    return not counts or json.loads(counts[-1]).keys() != {"same"}


def _copy_errors(process: subprocess.Popen[bytes], words: deque[str]) -> None:
    """Copy the standard error of `process` to that of this process, and keep its last lines in
    `words`.
    """
    assert process.stderr is not None  # noqa: S101 - it was opened as a pipe in this module
    for line in process.stderr:
        text = line.decode(errors="replace")
        words.append(text)
        sys.stderr.write(text)
        sys.stderr.flush()


def _refusal(words: Iterable[str]) -> str:
    """The reason why the CLI did not start its engine, from the last lines of its standard error;
    "" if it printed none. An error may have further lines, up to a warning.
    """
    text = _WARNING.sub("", _COLOUR.sub("", "".join(words)))
    return " ".join(text.rpartition("error: ")[2].split()).rstrip(".")


def _remedy(cause: str, verb: str, stack: str) -> str:
    row = remedy_for("update", cause)
    return (
        f" Next: {row['remedy'].format(verb=verb, stack=stack)}."
        if row
        else f" Correct that, then run: inferplan {verb} {stack}"
    )


def _wait_for(
    process: subprocess.Popen[bytes], deliver_interrupts: Callable[[], None]
) -> tuple[int, bool]:
    """The exit code of `process`, and True if a signal ended it: Pulumi then finishes what runs,
    which `subprocess.run` would kill.
    """
    interrupted = False
    while True:
        try:
            deliver_interrupts()
            return process.wait(), interrupted
        except KeyboardInterrupt as signalled:
            interrupted = True
            if isinstance(signalled, Terminated):
                process.send_signal(signal.SIGINT)


_WARNING = re.compile(r"^warning: .*\n?", re.MULTILINE)
_COLOUR = re.compile(r"<\{%[^%]*%\}>|\x1b\[[0-9;]*m")
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\)|Program failed with an unhandled exception"
)
# Messages of the engine about the whole run, which follow from the resource that failed.
_EMPTY = re.compile(
    r"^(update|preview|destroy|refresh) (failed|canceled)$|resource monitor|connection"
    r" error|grpc_status|^$"
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One resource that failed (`urn` "" for the run as a whole), with the engine's own text."""

    urn: str
    text: str

    @property
    def name(self) -> str:
        if not self.urn:
            return ""
        chain, name = self.urn.split("::", 3)[2:]
        return f"{re.split(r'[$:/]', chain)[-1]} {name}"


def failures_of(events: Iterable[Mapping[str, Any]]) -> list[Failure]:
    """The failures in `events`, each once, in order; failures of resources hide those of the run."""
    failures: dict[Failure, None] = {}
    for event in events:
        message = event.get("diagnosticEvent") or {}
        if message.get("severity") != "error":
            continue
        text = _COLOUR.sub("", str(message.get("message", ""))).strip()
        urn = str(message.get("urn") or "")
        if not _TRACEBACK.search(text) and not _EMPTY.search(text):
            failures[Failure(urn="" if "pulumi:pulumi:Stack" in urn else urn, text=text)] = None
    return [each for each in failures if each.urn] or list(failures)


def explain(failures: list[Failure], *, verb: str, stack: str) -> str:
    if not failures:
        return (
            f"{verb} of {stack} did not finish, and the engine named no resource. Completed steps"
            f" stay. inferplan recover {stack} shows the state of the stack and what to do."
        )
    first = failures[0]
    subject = f"{first.name} failed" if first.name else "the engine stopped"
    others = f" ({len(failures) - 1} more below)" if len(failures) > 1 else ""
    row = remedy_for("update", first.text)
    because = f", because {row['cause']}" if row else ""
    otherwise = "correct what the engine's text below names, then run: inferplan {verb} {stack}"
    remedy = row.get("remedy", otherwise).format(verb=verb, stack=stack)
    quoted = "".join(
        f"\n\n  {each.name or 'engine'}:\n{indent(each.text, '    ')}" for each in failures
    )
    return (
        f"{verb} of {stack}: {subject}{others}{because}. What succeeded stays. Next:"
        f" {remedy}.{quoted}"
    )
