"""Records what a program declares, without a cluster, a network or a credential."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rehearsal.engine.program import host
from rehearsal.engine.program.errors import RegistrationRefused
from rehearsal.engine.program.monitor import Monitor, Realized
from rehearsal.engine.providers import stubs
from rehearsal.engine.providers.kubernetes import is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from rehearsal.engine.wire.recording import Recording, Registration


class _Preview:
    """Knows the inputs and nothing else: ids and computed outputs stay unknown, as in a first preview."""

    def register(self, registration: Registration) -> Realized:
        """The inputs, and no id; what only an API server gives to an object stays unknown."""
        given_by_server = ("uid", "resourceVersion") if is_object(registration.type, registration.inputs) else ()
        return Realized(unknown_metadata=given_by_server)

    def read(self, registration: Registration) -> Realized:
        """The id that was asked for; the rest is unknown without the cluster."""
        return Realized(id=registration.id)

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """A stand-in for the few functions that have one; a plan asks nobody else."""
        answer = stubs.answer(token, arguments)
        if answer is None:
            raise RegistrationRefused(f"the function {token} needs a provider, and a plan made without one cannot answer it", urn="")
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

    `program` is a callable, or the folder or file that `main` of `Pulumi.yaml` names. `config` maps full keys
    (`inferplan:cluster`) to the strings the CLI would pass, structured values as JSON. `root` is the project's folder. With `preview=False` what the
    program did not state itself is None rather than unknown. Raises ProgramFailed with the program's own words.
    """
    monitor = Monitor(project=project, stack=stack, realizer=_Preview())
    host.run(program, monitor, config=config or {}, secret_keys=secret_keys, preview=preview, root=root)
    shown = {name: "[secret]" if name in secret_keys else value for name, value in sorted((config or {}).items())}
    return replace(monitor.recording(), config=shown)
