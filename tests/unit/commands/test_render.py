"""`inferplan render`: manifests in order, the same in every run, judged by the pack, and without
the value of any secret.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import yaml

from inferplan.commands import main
from inferplan.commands.render.manifests import WAVE, manifests_of
from inferplan.errors import OperationError
from inferplan.pulumi_engine.values import UNKNOWN, Secret
from inferplan.workspace import project
from inferplan.workspace.workspace import open_workspace
from tests.canaries import hits

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.setattr(project, "SELECTION", project.Selection())
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    for name in ("Pulumi.yaml", "inferplan/infra", "policies"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "stacks").mkdir()
    for stack in ("local", "onprem", "prod"):
        shutil.copy(ROOT / "stacks" / f"Pulumi.{stack}.yaml", tmp_path / "stacks")
    monkeypatch.chdir(tmp_path)


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(arguments)
    return int(ended.value.code or 0)


def _files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def _documents(folder: str) -> list[dict]:
    kustomization = yaml.safe_load(Path(folder, "kustomization.yaml").read_text())
    assert kustomization["sortOptions"] == {"order": "fifo"}
    names = kustomization["resources"]
    assert sorted([*names, "kustomization.yaml"]) == sorted(_files(folder))
    return [yaml.load(Path(folder, name).read_text(), Loader=yaml.CSafeLoader) for name in names]


def test_a_second_run_changes_nothing_and_another_folder_gets_the_same_bytes(capsys):
    assert _run("render", "onprem", "--to", "one") == _run("render", "onprem", "--to", "two") == 0
    assert _files("one") == _files("two")
    times = {path.name: path.stat().st_mtime_ns for path in Path("one").iterdir()}
    capsys.readouterr()
    assert _run("render", "onprem", "--to", "one") == 0
    assert capsys.readouterr().out.startswith(f"one: {len(times)} files, 0 changed\n")
    assert {path.name: path.stat().st_mtime_ns for path in Path("one").iterdir()} == times


def test_every_object_follows_what_it_depends_on_in_the_list_and_in_its_wave():
    recording = open_workspace("onprem").record()
    _run("render", "onprem", "--to", "out")
    documents = _documents("out")
    waves = {
        (each["kind"], each["metadata"]["name"]): int(each["metadata"]["annotations"][WAVE])
        for each in documents
    }
    places = {
        (each["kind"], each["metadata"]["name"]): number for number, each in enumerate(documents)
    }
    objects = {
        each.urn: (each.inputs["kind"], each.inputs["metadata"]["name"])
        for each in recording
        if "kind" in each.inputs
    }
    compared = 0
    for each in recording:
        for urn in each.dependencies:
            if objects.get(each.urn) in places and objects.get(urn) in places:
                compared += 1
                assert places[objects[urn]] < places[objects[each.urn]]
                assert waves[objects[urn]] < waves[objects[each.urn]]
    assert compared > 20
    assert places["Namespace", "inference"] == 0
    job = next(
        each
        for each in documents
        if each["kind"] == "Job" and each["metadata"]["name"].startswith("qwen")
    )
    assert waves["Job", job["metadata"]["name"]] < waves["Deployment", "qwen-3-8b"]


def test_no_file_holds_the_value_of_a_secret_in_any_spelling(capsys):
    workspace = open_workspace("local")
    secrets = {
        f"{each.name}.{key}": value
        for each in workspace.record()
        if each.inputs.get("kind") == "Secret"
        for key, value in each.inputs["data"].value.items()
    }
    secrets |= {"seed": workspace.secrets.values["inferplan:apiKeySeed"]}
    assert len(secrets) >= 6
    for store in ((), ("--secret-store", "vault")):
        folder = f"out{len(store)}"
        assert _run("render", "local", "--to", folder, *store) == 0
        printed = capsys.readouterr()
        assert (
            hits(
                secrets,
                {**_files(folder), "out": printed.out.encode(), "err": printed.err.encode()},
            )
            == []
        )


def test_secrets_are_names_that_must_exist_or_external_secrets(capsys):
    assert _run("render", "local", "--to", "names") == 0
    assert "  inference/consumer-chat: api-key\n" in capsys.readouterr().out
    assert (
        "# - Secret inference/consumer-chat: api-key\n"
        in Path("names/kustomization.yaml").read_text()
    )
    assert not [each for each in _documents("names") if "Secret" in each["kind"]]
    assert _run("render", "local", "--to", "external", "--secret-store", "vault") == 0
    external = {
        each["metadata"]["name"]: each
        for each in _documents("external")
        if each["kind"] == "ExternalSecret"
    }
    assert len(external) == 5
    spec = external["consumer-chat"]["spec"]
    assert spec["secretStoreRef"] == {"kind": "ClusterSecretStore", "name": "vault"}
    remote = {"key": "inferplan/local/inference/consumer-chat", "property": "api-key"}
    assert spec["data"] == [{"secretKey": "api-key", "remoteRef": remote}]


def test_files_of_an_earlier_run_go_and_files_of_others_stop_it(capsys):
    assert _run("render", "local", "--to", "out") == 0
    assert _run("render", "onprem", "--to", "out") == 0
    _documents("out")
    assert not list(Path("out").glob("node-*"))
    Path("out/mine.yaml").touch()
    before = _files("out")
    assert _run("render", "local", "--to", "out") == 2
    assert "out holds files that render did not write: mine.yaml" in capsys.readouterr().err
    assert _files("out") == before
    Path("other").mkdir()
    Path("other/kustomization.yaml").write_text("resources: []\n")
    assert _run("render", "local", "--to", "other") == 2
    assert "other/kustomization.yaml was not written by render" in capsys.readouterr().err


def test_a_stack_that_the_pack_blocks_or_without_its_passphrase_writes_nothing(monkeypatch, capsys):
    Path("policies").unlink()
    Path("inferplan/policies/stacks").mkdir(parents=True)
    Path("inferplan/policies/stacks/local.json").write_text(json.dumps({"exemptions": []}))
    assert _run("render", "local", "--to", "out") == 1
    assert "network-require-tls" in capsys.readouterr().err
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    assert _run("render", "onprem", "--to", "out") == 2
    assert "Set PULUMI_CONFIG_PASSPHRASE" in capsys.readouterr().err
    assert not Path("out").exists()


def test_values_that_only_an_update_knows_are_named(capsys):
    assert _run("render", "prod", "--to", "out") == 1
    assert (
        "NodeClass l40s-auto has a value in spec.role that only an update knows"
        in capsys.readouterr().err
    )
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (Secret("a long secret text"), "has a secret in data.copy, which no manifest may hold"),
        (UNKNOWN, "has a value in data.copy that only an update knows"),
        ("{key}", "would hold the value of a secret, so nothing was written"),
    ],
)
def test_a_secret_in_another_object_is_never_written(value, problem):
    recording = open_workspace("local").record()
    key = (
        next(each for each in recording if each.name == "api-keys-consumer-chat")
        .inputs["data"]
        .value["api-key"]
    )
    value = key if value == "{key}" else value
    changed = tuple(
        dataclasses.replace(each, inputs={**each.inputs, "data": {"copy": value}})
        if each.inputs.get("kind") == "ConfigMap"
        else each
        for each in recording.registrations
    )
    with pytest.raises(OperationError, match=problem):
        manifests_of(dataclasses.replace(recording, registrations=changed), "inference")
