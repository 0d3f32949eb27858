"""The Pulumi program of any project: `__main__.py` calls `run`, under both engines."""

from contextvars import ContextVar

from inferplan.infra.compose import compose
from inferplan.infra.registering import end_quietly, errors_shown_once, quiet_collector
from inferplan.stackfile.settings import load

# Set while a rehearsal runs the program: every resource is on this machine, where public keys do no
# harm.
REHEARSAL: ContextVar[bool] = ContextVar("REHEARSAL", default=False)


def run() -> None:
    """Load the stack that the engine passes and declare every resource of it. Raises StackRunError
    with every error of the stack.
    """
    end_quietly()
    with errors_shown_once(), quiet_collector():
        compose(load(rehearsal=REHEARSAL.get()))
