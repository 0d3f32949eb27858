"""A stack with the keys of an example may be planned and rehearsed, and comes to no real cluster."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.errors import ProgramFailed
from inferplan.infra.program import REHEARSAL
from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, new_salt, unlock
from inferplan.stackfile.public_examples import EXAMPLES, mark, publicity
from inferplan.stackfile.reader import read_stack

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = [
    ROOT / "stacks" / f"Pulumi.{name}.yaml"
    for name in ("dev", "local", "onprem", "prod", "staging")
]
PUBLIC += sorted((ROOT / "docs").rglob("Pulumi.*.yaml"))
OWN_SEED = "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
CONFIG = {
    "inferplan:nodePools": (
        '{"gaudi2": {"provider": "existing", "accelerator": "gaudi-2", "nodes": 2}}'
    )
}
EXISTING = CONFIG | {"inferplan:cluster": '{"provider": "existing", "context": "onprem"}'}


@pytest.fixture(scope="module")
def salts_and_seeds():
    files = [read_stack(path) for path in PUBLIC]
    # Several have one salt, and a key takes a while to derive.
    boxes = {
        salt: unlock(EXAMPLE_PASSPHRASE, salt or "")
        for salt in {file.encryption_salt for file in files}
    }
    return [
        (
            file.encryption_salt or "",
            boxes[file.encryption_salt].decrypt(file.secrets["inferplan:apiKeySeed"]),
        )
        for file in files
    ]


def test_every_example_is_known_and_nothing_besides(salts_and_seeds):
    """A new example of stacks/ or docs/ adds its marks to EXAMPLES: those that this names as
    missing.
    """
    assert {mark(each) for pair in salts_and_seeds for each in pair} == EXAMPLES


def test_no_mark_is_written_in_an_example(salts_and_seeds):
    text = " ".join(each for pair in salts_and_seeds for each in pair)
    assert not [each for each in EXAMPLES if each in text]


def test_the_seed_the_salt_and_the_passphrase_each_give_a_stack_away(salts_and_seeds):
    salt, seed = salts_and_seeds[0]
    assert "anyone can derive" in (publicity(seed, None, None) or "")
    assert "anyone can derive" in (publicity(f" {seed}\n", "v1:own", "own") or "")
    assert "encrypted with the passphrase of the examples" in (
        publicity(OWN_SEED, salt, None) or ""
    )
    assert "encrypted with the passphrase of the examples" in (
        publicity(OWN_SEED, "v1:own", EXAMPLE_PASSPHRASE) or ""
    )
    assert publicity(OWN_SEED, "v1:own", "own") is None
    # Without a salt another provider seals, and a passphrase of another stack may well be set.
    assert publicity(OWN_SEED, None, EXAMPLE_PASSPHRASE) is None


def _run(
    seed: str,
    *,
    config: dict[str, str] | None = None,
    preview: bool = False,
    rehearsal: bool = False,
):
    def program() -> None:
        REHEARSAL.set(rehearsal)
        runpy.run_path(str(ROOT / "inferplan" / "infra"), run_name="__main__")

    given = (EXISTING if config is None else config) | {"inferplan:apiKeySeed": seed}
    return record(
        program if rehearsal else ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="acme",
        config=given,
        secret_keys={"inferplan:apiKeySeed"},
        preview=preview,
    )


def _warnings(recording):
    return [each for each in recording.diagnostics if each.severity != "info"]


@pytest.fixture
def _apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)


@pytest.mark.usefixtures("_apart")
def test_an_up_is_refused_and_registers_nothing(salts_and_seeds):
    for _, seed in salts_and_seeds[:2]:
        with pytest.raises(ProgramFailed) as caught:
            _run(seed)
        said = str(caught.value)
        assert (
            "apiKeySeed: The seed is that of a public example, so anyone can derive the keys of"
            " this stack." in said
        )
        assert "Nothing was registered" in said
        assert "inferplan new NAME --from acme" in said
        assert seed not in said


@pytest.mark.usefixtures("_apart")
def test_an_up_with_keys_of_its_own_or_on_the_simulated_cluster_is_not(
    salts_and_seeds, tmp_path, monkeypatch
):
    assert not _warnings(_run(OWN_SEED))
    (tmp_path / "kubeconfig").touch()
    monkeypatch.setenv("INFERPLAN_KUBECONFIG", str(tmp_path / "kubeconfig"))
    simulated = {"inferplan:cluster": '{"provider": "simulated"}', "inferplan:nodePools": "{}"}
    assert not _warnings(_run(salts_and_seeds[0][1], config=simulated))


@pytest.mark.usefixtures("_apart")
def test_a_plan_and_a_rehearsal_warn_about_public_keys_and_continue(salts_and_seeds):
    seed = salts_and_seeds[0][1]
    for recording in (_run(seed, preview=True), _run(seed, rehearsal=True)):
        assert [each.severity for each in _warnings(recording)] == ["warning"]
        assert (
            "up on a real cluster is rejected. Next: inferplan new NAME --from acme"
            in _warnings(recording)[0].message
        )


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a stack `acme` and a `pulumi` that must not be called."""
    for name in ("Pulumi.yaml", "inferplan/infra", "policies"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "stacks" / "Pulumi.onprem.yaml", tmp_path / "stacks" / "Pulumi.onprem.yaml")
    pulumi = tmp_path / "bin" / "pulumi"
    pulumi.parent.mkdir()
    pulumi.write_text(f"#!/bin/sh\necho called > {tmp_path}/called\n")
    pulumi.chmod(0o700)
    monkeypatch.setenv("PATH", str(pulumi.parent), prepend=":")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
    # What the pack says of the stack is told elsewhere, and takes its time.
    monkeypatch.setattr("inferplan.commands.up.command.check_policies", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("own", [True, False])
def test_the_cli_refuses_before_it_calls_pulumi(project, capfd, monkeypatch, own):
    if own:
        salt, box = new_salt("own")
        path = project / "stacks" / "Pulumi.onprem.yaml"
        lines = [
            (
                f"encryptionsalt: {salt}"
                if "encryptionsalt" in line
                else f"    secure: {box.encrypt(OWN_SEED)}"
                if "secure" in line
                else line
            )
            for line in path.read_text().splitlines()
        ]
        path.write_text("\n".join(lines).replace("acme.example", "llm-lab.net") + "\n")
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "own")
    with pytest.raises(SystemExit) as ended:
        main.run(("up", "onprem", "--yes"))
    said = capfd.readouterr().err
    assert (project / "called").exists() == own, said
    # Where Pulumi is reached, its own exit code decides, and this one is a stub.
    assert own or ended.value.code == 1
    assert (
        "stacks/Pulumi.onprem.yaml: apiKeySeed: The seed is that of a public example" in said
    ) != own
