"""The program's own reading of its configuration, as both engines pass it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pulumi
import pytest

from inferplan.errors import ProgramFailed
from inferplan.pulumi_engine.program.record import record
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.run_error import StackRunError
from inferplan.stackfile.settings import load
from inferplan.stackfile.stack import Stack

PROJECT = Path(__file__).parents[3]
SEED, PREVIOUS = "inferplan:apiKeySeed", "inferplan:previousApiKeySeed"
STRONG = "5f0c9a7e31d84b62a9e0c7d1f3b58264970ad6be12c34f8809b7e6d5c4a3f210"


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "stacks").mkdir()
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    shutil.copy(PROJECT / "stacks" / "Pulumi.local.yaml", tmp_path / "stacks" / "Pulumi.test.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config_of(project: Path) -> dict[str, str]:
    return {**read_stack(project / "stacks" / "Pulumi.test.yaml").config, SEED: STRONG}


def run_load(config: dict[str, str], *, secret: bool = True) -> Stack:
    kept = []
    keys = [SEED, PREVIOUS] if secret else []
    record(
        lambda: kept.append(load()),
        project="inferplan",
        stack="test",
        config=config,
        secret_keys=keys,
        preview=True,
    )
    return kept[0]


def refusal(config: dict[str, str], *, secret: bool = True) -> StackRunError:
    with pytest.raises(ProgramFailed) as caught:
        run_load(config, secret=secret)
    assert isinstance(caught.value.__cause__, StackRunError)
    assert "Traceback" not in str(caught.value), "a refusal shows no traceback"
    return caught.value.__cause__


def test_load_returns_settings_and_the_seed_as_a_secret_output(project):
    stack = run_load(config_of(project))
    assert stack.name == "test"
    assert sorted(stack.settings.models) == ["llama-3-70b", "llama-3-8b"]
    [seed] = stack.secrets.seeds
    assert isinstance(seed, pulumi.Output)
    assert STRONG not in repr(stack)


def test_defaults_that_the_cli_adds_from_the_project_are_no_fault(project):
    defaults = {
        "inferplan:namespace": "inference",
        "inferplan:gateway": "{}",
        "inferplan:consumers": "{}",
        "inferplan:storage": "{}",
    }
    config = {
        "inferplan:cluster": '{"provider":"simulated"}',
        "inferplan:nodePools": "{}",
        "inferplan:models": "{}",
        **defaults,
        SEED: STRONG,
    }
    (project / "stacks" / "Pulumi.test.yaml").unlink()
    assert run_load(config).settings.gateway is None


def test_faults_carry_positions_of_the_stack_file_that_the_values_came_from(project):
    path = project / "stacks" / "Pulumi.test.yaml"
    path.write_text(path.read_text().replace("replicas: 2", "replicas: two"))
    [line] = refusal(config_of(project)).lines
    assert line.startswith("stacks/Pulumi.test.yaml:")
    assert (
        "models.llama-3-8b.replicas: 'two' is not valid. Expected a whole number or a range, for"
        " example {min: 1, max: 3}." in line
    )


def test_values_of_another_file_are_not_given_positions_of_this_one(project):
    config = {**config_of(project), "inferplan:cluster": '{"provider":"simulate"}'}
    [line] = refusal(config).lines
    assert line.startswith("stack test: cluster.provider: Unsupported value 'simulate'.")


def test_a_misspelt_key_is_refused_although_no_field_asks_for_it(project):
    path = project / "stacks" / "Pulumi.test.yaml"
    path.write_text(path.read_text() + "  inferplan:namspace: a\n")
    [line] = refusal(config_of(project)).lines
    assert "namspace: Unknown field 'namspace'. Did you mean 'namespace'?" in line


def test_a_seed_in_clear_is_refused_whatever_the_file_says(project):
    refused = refusal(config_of(project), secret=False)
    assert any(
        "apiKeySeed: The secret is in plain text but must be encrypted. Consider it compromised,"
        " and set a new one: pulumi config set --secret apiKeySeed" in line
        for line in refused.lines
    )
    assert STRONG not in str(refused)


def test_a_missing_seed_is_one_fault(project):
    config = config_of(project)
    del config[SEED]
    [line] = refusal(config).lines
    assert "apiKeySeed" in line
    assert "pulumi config set --secret apiKeySeed" in line


def test_a_previous_seed_is_a_secret_and_held_to_the_same_rules(project):
    both = run_load({**config_of(project), PREVIOUS: STRONG[::-1]}).secrets.seeds
    assert [isinstance(each, pulumi.Output) for each in both] == [True, True]
    [weak] = refusal({**config_of(project), PREVIOUS: "short"}).lines
    assert "previousApiKeySeed: The seed has 5 characters" in weak
    [same] = refusal({**config_of(project), PREVIOUS: STRONG}).lines
    assert "previousApiKeySeed: The seed is the same as apiKeySeed" in same
    refused = refusal({**config_of(project), PREVIOUS: STRONG[::-1]}, secret=False)
    assert sum("plain text" in line for line in refused.lines) == 2
    assert STRONG[::-1] not in str(refused)


def test_a_refusal_is_an_error_that_pulumi_prints_without_a_traceback(project):
    refused = refusal({**config_of(project), "inferplan:cluster": "{"})
    assert isinstance(refused, pulumi.RunError)
    assert str(refused).endswith("Nothing was registered. Fix it and run the command again.")


@pytest.mark.parametrize(
    ("seed", "words"),
    [("short", "has 5 characters"), ("ab" * 32, "has only 2 different characters")],
)
def test_a_seed_that_can_be_guessed_is_refused_without_being_shown(project, seed, words):
    [line] = refusal({**config_of(project), SEED: seed}).lines
    assert f"apiKeySeed: The seed {words}" in line
    assert "openssl rand -hex 32" in line
    assert seed not in line
