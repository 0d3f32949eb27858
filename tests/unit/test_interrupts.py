"""A process that starts while Ctrl-C arrives is not lost."""

import signal

import pytest

from inferplan.errors import Terminated
from inferplan.interrupts import delayed_interrupts


@pytest.fixture(autouse=True)
def handlers():
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {each: signal.getsignal(each) for each in before} == before


def start(steps):
    with delayed_interrupts() as deliver:
        signal.raise_signal(signal.SIGINT)
        steps.append("started")
        deliver()
        steps.append("not interrupted")


def test_ctrl_c_arrives_when_the_block_asks_for_it():
    steps = []
    with pytest.raises(KeyboardInterrupt):
        start(steps)
    assert steps == ["started"]


def fail_to_start():
    with delayed_interrupts():
        signal.raise_signal(signal.SIGINT)
        raise FileNotFoundError


def test_a_block_that_fails_itself_does_not_lose_the_signal():
    with pytest.raises(KeyboardInterrupt):
        fail_to_start()


def test_each_signal_arrives_once_and_in_its_order():
    def terminate(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    raised = []
    try:
        with delayed_interrupts() as deliver:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            for _ in range(3):
                try:
                    deliver()
                except KeyboardInterrupt as error:
                    raised.append(type(error))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert raised == [Terminated, KeyboardInterrupt]


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with delayed_interrupts():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_after_the_block_ctrl_c_interrupts_at_once():
    with delayed_interrupts() as deliver:
        deliver()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
