"""Declares a program in memory and hands back what it registered, for unit tests of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferplan.pulumi_engine.program.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from inferplan.pulumi_engine.recording import Recording

PROJECT = "inferplan"
STACK = "test"


def declare(
    program: Callable[[], object],
    *,
    config: Mapping[str, str] | None = None,
    secret_keys: Collection[str] = (),
    preview: bool = True,
) -> Recording:
    """What `program` registers in the stack `test`; see `Recording.of_type` and `.one` for the
    finders.

    Inputs are plain data. Secrets stay `Secret(value)` (compare with `Secret("...")`), what only an
    update
    knows is `UNKNOWN`; both come from `inferplan.pulumi_engine.values`.
    """
    return record(
        program,
        project=PROJECT,
        stack=STACK,
        config=config,
        secret_keys=secret_keys,
        preview=preview,
    )
