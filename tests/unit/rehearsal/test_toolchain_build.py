"""A build is complete or absent, installs Go where none is, and explains its failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from inferplan.errors import DiskFullError, ToolchainError
from inferplan.progress import Notice, StepFinished, StepStarted, StepWaiting
from inferplan.rehearsal.toolchain import build, built, ensure
from inferplan.rehearsal.toolchain.go import find_go
from inferplan.rehearsal.toolchain.pins import SOURCES, Source

GO = """#!{python}
import pathlib, sys
words = sys.argv[1:]
if words[:2] == ["env", "GOVERSION"]:
    print("go{release}")
elif words[0] == "build":
    with open({log!r}, "a") as log:
        log.write(words[-1] + "\\n")
    {act}
    pathlib.Path(words[words.index("-o") + 1]).write_text("program " + words[-1])
elif words[:2] == ["mod", "download"]:
    print({answer!r})
"""


@pytest.fixture
def toolbox(tmp_path, monkeypatch):
    """A function that puts a fake `go` on an otherwise empty PATH; the cache is empty too."""
    module = tmp_path / "module"
    for source in SOURCES:
        for _, path in source.data:
            (module / path).parent.mkdir(parents=True, exist_ok=True)
            (module / path).write_text("data")
    monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("INFERPLAN_DOWNLOAD_MIRROR", "off")
    monkeypatch.setattr(
        "inferplan.rehearsal.toolchain.go._installers",
        lambda: [[sys.executable, "-c", "import sys; sys.exit('no index here')"]],
    )
    monkeypatch.setattr("inferplan.rehearsal.toolchain.gobuild._PAUSE_SECONDS", 0.0)
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    monkeypatch.setenv("PATH", str(bin_directory))

    def install(release="1.26.8", act="pass"):
        program = bin_directory / "go"
        program.write_text(
            GO.format(
                python=sys.executable,
                release=release,
                act=act,
                answer=json.dumps({"Dir": str(module)}),
                log=str(tmp_path / "log"),
            )
        )
        program.chmod(0o755)
        return tmp_path / "log"

    return install


def packages():
    return [package for source in SOURCES for _, package in source.programs]


def test_every_program_is_built_once_with_a_step_for_each(toolbox):
    log, events = toolbox(), []
    made = ensure(events.append)

    assert log.read_text().split() == packages()
    assert sorted(made.programs) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    ]
    assert all(path.read_text().startswith("program ") for path in made.programs.values())
    assert [stage.name for stage in made.stages][:1] == ["node-initialize.yaml"]
    notice, *steps = events
    assert re.fullmatch(
        r"building etcd, kwok, kubernetes from Go modules, once: about \d+ minutes on \d+ cores",
        notice.text,
    )
    assert [(type(event), event.index, event.total) for event in steps] == [
        (kind, index, 5) for index in range(1, 6) for kind in (StepStarted, StepFinished)
    ]
    assert ensure(events.append) == made == built()
    assert len(events) == 11


@pytest.fixture
def edited(toolbox, tmp_path):
    """A function that returns a source with one edit of `listen ":8080"`, and the module's file;
    the program is the compiled file.
    """
    (tmp_path / "module" / "cmd").mkdir(parents=True)
    (tmp_path / "module" / "cmd" / "main.go").write_text('listen ":8080"')
    (tmp_path / "pins" / "server").mkdir(parents=True)
    (tmp_path / "pins" / "server" / "go.mod").write_text(
        "go 1.24.0\nrequire example.test/server v1.0.0\n"
    )
    (tmp_path / "pins" / "server" / "go.sum").write_text("")
    toolbox(
        act=(
            "import shutil; shutil.copy('module/cmd/main.go', words[words.index('-o') + 1]);"
            " sys.exit()"
        )
    )

    def source(before):
        edits = (("cmd/main.go", before, '"127.0.0.1:8080"'),)
        return Source(
            "server",
            "example.test/server",
            (("server", "example.test/server/cmd"),),
            edits=edits,
            home=tmp_path / "pins",
        )

    return source


def test_an_edit_reaches_the_compiler_and_not_the_module_cache(edited, tmp_path):
    directory = build.ensure_source(edited('":8080"'))

    assert (directory / "server").read_text() == 'listen "127.0.0.1:8080"'
    assert (tmp_path / "module" / "cmd" / "main.go").read_text() == 'listen ":8080"'
    assert [
        path.name for path in directory.parent.iterdir() if path.name.startswith(".building")
    ] == []
    assert edited('":8080"').digest() != edited('"8080"').digest()


def test_an_edit_that_the_pinned_version_does_not_have_is_an_error(edited):
    with pytest.raises(
        ToolchainError, match=r"has '\":9090\"' 0 times in cmd/main.go, expected once"
    ):
        build.ensure_source(edited('":9090"'))


def test_a_missing_or_shortened_program_is_noticed_and_only_its_module_is_built_again(toolbox):
    log = toolbox()
    programs = ensure().programs
    log.unlink()
    programs["etcd"].unlink()
    programs["kwok"].write_text("cut")
    assert built() is None

    ensure()

    assert log.read_text().split() == ["go.etcd.io/etcd/server/v3", "sigs.k8s.io/kwok/cmd/kwok"]


def test_failed_build_leaves_no_unfinished_program_and_keeps_finished_ones(toolbox):
    toolbox(act="sys.exit('boom: no such thing') if 'kube-scheduler' in words[-1] else None")
    with pytest.raises(ToolchainError) as caught:
        ensure()
    assert caught.value.message == "building kube-scheduler v1.34.4 failed"
    assert caught.value.log_tail == ("boom: no such thing",)
    assert built() is None

    log = toolbox()
    log.unlink()
    assert ensure() == built()
    assert "go.etcd.io/etcd/server/v3" not in log.read_text()


@pytest.fixture
def gate(tmp_path):
    """A pipe that holds whoever reads it until `open_gate()`; returns the path and that function."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path, lambda: path.write_text("go on")


