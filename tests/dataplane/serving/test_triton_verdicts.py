"""Our validation and the server give the same verdict for the same reason: every case in one start,
each in models of its own names.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from inferplan.components.serving.triton.messages import config_of
from inferplan.components.serving.triton.repository import repository_files
from tests.dataplane.serving.second_hand import pbtxt
from tests.dataplane.serving.triton_cases import FITTING, UNJUDGED, WRONG, Change, mutated
from tests.dataplane.serving.triton_models import SOUND
from tests.dataplane.serving.triton_stand import GAUDI, running, spec_of

JUDGED: dict[str, list[Change]] = {
    **{name: case.changes for name, case in WRONG.items()},
    **FITTING,
}


def _renamed(repository, number: int):
    """Names of a case's models: those that it changes, and ensembles, are its own; the others are
    the sound repository's.
    """
    own = {
        name
        for name, model in repository.items()
        if model["kind"] == "ensemble" or model != SOUND.get(name)
    }
    return lambda name: f"{name}_{number}" if name in own else name


def _files(repository, rename) -> dict[str, str]:
    files = {}
    for name, model in repository.items():
        files[f"{rename(name)}/config.pbtxt"] = pbtxt(name, model, rename)
        files[f"{rename(name)}/1/{'model.py' if 'code' in model else 'none.txt'}"] = model.get(
            "code", "-"
        )
    return files


@dataclass(frozen=True)
class Verdicts:
    """The state of every model by name, and what the server said."""

    states: dict[str, str | None]
    log: list[str]

    def of(self, name: str) -> str:
        """What the server said of one model."""
        return "\n".join(
            line for line in self.log if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", line)
        )


@pytest.fixture(scope="module")
def verdicts(tritonserver, tmp_path_factory):
    files = _files(SOUND, str)
    for number, changes in enumerate(JUDGED.values()):
        repository = mutated(changes)
        files |= _files(repository, _renamed(repository, number))
    spec = spec_of(SOUND, modelLoadThreadCount=8)
    with running(
        tritonserver,
        spec,
        files,
        tmp_path_factory.mktemp("verdicts"),
        "--exit-on-error=false",
        "--strict-readiness=false",
    ) as triton:
        status, body = triton.ask("POST", "/v2/repository/index", {})
        assert status == 200
        return Verdicts(
            {each["name"]: each.get("state") for each in json.loads(body)}, triton.log.splitlines()
        )


def _judged(case: str, verdicts: Verdicts) -> tuple[dict[str, str | None], str]:
    """The state of each of the case's models, and what the server said of those that are its own."""
    repository = mutated(JUDGED[case])
    rename = _renamed(repository, list(JUDGED).index(case))
    said = "\n".join(verdicts.of(rename(name)) for name in repository if rename(name) != name)
    return {name: verdicts.states.get(rename(name)) for name in repository}, said


def test_the_second_hand_writes_what_the_component_writes():
    files = repository_files(spec_of(SOUND), weights="/models/x", target=GAUDI)
    for name, model in SOUND.items():
        assert config_of(pbtxt(name, model)) == config_of(files[f"{name}/config.pbtxt"])


def test_the_sound_repository_is_taken_by_both(verdicts):
    assert {verdicts.states[name] for name in SOUND} == {"READY"}


def faults(changes: list[Change]) -> str:
    with pytest.raises(ValidationError) as refused:
        spec_of(mutated(changes))
    return "\n".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in refused.value.errors()
    )


@pytest.mark.parametrize("case", UNJUDGED)
def test_a_repository_that_would_hang_is_refused_by_our_validation(case):
    assert re.search(r"repository|both", faults(UNJUDGED[case]))


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_repository_is_refused_by_both_for_the_same_reason(case, verdicts):
    assert WRONG[case].ours in faults(WRONG[case].changes)
    states, said = _judged(case, verdicts)
    assert any(state != "READY" for state in states.values()), states
    assert WRONG[case].servers in said


@pytest.mark.parametrize("case", FITTING)
def test_a_repository_that_works_is_taken_by_both(case, verdicts):
    spec_of(mutated(FITTING[case]))
    states, said = _judged(case, verdicts)
    assert set(states.values()) == {"READY"}, said
