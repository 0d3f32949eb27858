"""The control plane from released programs: a mirror that fails, truncates and lies never gives a
program that is not the pinned one.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from inferplan.errors import DiskFullError
from inferplan.progress import Notice, StepFinished, StepStarted
from inferplan.rehearsal.toolchain import build, download, ensure
from inferplan.rehearsal.toolchain.pins import OPTIONAL, SOURCES
from inferplan.tables import table

ETCD, KWOK, STAGES, KUBERNETES, PROVIDER = (
    "github.com/etcd.tar.gz",
    "github.com/kwok",
    "github.com/kwok.zip",
    "dl.k8s.io/server.tar.gz",
    "get.pulumi.com/provider.tar.gz",
)


def _tar(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _zip(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


SOURCE = {source.name: source for source in SOURCES}
FILES = {
    # Large and random enough that an archive is cut in the middle of a member.
    ETCD: _tar(
        {
            "etcd/README.md": b"read me",
            "etcd/etcd": hashlib.sha512(b"etcd").digest() * 4000,
            "../../evil": b"outside",
        }
    ),
    KWOK: b"kwok program",
    STAGES: _zip({f"kwok@1/{path}": b"stage" for _, path in SOURCE["kwok"].data}),
    KUBERNETES: _tar(
        {f"server/bin/{name}": name.encode() for name, _ in SOURCE["kubernetes"].programs}
    ),
    # As Pulumi packs a plugin: without a folder.
    PROVIDER: _tar(
        {"LICENSE": b"text", "pulumi-resource-kubernetes": hashlib.sha512(b"p").digest() * 4000}
    ),
}


class Mirror(ThreadingHTTPServer):
    """Serves FILES below /<host>/<path>. `answers` holds a function per path, each used for one
    request, and `asked` the requests.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked, self.built = {path: [] for path in FILES}, [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/mirror"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # noqa: A002 - its name in the standard library
        pass

    def do_GET(self):
        path = self.path.removeprefix("/mirror/")
        start = int((re.match(r"bytes=(\d+)-", self.headers.get("Range", "")) or ["", "0"])[1])
        mirror = cast("Mirror", self.server)
        mirror.asked.append((path, start))
        content = FILES[path]
        if mirror.answers[path]:
            mirror.answers[path].pop(0)(self, content, start)
        else:
            self.send(content, start)

    def send(self, content, start=0, cut=None):
        part = content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part[:cut])
        self.wfile.flush()
        self.close_connection = True


def fails(code):
    return lambda handler, _content, _start: handler.send_error(code)


