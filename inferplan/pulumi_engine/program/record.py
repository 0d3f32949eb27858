"""Run a Pulumi program in this process against a monitor, as Pulumi's language host does, and
record what it declares.
"""

import asyncio
import contextlib
import contextvars
import functools
import gc
import runpy
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, ParamSpec

import pulumi
from pulumi.runtime import resource as registrations
from pulumi.runtime import run_in_stack
from pulumi.runtime import settings as runtime_settings
from pulumi.runtime.config import set_all_config
from pulumi.runtime.proto import source_pb2

from inferplan.errors import ProgramFailed, RegistrationRefused, RehearsalError
from inferplan.garbage import without_collections
from inferplan.pulumi_engine.program.executor import Executor
from inferplan.pulumi_engine.program.monitor import Monitor, Realized
from inferplan.pulumi_engine.providers import aws
from inferplan.pulumi_engine.providers.kubernetes import is_object
from inferplan.pulumi_engine.recording import Recording, Registration

P = ParamSpec("P")
_CANCEL_SECONDS = 5.0
_STACK_TRACE = "_get_stack_trace"


class _Exit(Exception):  # noqa: N818 - carries a SystemExit through the event loop, which would stop on one
    def __init__(self, code: object) -> None:
        super().__init__()
        self.code = code


# The SDK leaves cycles that hold 80% of a program's memory. Collecting them takes a tenth of a
# program's time, so small programs do not collect them.
_LARGE: Final = 10_000


def _isolated(function: Callable[P, None]) -> Callable[P, None]:
    @functools.wraps(function)
    def isolated(*args: P.args, **kwargs: P.kwargs) -> None:
        with without_collections():
            contextvars.copy_context().run(functools.partial(function, *args, **kwargs))

    return isolated


@_isolated
def run(
    program: Callable[[], object] | Path,
    monitor: Monitor,
    *,
    config: Mapping[str, str],
    secret_keys: Collection[str] = (),
    preview: bool,
    waits: bool = False,
    give_up: Callable[[], None] | None = None,
    root: Path | None = None,
) -> None:
    """Run `program` to its end, all registrations answered.

    `config` maps full keys (`inferplan:cluster`) to strings, structured values as JSON. If the
    monitor `waits`,
    any number of registrations may block at once. `give_up` is called when the run is interrupted
    (Ctrl-C), to release registrations that block. `root` is the project's folder, by default the
    current one. Raises ProgramFailed.
    """
    runtime_settings.ROOT.set(None)
    settings = runtime_settings.Settings(
        project=monitor.project,
        stack=monitor.stack,
        monitor=monitor,
        engine=monitor,
        dry_run=preview,
        organization="organization",
        root_directory=str(root or Path.cwd()),
    )
    runtime_settings.configure(settings)
    set_all_config(dict(config), sorted(secret_keys))
    loop = asyncio.new_event_loop()
    # A failed program leaves futures that are never read; the failure itself is raised below.
    loop.set_exception_handler(lambda _loop, _context: None)
    executor = Executor(threads=waits)
    loop.set_default_executor(executor)
    try:
        with _without_stack_traces():
            loop.run_until_complete(run_in_stack(lambda: _settled(program, settings)))
    except RehearsalError:
        raise
    except Exception as error:
        raise _failure(error, monitor) from error
    except BaseException:
        if give_up is not None:
            give_up()
        raise
    finally:
        _drain(loop)
        executor.shutdown(wait=True)
        loop.close()


@contextlib.contextmanager
def _without_stack_traces() -> Iterator[None]:
    """Registrations carry no stack trace, which no monitor of ours reads: the SDK spends a seventh
    of a plan on it and has no option.

    An SDK without the private function takes its traces as ever.
    """
    taken = getattr(registrations, _STACK_TRACE, None)
    if taken is None:
        yield
        return
    setattr(registrations, _STACK_TRACE, source_pb2.StackTrace)
    try:
        yield
    finally:
        setattr(registrations, _STACK_TRACE, taken)


