"""What `inferplan preheat` says would happen is what then happens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from inferplan.commands.main import run
from inferplan.components.preheat.payload.request import parse
from inferplan.components.preheat.preview import list_source, mounted, preview_share

from .proxy import BUCKET
from .rig import MODEL, SECRET, tiny_model

PROJECT = Path(__file__).parents[3]
SHARD = "model-00001-of-00002.safetensors"
CHANGED = b'{"model_type": "changed"}'


@pytest.fixture
def preview(monkeypatch):
    """Previews what the container of a Job would do, in the environment that it would have."""

    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)

    def look(preheat):
        for name, value in preheat.env.items():
            if name.startswith(("RCLONE_", "AWS_")):
                monkeypatch.setenv(name, value)
        request = mounted(
            parse(preheat.env["PREHEAT_REQUEST"], "inference"), share=preheat.target, source=None
        )
        listing = list_source(request)
        return listing, preview_share(request, listing.files)

    return look


def tree(path):
    return {
        each.relative_to(path): (each.stat().st_mtime_ns, each.is_file() and each.read_bytes())
        for each in path.rglob("*")
    }


def test_a_preview_of_an_empty_share_moves_everything_and_writes_nothing(
    job, small, preview, proxy
):
    preheat = job()
    listing, outlook = preview(preheat)
    assert {file.path for file in listing.files} == set(small)
    assert set(outlook.actions.values()) == {"moved"}
    assert not any(preheat.target.iterdir())
    assert not proxy.faults.gets


def test_a_raised_round_previews_what_it_then_moves_links_and_removes(job, small, put, preview):
    for number in range(2):
        assert job(preheat={"round": number}).run().code == 0
    put({"config.json": CHANGED})
    preheat = job(preheat={"round": 2})
    before = tree(preheat.target)
    _listing, outlook = preview(preheat)
    assert tree(preheat.target) == before
    assert {path for path, action in outlook.actions.items() if action == "moved"} == {
        "config.json"
    }
    assert [name[-3:] for name in outlook.removed] == ["-r0"]
    output = preheat.run().output
    assert f", {len(CHANGED)} B moved" in output
    assert [f"removed round {name}" in output for name in outlook.removed] == [True]
    assert preheat.files() == small | {"config.json": CHANGED}


@pytest.mark.full
@pytest.mark.usefixtures("small")
def test_a_round_that_another_model_reads_is_not_announced_as_removed(job, preview):
    assert job(name="other").run().code == 0
    for number in (1, 2):
        assert job(preheat={"round": number}).run().code == 0
    assert preview(job(preheat={"round": 3}))[1].removed == (
        job(preheat={"round": 1}).directory.name,
    )


@pytest.mark.usefixtures("small")
def test_a_ready_round_previews_nothing_to_move_and_a_damaged_one_its_damage(job, preview):
    preheat = job()
    preheat.run()
    assert preview(preheat)[1].ready
    # The model itself reads that round for as long as the next one is not there.
    assert preview(job(preheat={"round": 1, "keep": 1}))[1].removed == (preheat.directory.name,)
    (preheat.directory / "config.json").write_bytes(b"{}")
    _listing, outlook = preview(preheat)
    assert not outlook.ready
    assert "config.json: expected 23 bytes, found 2 bytes" in outlook.damage
    assert preheat.run().code == 0, "the next run mends it"


@pytest.fixture
def project(tmp_path, proxy, monkeypatch):
    """A project whose stack keeps its weights in the S3 server of these tests."""
    root = tmp_path / "project"
    (root / "stacks").mkdir(parents=True)
    shutil.copy(PROJECT / "Pulumi.yaml", root)
    (root / "inferplan").mkdir()
    (root / "inferplan" / "infra").symlink_to(PROJECT / "inferplan" / "infra")
    stack = yaml.safe_load((PROJECT / "stacks" / "Pulumi.local.yaml").read_text())
    config = stack["config"]
    config["inferplan:storage"]["weights"] = {
        "kind": "s3",
        "bucket": BUCKET,
        "prefix": "llm",
        "region": "us-east-1",
        "endpoint": proxy.url,
        "credentials": {"secretName": "minio"},
    }
    model = config["inferplan:models"]["llama-3-8b"]
    config["inferplan:models"] = {
        "tiny": {**model, "weights": {"store": "weights", "path": MODEL, "size": "8Mi"}}
    }
    (root / "stacks" / "Pulumi.tiny.yaml").write_text(yaml.safe_dump(stack))
    monkeypatch.chdir(root)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET[name])


def preheat(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        run(["preheat", "tiny", "--stack", "tiny", *arguments])
    captured = capsys.readouterr()
    return ended.value.code or 0, captured.out + captured.err


@pytest.mark.usefixtures("project", "model")
def test_the_command_lists_the_source_and_says_where_the_files_would_go(capsys, tmp_path):
    share = tmp_path / "mounted"
    share.mkdir()
    code, words = preheat(capsys, "--round", "4", "--share", str(share))
    assert code == 0, words
    assert "-r4" in words
    assert "moves      5 files, 10.0 MiB" in words
    assert f"9.0 MiB  {SHARD}" in words
    assert "removes    nothing (keep: 2)" in words
    assert "weights.size is 8Mi, but the source has 10.0 MiB" in words


@pytest.mark.usefixtures("project")
@pytest.mark.full
def test_the_command_says_which_files_a_run_would_refuse(capsys, put):
    put({**tiny_model(), "pytorch_model.bin": b"\x80\x04."})
    code, words = preheat(capsys)
    assert code == 3
    assert "rejected   pytorch_model.bin: loading this kind of file runs code" in words


@pytest.mark.usefixtures("project", "model")
@pytest.mark.full
def test_a_source_that_cannot_be_reached_is_told_with_the_credentials_that_the_job_takes(
    capsys, proxy, monkeypatch
):
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, words = preheat(capsys)
    assert code == 3
    assert "not listed" in words
    assert "AWS_SECRET_ACCESS_KEY from Secret minio: export the same here" in words
    assert "capacity   2Ti on shared" in words
    assert not proxy.faults.gets
