"""Servers whose answers are well-formed and wrong: nothing becomes READY but the files of one
version, and each error names what the server answered.
"""

from __future__ import annotations

import json
import threading
from email.utils import formatdate

import pytest

from inferplan.components.sources import HubStore, WebStore
from tests.lanes import in_full

from .conftest import running
from .proxy import Answer
from .rig import MIB, MODEL, refused, safetensors, small_model, tiny_model, verified
from .web import COMMIT, REPOSITORY, Commit, Hub, Web, _HubApi, _Static

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
OLD, NEW = tiny_model(9 * MIB, 9 * MIB), tiny_model(9 * MIB, 9 * MIB)
NEW |= {name: safetensors(9 * MIB, 70 + n) for n, name in enumerate(SHARDS)}


class _Odd(_Static):
    server: Odd  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def fetch(self) -> Answer:
        web = self.server
        answer = super().fetch()
        range_ = self.headers.get("Range")
        meant = self.path.endswith(web.of) and self.path.partition("?")[0] in web.files
        if web.answers and meant and not (web.ranged_only and range_ in (None, "bytes=0-0")):
            web.odd += 1
            return web.answers(answer, self.command, range_)
        headers = {k: v for k, v in answer.headers.items() if k != "Last-Modified"}
        if answer.status < 300 and self.path in web.files:
            data, stamp = web.files[self.path]
            if web.tag is not None:
                headers["ETag"] = f'{web.tag}"{stamp:x}-{data[-8:].hex()}"'
            if web.dates:
                # Every version has the same time, to the second.
                headers["Last-Modified"] = formatdate(1_700_000_000, usegmt=True)
        return Answer(answer.status, headers, answer.body, answer.length)


class Odd(Web):
    """A web server that gives files versions as `tag` and `dates` say, and other answers."""

    def __init__(self) -> None:
        super().__init__(_Odd)
        self.reset()

    def reset(self) -> None:
        super().reset()
        self.tag: str | None = "W/"
        self.dates = True
        self.of = ""
        self.answers = None
        self.ranged_only = False
        self.odd = 0


@pytest.fixture
def odd():
    yield from running(Odd())


@pytest.fixture
def preheat(job, odd):
    return lambda **tuning: job(
        source=WebStore(address=f"{odd.url}/llm"),
        tuning={"segment_bytes": 64 * MIB, "retries": 8, **tuning},
    )


def swap_at(web, count):
    """Replace all shards when the bytes of shards are asked for the `count`th time."""
    lock, gets = threading.Lock(), [0]

    def plan(path, _count):
        if not path.endswith(SHARDS):
            return None
        with lock:
            gets[0] += 1
            return ("call", lambda: web.put(NEW, f"llm/{MODEL}")) if gets[0] == count else None

    web.faults.plan = plan


@pytest.mark.parametrize("count", [4, 7, *in_full(1, 2, 3, 5, 6, 8, 9)])
@pytest.mark.parametrize(
    ("tag", "dates"), [("", True), (None, False), *in_full(("W/", False), (None, True))]
)
def test_shards_that_are_replaced_between_two_readings_arrive_as_one_version(
    odd, preheat, tag, dates, count
):
    odd.tag, odd.dates = tag, dates
    odd.put(OLD, f"llm/{MODEL}")
    swap_at(odd, count)
    made = preheat(streams=1)
    outcome = made.run()
    assert outcome.code == 0, outcome.output
    assert made.files() in (OLD, NEW)
    assert ("not verifiable" in outcome.output) == (tag is None and not dates)


def test_a_server_without_versions_is_named_in_the_report(odd, preheat):
    odd.tag, odd.dates = None, False
    odd.put(small_model(), f"llm/{MODEL}")
    made = preheat()
    outcome = made.run()
    verified(outcome, made, small_model())
    assert "not verifiable: 5 files" in outcome.output
    status = json.loads((made.target / ".inferplan" / "status" / "tiny.json").read_text())
    assert status["notVerifiable"] == 5
    ready = json.loads((made.directory / "READY").read_text())
    assert {file["evidence"] for file in ready["files"]} == {"not verifiable"}


def no_content(_answer, _command, _range):
    return Answer(204, {}, bytearray(), "0")


