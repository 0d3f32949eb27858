"""Ctrl-C while the program registers."""

import asyncio

import pytest

from inferplan.pulumi_engine.program import record as program_runs
from inferplan.pulumi_engine.program.record import record


def test_an_interrupted_run_ends_although_a_task_swallows_its_cancellation(monkeypatch):
    monkeypatch.setattr(program_runs, "_CANCEL_SECONDS", 0.1)

    async def stubborn():
        try:
            await asyncio.Future()
        except asyncio.CancelledError:
            await asyncio.Future()

    async def program():
        tasks.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    tasks = []
    with pytest.raises(KeyboardInterrupt):
        record(program, project="p", stack="s")
