"""A journal, a passphrase or a cluster that is not as expected: the stack's own objects stay its
own, and nothing is replaced.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.rehearsal.apply.inventory import unrecorded
from inferplan.rehearsal.cluster import start
from tests.lanes import in_full
from tests.rehearsal.commands import ROOT, changed_objects, inferplan, up

pytestmark = pytest.mark.cluster


@pytest.fixture
def journal(local_state):
    """The journal of the stack that is up, as each test leaves it."""
    path = local_state / "clusters" / "local" / "applied.jsonl"
    if not path.exists() or b'"intend"' not in path.read_bytes():
        up(local_state)
    return path


def damage(journal: Path, how: str) -> None:
    text = journal.read_bytes()
    match how:
        case "half":
            journal.write_bytes(text[: len(text) // 2])
        case "garbage":
            journal.write_bytes(bytes(range(256)) * 40)
        case "a line":
            lines = text.split(b"\n")
            odd = {
                "fact": "intend",
                "key": ["Pod", None, 3],
                "apiVersion": 1,
                "order": "x",
                "state": {"inputs": {}},
            }
            lines[len(lines) // 2] = json.dumps(odd).encode()
            journal.write_bytes(
                b"\n".join([*lines[:-1], b"[1]", b'{"fact": "gone"}', b"\x00\xff", b""])
            )
        case "emptied":
            journal.write_bytes(b"")
        case "deleted":
            journal.unlink()
        case "of another cluster":
            journal.write_bytes(
                re.sub(rb'"cluster":"[^"]*"', b'"cluster":"another"', text, count=1)
            )


@pytest.mark.parametrize(
    "how", ["half", *in_full("deleted", "garbage", "a line", "emptied", "of another cluster")]
)
def test_a_damaged_journal_is_named_and_the_objects_of_the_stack_stay_its_own(
    local_state, journal, how
):
    damage(journal, how)
    told = inferplan(local_state, "recover", "local", "--engine", "rehearsal", "--dry-run")
    assert told.returncode == 0, told.stderr
    assert ("is damaged" in told.stderr) == (how not in ("deleted", "of another cluster"))
    assert "did not create it" not in told.stderr
    assert "UNKNOWN" not in told.stderr + told.stdout
    updated = up(local_state)
    assert changed_objects(updated) == 0
    assert str(journal) in updated
    assert "are adopted" in updated
    assert "applied.jsonl" not in up(local_state), "the journal is whole again"


@pytest.mark.full
@pytest.mark.parametrize("how", ["half", "garbage", "deleted"])
def test_down_removes_what_a_damaged_journal_does_not_name(local_state, journal, how):
    damage(journal, how)
    done = inferplan(local_state, "down", "local", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr
    assert "are left" not in done.stderr
    api = start("local").api()
    assert list(unrecorded(api, ())) == []
    api.close()
    assert changed_objects(up(local_state)) > 30


def objects(api):
    secrets = api.request("GET", "/api/v1/namespaces/inference/secrets")["items"]
    deployments = api.request("GET", "/apis/apps/v1/namespaces/inference/deployments")["items"]
    return {
        each["metadata"]["name"]: each.get("data") or each["metadata"]["generation"]
        for each in (*secrets, *deployments)
    }


@pytest.mark.full
def test_without_the_passphrase_no_secret_is_compared_or_replaced(
    local_state, journal, api, monkeypatch
):
    assert journal.is_file()
    before = objects(api)
    monkeypatch.setattr("tests.rehearsal.commands._PRESET", {"COLUMNS": "1000"})
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)
    status = inferplan(local_state, "status", "local")
    assert status.returncode == 0, status.stderr
    assert "not compared: neither PULUMI_CONFIG_PASSPHRASE" in status.stderr
    assert "[not shown]" not in status.stdout
    updated = up(local_state)
    assert changed_objects(updated) == 0
    assert "existing Secrets stay as they are" in updated
    assert "new server key" not in updated
    assert objects(api) == before
    # What is new gets a placeholder, and a lost record is no reason to replace the others.
    damage(journal, "deleted")
    assert changed_objects(up(local_state)) == 0
    assert objects(api) == before


def test_recover_after_an_interrupted_down_creates_nothing_without_consent(
    local_state, journal, monkeypatch
):
    lock = journal.with_name("run.lock")
    lock.write_text(json.dumps({"pid": 1, "command": "down", "since": 0}))
    monkeypatch.setattr(
        "inferplan.commands.recover.command.rehearse",
        lambda *_, **_more: pytest.fail("it creates the stack again"),
    )
    told = inferplan(local_state, "recover", "local", "--engine", "rehearsal")
    assert told.returncode == 1
    assert "a down that did not finish" in told.stderr
    assert "inferplan down local" in told.stderr
    assert "recover local --yes" in told.stderr
    agreed = []
    monkeypatch.setattr(
        "inferplan.commands.recover.command.rehearse", lambda *_, **_more: agreed.append(True)
    )
    assert (
        inferplan(local_state, "recover", "local", "--engine", "rehearsal", "--yes").returncode == 0
    )
    assert agreed


@pytest.mark.parametrize("name", ["SIGTERM", *in_full("SIGHUP")])
def test_a_termination_ends_in_the_line_of_an_interrupt(tmp_path, name):
    program = "import os, signal, sys; from inferplan.commands import main as m; from inferplan.commands.schema import command as schema; "
    program += f"schema.command = lambda: os.kill(os.getpid(), signal.{name}); m.run(['schema'])"
    command = [sys.executable, "-c", program]
    # Under nohup, the tests themselves ignore SIGHUP, and what they start inherits that.
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert (
        done.stderr
        == "inferplan: interrupted; completed steps are kept. To continue, run: inferplan schema\n"
    )
    assert not list(tmp_path.iterdir())


def test_make_tells_the_passphrase_that_it_exports_to_its_own_commands_only(tmp_path):
    show = tmp_path / "show.mk"
    show.write_text(
        f"include {ROOT}/Makefile\nshow:\n\t@echo"
        " $$PULUMI_CONFIG_PASSPHRASE:$$INFERPLAN_DEFAULT_PASSPHRASE\n"
    )
    outputs = [
        subprocess.run(
            ["/usr/bin/make", "--no-print-directory", "-f", str(show), "show"],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for environment in ({}, {"PULUMI_CONFIG_PASSPHRASE": "own"})
    ]
    assert outputs == ["inferplan-example:1", "own:"]


def test_the_next_commands_of_make_up_begin_with_the_export(local_state, journal, monkeypatch):
    assert journal.is_file()
    line = "export PULUMI_CONFIG_PASSPHRASE=inferplan-example"
    assert line not in up(local_state)
    monkeypatch.setenv("INFERPLAN_DEFAULT_PASSPHRASE", "1")
    updated = up(local_state)
    assert updated.index(line) < updated.index("inferplan status local")


def test_a_cordoned_node_is_named_with_the_command_and_holds_up_nothing_else(
    local_state, journal, api
):
    assert journal.is_file()
    path, media = "/api/v1/nodes/l40s-1", "application/merge-patch+json"
    api.request(
        "PATCH",
        path,
        {"spec": {"unschedulable": True}},
        media=media,
        query={"fieldManager": "kubectl-cordon"},
    )
    try:
        updated = up(local_state)
    finally:
        api.request(
            "PATCH",
            path,
            {"spec": {"unschedulable": None}},
            media=media,
            query={"fieldManager": "kubectl-cordon"},
        )
    assert (
        "note: no new pod starts on cordoned nodes: l40s-1. To allow it: kubectl uncordon l40s-1"
        in updated
    )