def builder():
    code = (
        "from inferplan.rehearsal.toolchain import ensure; from inferplan.progress import plain;"
        " ensure(plain)"
    )
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def first_line(process):
    assert process.stderr is not None
    return next(line for line in process.stderr if not line.startswith("note: "))


def test_killed_build_is_finished_by_the_next(toolbox, tmp_path, gate):
    path, open_gate = gate
    log = toolbox(act=f"open({str(path)!r}).read() if 'kwok' in words[-1] else None")
    with builder() as killed:
        while not log.exists() or "kwok" not in log.read_text():
            assert killed.poll() is None
        killed.kill()
    open_gate()
    assert list((tmp_path / "cache" / "toolchain").glob(".building-*"))

    toolbox()
    ensure()

    assert not list((tmp_path / "cache" / "toolchain").glob(".building-*"))


def test_two_concurrent_builds_build_once_and_second_reports_its_wait(toolbox, gate):
    path, open_gate = gate
    log = toolbox(act=f"open({str(path)!r}).read() if words[-1].startswith('go.etcd') else None")
    first = builder()
    assert "build etcd" in first_line(first)
    second = builder()
    waiting = first_line(second)
    open_gate()
    for each in (first, second):
        each.communicate()

    assert (
        f"building the control plane: waiting for process {first.pid} that is doing the same"
        in waiting
    )
    assert (first.returncode, second.returncode) == (0, 0)
    assert log.read_text().split() == packages()


