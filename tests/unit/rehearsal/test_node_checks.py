"""What a machine lacks for a real node is one line with the remedy, before anything starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from inferplan.commands.main import run
from inferplan.documents.files import disk_faults
from inferplan.errors import DiskFullError
from inferplan.images.catalogue import default_image
from inferplan.progress import silent
from inferplan.rehearsal.node import images
from inferplan.rehearsal.node import machine as rules
from inferplan.rehearsal.node.machine import missing
from tests.rehearsal.real_node import STACKS


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine that has everything."""
    groups, bridge, systems = (tmp_path / each for each in ("cgroup", "bridge", "filesystems"))
    (groups / "memory").mkdir(parents=True)
    bridge.mkdir()
    systems.write_text("nodev\toverlay\n\text4\n")
    monkeypatch.setattr(rules, "CONTROL_GROUPS", groups)
    monkeypatch.setattr(rules, "_BRIDGE", bridge)
    monkeypatch.setattr(rules, "_FILE_SYSTEMS", systems)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    monkeypatch.setattr(rules.Path, "exists", lambda _: True)
    shown = SimpleNamespace(stdout="containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: shown)
    return shown


@pytest.mark.usefixtures("machine")
def test_a_complete_machine_lacks_nothing():
    assert missing() == ""


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("containerd github.com/containerd/containerd v1.5.18 abc", "containerd v1.5.18"),
        ("", "one that does not run"),
    ],
)
def test_an_old_containerd_is_named(machine, version, words):
    machine.stdout = version
    assert "containerd 1.6 or newer" in missing()
    assert words in missing()
    machine.stdout = "containerd containerd.io 2.1.4 75cb2b7193"
    assert missing() == ""


@pytest.mark.usefixtures("machine")
def test_missing_programs_are_named_with_the_packages(monkeypatch):
    monkeypatch.setattr(
        shutil, "which", lambda name, **_: None if name in ("runc", "apt-get") else name
    )
    text = missing()
    assert text.startswith(
        "a real node needs runc, apt-get. Install it: apt-get install containerd"
    )


@pytest.mark.usefixtures("machine")
def test_a_machine_without_control_groups_says_so(monkeypatch, tmp_path):
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(rules, "CONTROL_GROUPS", tmp_path / "none")
    assert "needs control groups, and none are mounted" in missing()


@pytest.mark.usefixtures("machine")
def test_modules_that_the_kernel_has_not_loaded_are_named(tmp_path):
    (tmp_path / "filesystems").write_text("nodev\toverlayfs2\n")
    assert missing() == (
        "a real node needs kernel modules that are not loaded: overlay. Load them: modprobe -a overlay"
    )
    (tmp_path / "bridge").rmdir()
    assert missing().endswith("modprobe -a overlay br_netfilter")


def test_up_without_root_ends_in_one_line_and_starts_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    with pytest.raises(SystemExit, match="2"):
        run(["up", str(STACKS / "Pulumi.cpu.yaml"), "--node", "real"])
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        "inferplan: --node real: a real node needs Linux and root. Run the command as root, or leave"
        " --node out"
    )
    assert not (tmp_path / "state").exists()


def test_a_full_disk_of_images_is_named_with_its_place(monkeypatch, tmp_path):
    text = "ctr: failed to extract layer: write /usr/bin/mesg: no space left on device: unknown"
    full = SimpleNamespace(returncode=1, stderr=text)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: full)
    monkeypatch.setattr(images, "_archive", lambda *_: tmp_path / "pause.tar")
    pause = default_image("pause")
    # From an archive, and from a registry.
    for is_pulled in (False, True):
        monkeypatch.setattr(images, "is_pulled", lambda _, is_pulled=is_pulled: is_pulled)
        with pytest.raises(DiskFullError) as error, disk_faults(tmp_path):
            images.import_images(tmp_path / "socket", [pause], tmp_path / "images.json", silent)
        assert f"no space left on the disk that holds {tmp_path}" in str(error.value)
        assert not (tmp_path / "images.json").exists()
