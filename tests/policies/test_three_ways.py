"""The same mutants by the pack's process, by `inferplan check` and by `inferplan up`: three ways,
one verdict.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from inferplan.commands.up import command as up
from inferplan.errors import OperationError
from inferplan.planning.policy_check import judge
from tests.lanes import in_full
from tests.policies.analyzer import MANDATORY, analyze, configure, pack
from tests.policies.mutants import mutants_of, without
from tests.policies.recorded import recorded

if TYPE_CHECKING:
    from inferplan.workspace.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]


def picked(name: str, often: int):
    """The unchanged stack, and some of its mutants: those of single resources, and all kinds of
    those of the whole stack.
    """
    recording = recorded(name)
    some = [*mutants_of(recording)][::often] + [*without(recording)][:: often // 15]
    return [("unchanged", recording), *((each.name, each.recording) for each in some)]


@pytest.fixture(scope="module")
def stub():
    with pack() as running:
        configure(running, {})
        yield running


def by_process(stub, recording):
    """What the pack's process says, as level and message; `-not-evaluated` puts its words before
    the rule's, `-exemptions` judges nothing.
    """
    said = [
        each for each in analyze(stub, recording) if not each.policyName.endswith("-exemptions")
    ]
    told = {(each.enforcementLevel == MANDATORY, each.message.partition("\n")[2]) for each in said}
    return {(mandatory, message.removeprefix("not evaluated: ")) for mandatory, message in told}


def by_check(recording):
    report = judge(recording, ROOT)
    return {(True, each.message) for each in report.violations} | {
        (False, each.message) for each in report.advice
    }


def refused_by_up(recording, capfd):
    workspace = SimpleNamespace(root=ROOT, stack=recording.stack)
    try:
        up.check_policies(cast("Workspace", workspace), recording)
    except OperationError as refusal:
        words = str(refusal)
        if "Nothing was applied" not in words:
            return {words}
        return {
            line.strip().split()[0] for line in capfd.readouterr().err.splitlines() if line.strip()
        }
    return set()


@pytest.mark.parametrize(
    ("stack", "often"), [("prod", 2400), *in_full(("prod", 100), ("local", 60), ("onprem", 20))]
)
@pytest.mark.full
def test_mutants_get_the_same_verdict_from_the_process_from_check_and_from_up(
    stack, often, stub, monkeypatch, capfd
):
    monkeypatch.chdir(ROOT)
    cases = picked(stack, often)
    verdicts = {}
    for name, recording in cases:
        said = by_check(recording)
        assert by_process(stub, recording) == said, name
        refusing = {
            message.partition("]")[0].removeprefix("[") for mandatory, message in said if mandatory
        }
        words = refused_by_up(recording, capfd)
        assert refusing <= words, name
        assert bool(refusing) == bool(words), name
        verdicts[name] = bool(refusing)
    assert verdicts.pop("unchanged") is False
    assert sum(verdicts.values()) >= len(verdicts) / 2