def test_progress_of_the_compiler_is_reported(toolbox, monkeypatch):
    monkeypatch.setattr("inferplan.rehearsal.toolchain.gobuild._REPORT_SECONDS", 0.0)
    toolbox(
        act=(
            "print('go: downloading a.example/b v1.0.0', 'k8s.io/api/core/v1', 'net/http',"
            " sep='\\n', file=sys.stderr)"
        )
    )
    events = []
    ensure(events.append)
    assert [event.reason for event in events if isinstance(event, StepWaiting)][:3] == [
        "1 modules fetched so far",
        "the compiler, 1 packages so far",
        "the compiler, 2 packages so far",
    ]


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("write /x: no space left on device", DiskFullError, "no space left on the disk"),
        (
            "dial tcp: lookup proxy.example: no such host",
            ToolchainError,
            "a pinned Go module could not be fetched",
        ),
        ("reading a@v1: 403 Forbidden", ToolchainError, "a pinned Go module could not be fetched"),
        ("verifying a@v1: checksum mismatch", ToolchainError, "is not the one that was pinned"),
    ],
)
def test_a_failed_build_names_its_cause(toolbox, words, kind, part):
    toolbox(act=f"sys.exit({words!r})")
    with pytest.raises(kind, match=part):
        ensure()


BREAKS_OFF = 'sys.exit("reading https://proxy.example/x.zip: unexpected EOF")'


def test_failed_download_from_module_proxy_is_tried_again(toolbox):
    log, events = toolbox(), []
    toolbox(
        act=(
            f"{BREAKS_OFF} if pathlib.Path({str(log)!r}).read_text().split().count(words[-1]) == 1"
            " else None"
        )
    )
    ensure(events.append)
    assert sorted(log.read_text().split()) == sorted(2 * packages())
    assert any(isinstance(each, StepWaiting) and "unexpected EOF" in str(each) for each in events)


def test_download_that_always_fails_ends_with_an_error(toolbox):
    log = toolbox(act=BREAKS_OFF)
    with pytest.raises(ToolchainError) as caught:
        ensure()
    assert "unexpected EOF" in caught.value.log_tail[-1]
    assert log.read_text().split() == 4 * packages()[:1]


def test_a_password_in_the_proxy_address_is_not_shown(toolbox, monkeypatch):
    monkeypatch.setenv("GOPROXY", "https://me:hunter2@proxy.example")
    toolbox(act="sys.exit('dial tcp: i/o timeout')")
    with pytest.raises(ToolchainError, match=r"https://\*\*\*@proxy\.example") as caught:
        ensure()
    assert "hunter2" not in str(caught.value)


def test_a_full_disk_is_reported_before_a_build(toolbox, monkeypatch):
    log = toolbox()
    monkeypatch.setattr(build, "_PROGRAMS_SPACE", 1 << 60)
    with pytest.raises(DiskFullError, match=r"needs .* GB and the disk that holds .* free"):
        ensure()
    assert not log.exists()


def test_without_go_and_without_an_index_the_error_says_what_to_install(
    toolbox,  # noqa: ARG001 - it empties PATH
):
    with pytest.raises(ToolchainError, match="no Go compiler is on PATH") as caught:
        ensure()
    assert "install Go 1.26 or later" in caught.value.remedy
    assert "no index here" in caught.value.log_tail[0]
    assert built() is None


def test_go_that_is_too_old_is_reported_and_not_used(toolbox):
    toolbox(release="1.20.1")
    events = []
    with pytest.raises(ToolchainError):
        ensure(events.append)
    assert any(
        "is go 1.20.1, 1.26.0 is needed" in event.text
        for event in events
        if isinstance(event, Notice)
    )


def test_go_never_replaces_itself_and_a_users_flags_do_not_reach_the_build(toolbox, monkeypatch):
    monkeypatch.setenv("GOFLAGS", "-mod=vendor -tags=odd")
    monkeypatch.setenv("GOTOOLCHAIN", "auto")
    toolbox()
    environment = find_go((1, 26, 0), lambda _: None).environment
    assert {
        name: environment[name] for name in ("GOFLAGS", "GOTOOLCHAIN", "CGO_ENABLED", "GOWORK")
    } == {
        "GOFLAGS": "",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOWORK": "off",
    }


def test_a_manifest_that_cannot_be_read_counts_as_not_built(toolbox):
    toolbox()
    place = ensure().programs["etcd"].parent
    for content in ("", "[]", json.dumps({"sizes": {}})):
        (place / "manifest.json").write_text(content)
        assert built() is None
