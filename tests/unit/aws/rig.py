"""Declares stacks on AWS with every value known, as an update would see them, without asking AWS
anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulumi

from inferplan.pulumi_engine.program.monitor import Monitor, Realized
from inferplan.pulumi_engine.program.record import record, run
from inferplan.pulumi_engine.providers.aws import answer, realize
from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.stackfile.stack import Stack, StackSecrets, StackSettings

CREATED = {
    "provider": "eks",
    "name": "prod",
    "region": "us-east-1",
    "create": {
        "kubernetesVersion": "1.34",
        "zones": ["us-east-1a", "us-east-1b"],
        "publicAccessCidrs": [],
        "admins": ["arn:aws:iam::111122223333:role/people"],
    },
    "autoMode": False,
}
AUTOMATIC = {**CREATED, "autoMode": True}
ADOPTED = {"provider": "eks", "name": "shared", "region": "us-east-1"}
L40S = {
    "provider": "eks",
    "accelerator": "nvidia-l40s",
    "instanceTypes": ["g6e.4xlarge", "g6e.8xlarge"],
    "size": {"max": 4},
}
SYSTEM = {"provider": "eks", "size": {"min": 2, "max": 3}}
BUCKET = {"kind": "s3", "bucket": "acme-weights", "prefix": "llm"}


class _Known:
    """Answers as AWS and an API server would, all at once."""

    def register(self, registration: Registration) -> Realized:
        if not registration.custom:
            return Realized()
        id_, outputs = realize(registration)
        return Realized(id=id_, outputs=outputs)

    def read(self, registration: Registration) -> Realized:
        raise AssertionError(f"nothing is read by id, and {registration.urn} was")

    def invoke(self, token: str, arguments: Any) -> Any:
        outputs = answer(token, arguments)
        assert outputs is not None, token
        return outputs


def known(program: Callable[[], object], realizer: Any = None) -> Recording:
    """What `program` registers when every output is known."""
    monitor = Monitor(project="inferplan", stack="test", realizer=realizer or _Known())
    run(program, monitor, config={}, preview=False)
    return monitor.recording()


def settings(**parts: Any) -> StackSettings:
    """A stack on AWS: an adopted cluster with one pool, changed by `parts` (camelCase, as in a
    stack file).
    """
    return StackSettings.model_validate({"cluster": ADOPTED, "nodePools": {"l40s": L40S}, **parts})


def model(**fields: Any) -> dict[str, Any]:
    """A small model on the pool l40s."""
    return {
        "engine": "vllm",
        "weights": {"store": "weights", "path": "llama", "size": "16Gi"},
        "pool": "l40s",
        **fields,
    }


def declared(realizer: Any = None, **parts: Any) -> Recording:
    """What the whole program declares for `settings(**parts)`, every output known."""
    return declared_by(settings(**parts), realizer)


def declared_by(spec: StackSettings, realizer: Any = None) -> Recording:
    """What the whole program declares for `spec`, every output known."""

    def program() -> None:
        from inferplan.infra.compose import compose

        compose(
            Stack(
                "test",
                spec,
                StackSecrets(
                    (
                        pulumi.Output.secret(
                            "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
                        ),
                    )
                ),
                "",
            )
        )

    return known(program, realizer)


def planned(**parts: Any) -> Recording:
    """What a plan without the engine shows for `settings(**parts)`."""
    spec = settings(**parts)

    def program() -> None:
        from inferplan.infra.compose import compose

        compose(
            Stack(
                "test",
                spec,
                StackSecrets(
                    (
                        pulumi.Output.secret(
                            "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
                        ),
                    )
                ),
                "",
            )
        )

    return record(program, project="inferplan", stack="test")


def document(text: Any) -> dict[str, Any]:
    """A policy document as registered: text, or a map where a part is known only after an update."""
    if isinstance(text, dict):
        return text
    assert isinstance(text, str), text
    return json.loads(text)


def upstream(recording: Recording, urn: str) -> set[str]:
    """Every URN that must exist before `urn`: dependencies, provider and parents, all the way."""
    seen: set[str] = set()
    by_urn = {each.urn: each for each in recording}
    todo = [urn]
    while todo:
        here = by_urn.get(todo.pop())
        if here is None:
            continue
        for other in (*here.dependencies, here.provider, here.parent):
            if other and other not in seen:
                seen.add(other)
                todo.append(other)
    return seen
