"""What our validation refuses, the server refuses: every case in one start, each in models of its own names."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from components.serving.triton.messages import config_of
from components.serving.triton.repository import repository_files
from tests.dataplane.serving.triton_cases import SOUND, UNJUDGED, WRONG, mutated, pbtxt
from tests.dataplane.serving.triton_stand import GAUDI, running, spec_of

LISTED = list(WRONG)


def _renamed(repository, number: int):
    """Names of a case's models: those that it changes, and ensembles, are its own; the others are the sound repository's."""
    own = {name for name, model in repository.items() if model["kind"] == "ensemble" or model != SOUND.get(name)}
    return lambda name: f"{name}_{number}" if name in own else name


def _files(repository, rename) -> dict[str, str]:
    files = {}
    for name, model in repository.items():
        files[f"{rename(name)}/config.pbtxt"] = pbtxt(name, model, rename)
        files[f"{rename(name)}/1/{'model.py' if 'code' in model else 'none.txt'}"] = model.get("code", "-")
    return files


@pytest.fixture(scope="module")
def states(tritonserver, tmp_path_factory):
    """State and reason of every model, by name, as the server's index lists them."""
    files = _files(SOUND, str)
    for number, changes in enumerate(WRONG.values()):
        repository = mutated(changes)
        files |= _files(repository, _renamed(repository, number))
    spec = spec_of(SOUND, modelLoadThreadCount=8)
    with running(
        tritonserver, spec, files, tmp_path_factory.mktemp("verdicts"), "--exit-on-error=false", "--strict-readiness=false"
    ) as triton:
        status, body = triton.ask("POST", "/v2/repository/index", {})
        assert status == 200
        return {each["name"]: (each.get("state"), each.get("reason", "")) for each in json.loads(body)}


def test_the_second_hand_writes_what_the_component_writes():
    files = repository_files(spec_of(SOUND), weights="/models/x", target=GAUDI)
    for name, model in SOUND.items():
        assert config_of(pbtxt(name, model)) == config_of(files[f"{name}/config.pbtxt"])


def test_the_sound_repository_is_taken_by_both(states):
    assert {states[name][0] for name in SOUND} == {"READY"}


@pytest.mark.parametrize("case", [*LISTED, *UNJUDGED])
def test_a_wrong_repository_is_refused_by_our_validation_with_the_reason(case):
    with pytest.raises(ValidationError) as refused:
        spec_of(mutated({**WRONG, **UNJUDGED}[case]))
    assert all(re.search(r"\w", fault["msg"]) for fault in refused.value.errors())


@pytest.mark.parametrize("case", LISTED)
def test_a_wrong_repository_is_refused_by_the_server_too(case, states):
    repository = mutated(WRONG[case])
    rename = _renamed(repository, LISTED.index(case))
    verdicts = {name: states.get(rename(name), (None, "not listed")) for name in repository}
    assert any(state != "READY" for state, _ in verdicts.values()), verdicts