def truncates(handler, content, start):
    handler.send(content, start, cut=(len(content) - start) // 2)


def lies(handler, content, start):
    handler.send(b"x" * len(content), start)


def lies_about_ranges(handler, content, start):
    """Answers with the whole file, as a server without ranges does."""
    del start
    handler.send(content)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    rows = {
        "etcd": [
            {
                "url": f"https://{ETCD}",
                "sha256": hashlib.sha256(FILES[ETCD]).hexdigest(),
                "folder": "etcd/",
            }
        ],
        "kwok": [
            {"url": f"https://{KWOK}", "sha256": hashlib.sha256(FILES[KWOK]).hexdigest()},
            {
                "url": f"https://{STAGES}",
                "sha256": hashlib.sha256(FILES[STAGES]).hexdigest(),
                "folder": "kwok@1/",
            },
        ],
        "kubernetes": [
            {
                "url": f"https://{KUBERNETES}",
                "sha512": hashlib.sha512(FILES[KUBERNETES]).hexdigest(),
                "folder": "server/bin/",
            }
        ],
        "pulumi-kubernetes": [
            {
                **table("rehearsal/toolchain/downloads.toml")["linux-x86_64"]["pulumi-kubernetes"][
                    0
                ],
                "url": f"https://{PROVIDER}",
                "sha256": hashlib.sha256(FILES[PROVIDER]).hexdigest(),
            }
        ],
    }
    monkeypatch.setattr(download, "_rows", lambda source: rows[source.name])
    monkeypatch.setattr(download, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("INFERPLAN_CACHE_DIR", str(tmp_path / "cache"))
    with Mirror() as server:
        monkeypatch.setattr(
            build,
            "_build",
            lambda sources, *_: server.built.extend(source.name for source in sources),
        )
        monkeypatch.setenv("INFERPLAN_DOWNLOAD_MIRROR", f"{server.url}/")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_everything_comes_from_the_mirror_and_nothing_is_built(mirror, tmp_path):
    events = []
    made = ensure(events.append)
    assert mirror.built == []
    assert made.programs["etcd"].read_bytes() == hashlib.sha512(b"etcd").digest() * 4000
    assert made.programs["kwok"].read_bytes() == FILES[KWOK]
    assert made.programs["kube-scheduler"].read_bytes() == b"kube-scheduler"
    assert all(path.stat().st_mode & 0o111 for path in made.programs.values())
    assert [path.read_bytes() for path in made.stages] == [b"stage"] * 5
    assert [type(event) for event in events] == [StepStarted, StepFinished] * 3
    assert mirror.asked == [(ETCD, 0), (KWOK, 0), (STAGES, 0), (KUBERNETES, 0)]
    assert not list((tmp_path / "cache" / "toolchain" / "downloads").iterdir())
    assert not list(tmp_path.rglob("evil"))
    assert ensure() == made
    assert len(mirror.asked) == 4


def test_a_cut_download_resumes_where_it_ended(mirror):
    mirror.answers[ETCD] = [truncates, truncates]
    ensure()
    starts = [start for path, start in mirror.asked if path == ETCD]
    assert starts == [0, len(FILES[ETCD]) // 2, starts[2]]
    assert starts[2] > starts[1]
    assert mirror.built == []


def test_a_download_that_was_killed_resumes_in_the_next_run(mirror, tmp_path):
    part = (
        tmp_path
        / "cache"
        / "toolchain"
        / "downloads"
        / f"{hashlib.sha256(FILES[ETCD]).hexdigest()[:24]}.part"
    )
    part.parent.mkdir(parents=True)
    part.write_bytes(FILES[ETCD][:1000])
    ensure()
    assert mirror.asked[0] == (ETCD, 1000)
    assert mirror.built == []


@pytest.mark.parametrize("rest", [b"of another file", FILES[ETCD] + b"more"])
def test_a_part_of_something_else_is_discarded_and_fetched_whole(rest, mirror, tmp_path):
    part = (
        tmp_path
        / "cache"
        / "toolchain"
        / "downloads"
        / f"{hashlib.sha256(FILES[ETCD]).hexdigest()[:24]}.part"
    )
    part.parent.mkdir(parents=True)
    part.write_bytes(rest)
    mirror.answers[ETCD] = [fails(416)] if len(rest) > len(FILES[ETCD]) else []
    ensure()
    assert [start for path, start in mirror.asked if path == ETCD] == [len(rest), 0]
    assert mirror.built == []


def test_a_server_without_ranges_sends_the_whole_file_again(mirror):
    mirror.answers[ETCD] = [truncates, lies_about_ranges]
    ensure()
    assert mirror.built == []


def test_passing_failures_are_tried_again(mirror):
    mirror.answers[KUBERNETES] = [fails(503), fails(429)]
    ensure()
    assert mirror.built == []


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([fails(404)], "the server answered 404 Not Found"),
        ([fails(503)] * 4, "the server answered 503 Service Unavailable"),
        (
            [lambda handler, _content, _start: handler.send(b"", 0)],
            r"it has sha256 e3b0c442\w+, pinned is \w+",
        ),
        ([lies], r"it has sha256 \w+, pinned is \w+"),
        ([truncates, lies, lies], r"it has sha256 \w+, pinned is \w+"),
        (
            [lambda handler, content, _start: handler.send(content, 0, cut=0)] * 4,
            r"the connection ended after 0 of \d+ bytes",
        ),
    ],
)
def test_what_cannot_be_downloaded_is_built_and_the_rest_is_not(answers, reason, mirror, tmp_path):
    mirror.answers[ETCD] = answers
    events = []
    build._ensure(SOURCES, "test", events.append)
    assert mirror.built == ["etcd"]
    [notice] = [event.text for event in events if isinstance(event, Notice)]
    assert re.fullmatch(
        rf"etcd is built instead of downloaded. {re.escape(mirror.url)}/{re.escape(ETCD)}:"
        rf" {reason}. To use a mirror, set INFERPLAN_DOWNLOAD_MIRROR",
        notice,
    )
    folders = {path.name.partition("-")[0] for path in (tmp_path / "cache" / "toolchain").iterdir()}
    assert {"kwok", "kubernetes"} <= folders
    assert "etcd" not in folders
    assert not [name for name in folders if name.startswith(".building")]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], ""),
        ([truncates, truncates], ""),
        ([fails(503)], ""),
        ([fails(404)], "the server answered 404 Not Found"),
        ([lies], "it has sha256"),
        ([truncates, lies, lies], "it has sha256"),
        ([lambda handler, content, _: handler.send(content, 0, cut=0)] * 4, "ended after 0 of"),
    ],
)
def test_pulumis_provider_is_downloaded_whole_or_built(answers, reason, mirror):
    mirror.answers[PROVIDER] = answers
    source, notices = OPTIONAL["pulumi-kubernetes"], []
    build._ensure([source], "test", notices.append)
    texts = [each.text for each in notices if isinstance(each, Notice)]
    assert mirror.built == ([source.name] if reason else [])
    assert [reason in text for text in texts] == ([True] if reason else [])
    program = build._directory(source) / "pulumi-resource-kubernetes"
    assert program.exists() is not bool(reason)
    if not reason:
        assert program.read_bytes() == hashlib.sha512(b"p").digest() * 4000
        assert program.stat().st_mode & 0o111


