"""The Pulumi program of any project: `__main__.py` calls `run`, under both engines."""

from contextvars import ContextVar
from pathlib import Path

import pulumi

from inferplan.infra.compose import compose
from inferplan.infra.registering import end_quietly, errors_shown_once, quiet_collector
from inferplan.stackfile.settings import load
from inferplan.stackfile.stack import Stack

# Set while a rehearsal runs the program: every resource is on this machine, where public keys do no
# harm.
REHEARSAL: ContextVar[bool] = ContextVar("REHEARSAL", default=False)


def run() -> None:
    """Load the stack that the engine passes and declare every resource of it. Raises StackRunError
    with every error of the stack.
    """
    end_quietly()
    with errors_shown_once(), quiet_collector():
        stack = load(rehearsal=REHEARSAL.get())
        _check_cluster(stack)
        compose(stack)


def _check_cluster(stack: Stack) -> None:
    """Raise RunError for an update of a simulated stack that has no cluster: the provider would
    call the missing kubeconfig invalid JSON.
    """
    path = Path(stack.simulated_kubeconfig)
    if stack.settings.cluster.is_simulated and not (pulumi.runtime.is_dry_run() or path.exists()):
        raise pulumi.RunError(
            f"The simulated cluster of {stack.name} does not exist: there is no {path}. Nothing was"
            f" changed. Start it and bring the stack up: inferplan up {stack.name}"
        )
