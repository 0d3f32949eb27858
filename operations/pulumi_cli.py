"""Runs the Pulumi CLI on a stack. A failure becomes one paragraph, made from the events that the engine logs.

Tracebacks of the program are not shown: other events have the cause.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operations.errors import OperationError
from operations.project import child_environment, project_root
from operations.workspace import Workspace
from rehearsal.cluster import Cluster


def up(workspace: Workspace, arguments: list[str], environment: Mapping[str, str], *, yes: bool, output: int | None = None) -> None:
    """Run `pulumi up` with `arguments` on the stack; its output goes to the descriptor `output`. Raises OperationError that says what failed, why, and what to do next."""
    confirmed = ["--yes", "--skip-preview"] if workspace.simulated else ["--yes"] if yes else []
    run(["up", "--stack", workspace.stack, *confirmed, *arguments], environment, output=output)


def simulated_environment(cluster: Cluster) -> dict[str, str]:
    """The environment in which Pulumi works on a simulated cluster, with its state in the cluster's directory."""
    state = cluster.directory / "pulumi"
    state.mkdir(exist_ok=True)
    return {"PULUMI_BACKEND_URL": state.as_uri(), **child_environment(INFERPLAN_KUBECONFIG=str(cluster.kubeconfig))}


def answer(arguments: list[str], environment: Mapping[str, str]) -> str:
    """The standard output of `pulumi` with `arguments`. Raises OperationError with its error output, and if there is no `pulumi`."""
    try:
        ended = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],  # noqa: S607 - the user's own CLI, wherever PATH has it
            cwd=project_root(),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise OperationError("pulumi is not on PATH (https://www.pulumi.com/docs/install). Install it") from None
    if ended.returncode:
        raise OperationError(f"pulumi {' '.join(arguments[:2])} failed: {' '.join((ended.stderr or ended.stdout).split())[-600:]}")
    return ended.stdout


def run(arguments: list[str], environment: Mapping[str, str], *, output: int | None = None) -> None:
    """Run `pulumi` on the user's terminal, its standard output to the descriptor `output` if that is set. Raises OperationError that says what failed, why, and what to do next."""

    verb, stack = arguments[0], arguments[2]
    with tempfile.TemporaryDirectory(prefix="inferplan-events-") as folder:
        log = Path(folder) / "events.ndjson"
        # The CLI offers its event log together with its debugging commands.
        environment = {**environment, "PULUMI_DEBUG_COMMANDS": "true"}
        process = subprocess.Popen(["pulumi", *arguments, "--event-log", str(log)], cwd=project_root(), env=environment, stdout=output)  # noqa: S607 - as above
        code, interrupted = _wait_for(process)
        if interrupted:
            raise KeyboardInterrupt
        if code:
            command = {"destroy": "down"}.get(verb, verb)
            raise OperationError(explain(failures_of(_events(log)), verb=command, stack=stack))


def _wait_for(process: subprocess.Popen[bytes]) -> tuple[int, bool]:
    """The exit code of `process`, and True if Ctrl-C ended it.

    Ctrl-C reaches Pulumi too, which finishes what runs and releases its lock. `subprocess.run` would kill it after a quarter of a
    second and leave both behind.
    """
    interrupted = False
    while True:
        try:
            return process.wait(), interrupted
        except KeyboardInterrupt:
            interrupted = True


def _events(log: Path) -> Iterator[dict[str, Any]]:
    with suppress(FileNotFoundError):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            # The last line of an engine that was killed may be cut.
            with suppress(ValueError):
                yield json.loads(line)


_COLOUR = re.compile(r"<\{%[^%]*%\}>|\x1b\[[0-9;]*m")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|Program failed with an unhandled exception")
# Messages of the engine about the whole run, which follow from the resource that failed.
_EMPTY = re.compile(r"^(update|preview|destroy|refresh) (failed|canceled)$|resource monitor|connection error|grpc_status|^$")

