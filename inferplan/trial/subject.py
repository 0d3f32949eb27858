"""The subject of a trial, for every engine."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.hardware.accelerators import vendors
from inferplan.trial import verdict
from inferplan.trial.computer import Computer
from inferplan.trial.container import Container
from inferplan.trial.questions import Question, ask
from inferplan.trial.verdict import Finding


@dataclass(frozen=True, kw_only=True)
class TrialGateway:
    """The gateway of the stack before a server of this computer: why it cannot run here ("" if it
    can), the key that it sends to the server, and its start, which takes the port of the server and
    gives a URL and the key of a consumer.
    """

    problem: str
    server_key: str
    opened: Callable[[int], AbstractContextManager[tuple[str, str]]]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model `name` of a stack: its `spec`, the `container` of its server in the plan, the
    directory of its files, and the place where its engine runs. `objects` are those of the model in
    the plan by their type; `request` is one that clients send, and the `gateway` stands before the
    server.
    """

    name: str
    spec: Any
    container: Mapping[str, Any]
    weights: Path
    place: Computer | Container
    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    request: Question | None = None
    gateway: TrialGateway | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the container, without paths and addresses of the pod."""
        return {
            each["name"]: each["value"]
            for each in self.container["env"]
            if "/" not in each.get("value", "/")
        }

    @property
    def accelerators(self) -> int:
        """The accelerators that the container requests."""
        limits = self.container.get("resources", {}).get("limits", {})
        return sum(int(limits.get(each.resource, 0)) for each in vendors().values())

    @property
    def server_key(self) -> str:
        """The key of the server in this trial."""
        return secrets.token_hex(8) if self.gateway is None else self.gateway.server_key

    def asked_through_gateway(self, question: Question, port: int) -> Iterator[Finding]:
        """Yield the finding about `question`, sent as a consumer to the gateway before the server on
        `port`.
        """
        if self.gateway is None:
            return
        step = f"{question.kind} through the gateway"
        if self.gateway.problem:
            yield Finding(step, "not judged", f"no gateway runs here: {self.gateway.problem}")
            return
        with self.gateway.opened(port) as (url, key):
            answer = ask(url, question, key)
        if answer.status == 200:
            yield Finding(step, "works")
        else:
            sentence = verdict.shortened(f"{answer.status}: {answer.message}")
            yield Finding(step, "rejected", sentence, ("models", self.name))
