"""Explains an update that failed under Pulumi's engine: what failed, why, and what to do next, with the engine's text below.

It reads the events that the engine logged. Tracebacks of the program are not shown: other events have the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