def test_an_archive_that_lacks_a_program_is_not_taken(mirror, monkeypatch):
    rows = download._rows(SOURCE["kubernetes"])
    monkeypatch.setitem(FILES, KUBERNETES, _tar({"server/bin/kube-apiserver": b"one"}))
    rows[0]["sha512"] = hashlib.sha512(FILES[KUBERNETES]).hexdigest()
    events = []
    build._ensure(SOURCES, "test", events.append)
    assert mirror.built == ["kubernetes"]
    assert "the archive lacks kube-controller-manager, kube-scheduler" in str(events[-1])


def test_a_host_that_refuses_connections_is_asked_once(mirror, monkeypatch):
    monkeypatch.setenv("INFERPLAN_DOWNLOAD_MIRROR", "http://127.0.0.1:9")
    asked, real = [], download._receive
    monkeypatch.setattr(
        download, "_receive", lambda *arguments: asked.append(arguments) or real(*arguments)
    )
    build._ensure(SOURCES, "test", lambda _: None)
    assert len(asked) == len(SOURCES)
    assert mirror.built == [source.name for source in SOURCES]


def test_the_mirror_setting_is_a_url_or_off(mirror, monkeypatch):
    monkeypatch.setenv("INFERPLAN_DOWNLOAD_MIRROR", "ftp://files")
    events = []
    build._ensure(SOURCES, "test", events.append)
    assert (
        "INFERPLAN_DOWNLOAD_MIRROR is 'ftp://files', which is not a URL. Use http(s)://host/path,"
        " or off" in str(events[1]).replace("\\'", "'")
    )
    monkeypatch.setenv("INFERPLAN_DOWNLOAD_MIRROR", "off")
    events.clear()
    build._ensure(SOURCES, "test", events.append)
    assert events == []
    assert mirror.asked == []


def test_a_full_disk_is_not_mistaken_for_a_bad_download(mirror, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_unpack", full)
    with pytest.raises(DiskFullError):
        build._ensure(SOURCES, "test", lambda _: None)
    assert mirror.built == []


def _release(name: str) -> str:
    """The version of a program; that of a module without releases is in an edit."""
    source = SOURCE.get(name) or OPTIONAL[name]
    edited = [
        re.search(r"[0-9]+(?:\.[0-9]+)+", after)
        for path, _, after in source.edits
        if path.endswith("version.go")
    ]
    return f"v{edited[0][0]}" if edited and edited[0] else source.version


def test_every_pin_has_the_version_of_the_modules_and_a_whole_checksum():
    for rows in table("rehearsal/toolchain/downloads.toml").values():
        for name, files in rows.items():
            for row in files:
                assert _release(name) in row["url"]
                assert row["url"].startswith("https://")
                assert re.fullmatch(
                    r"[0-9a-f]{64}|[0-9a-f]{128}", row.get("sha256") or row["sha512"]
                )
                assert len(row.get("sha256", "")) in (0, 64)