def multipart(answer, _command, range_):
    first, last = range_.removeprefix("bytes=").split("-")
    part = answer.body[:100] or b"x"
    body = (
        b"--b\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes %s-%s/999\r\n\r\n"
        % (first.encode(), (last or "998").encode())
        + bytes(part)
        + b"\r\n--b--\r\n"
    )
    headers = {"Content-Type": "multipart/byteranges; boundary=b"}
    return Answer(206, headers, bytearray(body), str(len(body)))


def elsewhere(answer, _command, _range):
    return Answer(206, {"Content-Range": "bytes 5-9/100"}, answer.body, str(len(answer.body)))


def non_authoritative(answer, _command, _range):
    return Answer(203, {}, answer.body, str(len(answer.body)))


@pytest.mark.parametrize("answers", [no_content, *in_full(non_authoritative)])
@pytest.mark.parametrize("name", [SHARDS[0], *in_full("config.json", "empty.txt")])
def test_an_answer_without_content_is_no_empty_file(odd, preheat, answers, name):
    odd.put(tiny_model(), f"llm/{MODEL}")
    odd.of, odd.answers = name, answers
    made = preheat()
    refused(made.run(), made, 3, name, "HTTP 20")
    assert odd.odd <= 20


@pytest.mark.parametrize("answers", [multipart, no_content, *in_full(elsewhere, non_authoritative)])
def test_an_answer_to_a_range_that_is_no_part_of_the_file_ends_the_run(odd, preheat, answers):
    odd.put(tiny_model(20 * MIB), f"llm/{MODEL}")
    odd.of, odd.answers, odd.ranged_only = "safetensors", answers, True
    made = preheat(segment_bytes=4 * MIB, streams=1)
    outcome = made.run()
    refused(outcome, made, outcome.code, "safetensors")
    assert outcome.code in (3, 5)
    assert odd.odd <= 40


def test_ranges_that_turn_wrong_in_the_middle_end_with_the_answer_named(odd, preheat):
    odd.put(tiny_model(20 * MIB), f"llm/{MODEL}")

    def later(answer, command, range_):
        return multipart(answer, command, range_) if odd.odd > 4 else answer

    odd.of, odd.answers, odd.ranged_only = "safetensors", later, True
    made = preheat(segment_bytes=4 * MIB, streams=1)
    refused(made.run(), made, 5, "safetensors", "HTTP 206 multipart/byteranges")
    assert odd.odd <= 60


def test_a_head_that_always_announces_no_byte_is_no_empty_file(odd, preheat):
    odd.put(small_model(), f"llm/{MODEL}")
    odd.of = SHARDS[0]
    odd.answers = lambda answer, command, _range: (
        Answer(200, {}, bytearray(), "0") if command == "HEAD" else answer
    )
    made = preheat()
    verified(made.run(), made, small_model())


class _OddHub(_HubApi):
    server: OddHub  # pyrefly: ignore[bad-override] - the server that makes this handler is always one

    def _entry(self, path, data):
        entry = super()._entry(path, data)
        return {**entry, **self.server.changes} if path == self.server.of else entry


class OddHub(Hub):
    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _OddHub
        self.of, self.changes = "", {}


@pytest.fixture
def odd_hub():
    yield from running(OddHub())


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("config.json", {"size": None}, "size None"),
        (SHARDS[0], {"lfs": {}}, "lfs.oid None"),
        *in_full(
            ("config.json", {"size": -1}, "size -1"),
            ("config.json", {"size": "2"}, "size '2'"),
            ("config.json", {"size": True}, "size True"),
            ("config.json", {"oid": None}, "oid None"),
            ("config.json", {"oid": "x"}, "oid 'x'"),
            ("config.json", {"path": 5}, "path 5"),
            ("config.json", {"type": "link"}, "type 'link'"),
            ("config.json", {"lfs": []}, "lfs.oid None"),
            (SHARDS[0], {"lfs": {"oid": "0" * 64, "size": 1}}, "lfs.size 1"),
        ),
    ],
)
def test_an_entry_of_a_hub_that_is_not_as_documented_is_refused(job, odd_hub, name, changes, field):
    odd_hub.commits[COMMIT] = Commit(tiny_model())
    odd_hub.of, odd_hub.changes = name, changes
    made = job(
        source=HubStore(endpoint=odd_hub.url), weights={"path": REPOSITORY, "revision": COMMIT}
    )
    named = str(changes["path"]) if "path" in changes else name
    refused(made.run(), made, 3, named, field, odd_hub.url)
