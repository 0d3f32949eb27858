"""Record what a program declares, without a cluster, a network or credentials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rehearsal.engine.program import host
from rehearsal.engine.program.monitor import Monitor, Realized
from rehearsal.engine.providers import aws
from rehearsal.engine.providers.kubernetes import is_object
from rehearsal.engine.wire.recording import Recording, Registration
from rehearsal.errors import RegistrationRefused


class _Preview:
    """Leaves ids and computed outputs unknown, as the first preview of a stack does."""

    def register(self, registration: Registration) -> Realized:
        """The inputs; fields that the API server or AWS sets below them stay unknown."""
        if (outputs := aws.preview(registration)) is not None:
            return Realized(outputs=outputs)
        return Realized(unknown_metadata=("uid", "resourceVersion") if is_object(registration.type, registration.inputs) else ())

    def read(self, registration: Registration) -> Realized:
        """The id; other outputs are unknown without the cluster."""
        return Realized(id=registration.id)

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The stub of the function; None, which is unknown, for one whose result only AWS knows."""
        if token in aws.KNOWN_BY_AWS:
            return None
        answer = aws.answer(token, arguments)
        if answer is None:
            raise RegistrationRefused(f"the function {token} needs a provider, and a plan without the Pulumi CLI runs none")
        return answer


def record(
    program: Callable[[], object] | Path,
    *,
    project: str,
    stack: str,
    config: Mapping[str, str] | None = None,
    secret_keys: Collection[str] = (),
    preview: bool = True,
    root: Path | None = None,
) -> Recording:
    """Run `program` and return what it registered.

    `program` is a callable, or the folder or file in `main` of `Pulumi.yaml`. `config` maps full keys
    (`inferplan:cluster`) to strings, structured values as JSON, as the CLI passes them. With `preview=False` a value that the
    program does not set is None instead of unknown. `root` is the project's folder. Raises ProgramFailed.
    """
    monitor = Monitor(project=project, stack=stack, realizer=_Preview())
    host.run(program, monitor, config=config or {}, secret_keys=secret_keys, preview=preview, root=root)
    shown = {name: "[secret]" if name in secret_keys else value for name, value in sorted((config or {}).items())}
    return replace(monitor.recording(), config=shown)