# Message of the engine or API server, its cause, and the remedy. The first match counts.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (r"stack is currently locked", "another update runs, or an earlier one was killed", "inferplan recover {stack}"),
    (
        r"already exists",
        "an interrupted update created it without recording it, or another owner did",
        "inferplan recover {stack} says which, and adopts it in the first case",
    ),
    (
        r"no matches for kind|could not find the requested resource|resource .* was not found on the cluster|CustomResourceDefinition",
        "the cluster does not have the operator that serves this kind",
        "install it (docs/recovering.md lists operators and kinds), then run: inferplan up {stack}",
    ),
    (
        r"violates PodSecurity",
        "the namespace's Pod Security profile denies the pod",
        "correct the model's image or settings, then run: inferplan up {stack}",
    ),
    (
        r"exceeded quota",
        "the namespace's quota is used up",
        "free accelerators, or make the pool larger, then run: inferplan up {stack}",
    ),
    (
        r"is forbidden|[Uu]nauthorized|[Ff]orbidden",
        "your account may not do this on the cluster",
        "ask for the right, then run: inferplan up {stack}",
    ),
    (
        r"conflict with|[Cc]onflict: ",
        "another program (kubectl, an autoscaler) owns a field that the stack declares",
        "inferplan recover {stack} takes the field back",
    ),
    (
        r"field is immutable|may not change once set",
        "Kubernetes does not change this field of an existing object",
        "inferplan plan {stack} --against shows what changed; delete the object if its loss is acceptable, then run: inferplan up {stack}",
    ),
    (
        r"unreachable|connection refused|no such host|i/o timeout|Unauthorized",
        "the cluster does not answer",
        "check the kubeconfig's context and the network, then run: inferplan up {stack}",
    ),
    (r"incorrect passphrase|passphrase must be set", "the stack's secrets cannot be opened", "set PULUMI_CONFIG_PASSPHRASE and repeat"),
    (r"protected", "the resource is protected", "write protect: false under it, run inferplan up {stack}, then repeat"),
    (
        r"[Tt]imed? ?out|failed to become|not ready|unready|Progress deadline|Minimum number of Pods|Job .*fail|BackoffLimit",
        "it was created and did not get ready in time",
        "inferplan status {stack} says what its pods wait for; correct that, then run: inferplan up {stack}",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One resource that failed (`urn` "" for the run as a whole), with the engine's own text."""

    urn: str
    text: str

    @property
    def name(self) -> str:
        """The resource for a person: its kind and name."""
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
        if not _TRACEBACK.search(text) and not _EMPTY.search(text):
            failures[Failure(urn="" if "pulumi:pulumi:Stack" in str(message.get("urn")) else str(message.get("urn") or ""), text=text)] = (
                None
            )
    return [each for each in failures if each.urn] or list(failures)


def explain(failures: list[Failure], *, verb: str, stack: str) -> str:
    """A paragraph about the first failure, then the engine's text of all failures, indented."""
    if not failures:
        return (
            f"{verb} of {stack} did not finish, and the engine named no resource. Completed steps stay. "
            f"inferplan recover {stack} shows the state of the stack and what to do."
        )
    first = failures[0]
    subject = f"{first.name} failed" if first.name else "the engine stopped"
    others = f" ({len(failures) - 1} more below)" if len(failures) > 1 else ""
    cause, remedy = next(
        ((why, then.format(stack=stack)) for pattern, why, then in _CAUSES if re.search(pattern, first.text)),
        ("", f"correct what the engine's text below names, then run: inferplan {verb} {stack}"),
    )
    because = f", because {cause}" if cause else ""
    quoted = "".join(f"\n\n  {each.name or 'engine'}:\n{_indented(each.text)}" for each in failures)
    return f"{verb} of {stack}: {subject}{others}{because}. What succeeded stays. Next: {remedy}.{quoted}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