async def _settled(program: Callable[[], object] | Path, settings: Any) -> None:
    """Run `program`, and return when its registrations and outputs are done, or when one fails,
    which the SDK then raises.

    The SDK waits for outputs too, but scans those that are left after each one: a tenth of the
    processor time of 4,000 resources.
    """
    outcome = _call(program)
    if asyncio.iscoroutine(outcome):
        await outcome
    failed = False
    while not failed:
        pending = [
            each for each in (*settings.rpc_manager.rpcs, *settings.outputs) if not each.done()
        ]
        if not pending:
            return
        done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        failed = any(each.cancelled() or each.exception() for each in done)


def _call(program: Callable[[], object] | Path) -> Any:
    try:
        if isinstance(program, Path):
            directory = program if program.is_dir() else program.parent
            with contextlib.chdir(directory):
                runpy.run_path(str(program.resolve()), run_name="__main__")
            return None
        return program()
    except SystemExit as stop:
        raise _Exit(stop.code) from stop


def _drain(loop: asyncio.AbstractEventLoop) -> None:
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    if pending:
        # After Ctrl-C a task of the SDK may swallow its cancellation and wait for an answer that
        # never comes.
        loop.run_until_complete(asyncio.wait(pending, timeout=_CANCEL_SECONDS))


def _failure(error: Exception, monitor: Monitor) -> ProgramFailed:
    if monitor.refused is not None:
        return ProgramFailed(monitor.refused.message)
    if isinstance(error, _Exit):
        if isinstance(error.code, int) or error.code is None:
            return ProgramFailed(
                next(
                    (
                        each.message
                        for each in reversed(monitor.diagnostics)
                        if each.severity == "error"
                    ),
                    "",
                )
            )
        return ProgramFailed(str(error.code))
    if isinstance(error, pulumi.RunError):
        return ProgramFailed(str(error))
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if not any(part in frame.filename for part in ("site-packages", "<frozen", __file__))
    ]
    where = (
        f" ({Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name})" if ours else ""
    )
    return ProgramFailed(f"the program failed: {type(error).__name__}: {error}{where}")


class _Preview:
    """Leaves ids and computed outputs unknown, as the first preview of a stack does."""

    def register(self, registration: Registration) -> Realized:
        """The inputs; fields that the API server or AWS sets below them stay unknown."""
        if (outputs := aws.preview(registration)) is not None:
            return Realized(outputs=outputs)
        return Realized(
            unknown_metadata=(
                ("uid", "resourceVersion")
                if is_object(registration.type, registration.inputs)
                else ()
            )
        )

    def read(self, registration: Registration) -> Realized:
        """The id; other outputs are unknown without the cluster."""
        return Realized(id=registration.id)

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The stub of the function; None, which is unknown, for one whose result only AWS knows."""
        if token in aws.KNOWN_BY_AWS:
            return None
        answer = aws.answer(token, arguments)
        if answer is None:
            raise RegistrationRefused(
                f"the function {token} needs a provider, and a plan without the Pulumi CLI runs"
                " none"
            )
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

    `program` is a callable, or the folder or file in `main` of `Pulumi.yaml`. `config` maps full
    keys (`inferplan:cluster`) to strings, structured values as JSON, as the CLI passes them. With
    `preview=False` a value that the program does not set is None instead of unknown. `root` is the
    project's folder. Raises ProgramFailed.
    """
    monitor = Monitor(project=project, stack=stack, realizer=_Preview())
    run(program, monitor, config=config or {}, secret_keys=secret_keys, preview=preview, root=root)
    if len(monitor.registrations) > _LARGE:
        gc.collect()
    shown = {
        name: "[secret]" if name in secret_keys else value
        for name, value in sorted((config or {}).items())
    }
    return replace(monitor.recording(), config=shown)
