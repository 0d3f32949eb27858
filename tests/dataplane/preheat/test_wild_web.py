"""Web servers that say too little or something else: READY with every file as it is at the source,
or the reason why not.
"""

from __future__ import annotations

import hashlib
import json
import time

import pytest

from inferplan.components.sources import WebStore
from tests.lanes import in_full

from .conftest import running
from .rig import MODEL, refused, small_model, verified
from .wild_web import LOGIN, Wild

MODEL_FILES = small_model() | {
    "tokenizer.json": (
        json.dumps(
            {"model": {"vocab": {f"t{n}": n for n in range(900)}, "merges": [["a", "b"]] * 300}}
        ).encode()
    ),
    "vocab.txt": b"the quick brown fox\n" * 50,
    "onnx/decoder/config.json": (
        b'{"layers": [1, 2, [3, {"deep": [[[[[[[[[[1]]]]]]]]]]}]], "limit": [0.0, Infinity]}'
    ),
}
ROOT = f"/llm/{MODEL}/"


@pytest.fixture
def wild():
    yield from running(Wild())


@pytest.fixture
def preheat(job, wild):
    wild.put(MODEL_FILES, f"llm/{MODEL}")
    return lambda **changes: job(
        **{
            "source": WebStore(address=f"{wild.url}/llm"),
            "tuning": {"retries": 3, "report_seconds": 60.0},
            **changes,
        }
    )


def test_an_honest_server_is_read_whole(preheat):
    made = preheat()
    verified(made.run(), made, MODEL_FILES)


@pytest.mark.parametrize("says_so", [True, *in_full(False)])
@pytest.mark.parametrize("name", ["tokenizer.json", *in_full("vocab.txt")])
def test_a_small_file_that_arrives_compressed_is_refused(preheat, wild, name, says_so):
    wild.encodes, wild.says_so = (lambda path: path.endswith(name)), says_so
    made = preheat()
    refused(made.run(), made, 3, name, "gzip", "switch compression off")


@pytest.mark.parametrize(
    "query",
    [
        "?page={}",
        *in_full("?start={}0", "./?offset={}", "../tiny-llm?marker=x{}", "index.php?dir=llm&p={}"),
    ],
)
def test_an_index_in_pages_is_refused_with_the_link_to_the_next(preheat, wild, query):
    wild.page_size, wild.next_page = 3, query
    made = preheat()
    refused(made.run(), made, 3, "index page", "weights.files")


def test_the_files_of_an_index_in_pages_can_be_listed(preheat, wild):
    wild.page_size = 3
    made = preheat(weights={"files": dict.fromkeys(MODEL_FILES)})
    verified(made.run(), made, MODEL_FILES)


def test_a_folder_that_is_linked_without_its_slash_is_a_folder(preheat, wild):
    wild.slashless = True
    made = preheat()
    verified(made.run(), made, MODEL_FILES)


def test_a_folder_that_gives_its_index_without_a_slash_is_no_file(preheat, wild):
    wild.slashless, wild.redirects = True, False
    made = preheat()
    refused(made.run(), made, 3, "onnx", "web page")


@pytest.mark.parametrize("at", [240, *in_full(0)])
@pytest.mark.parametrize("how", ["cut", "undelimited"])
def test_an_index_page_that_is_cut_off_next_to_a_503_leaves_no_file_out(preheat, wild, how, at):
    wild.faults.plan = lambda path, count: (
        {1: (how, at), 2: ("status", 503)}.get(count) if path.endswith("/") else None
    )
    made = preheat()
    verified(made.run(), made, MODEL_FILES)


def test_an_index_page_that_is_always_cut_off_means_try_again(preheat, wild):
    wild.faults.plan = lambda path, _count: ("cut", 240) if path == ROOT else None
    made = preheat()
    refused(made.run(), made, 5, "did not answer")


@pytest.mark.parametrize("redirects", [False, *in_full(True)])
@pytest.mark.parametrize("name", ["tokenizer.json", "onnx/", *in_full("vocab.txt", "")])
def test_a_login_page_is_no_file_and_no_index(preheat, wild, name, redirects):
    wild.denies, wild.login_is_a_redirect = (lambda path: path == ROOT + name), redirects
    made = preheat()
    refused(made.run(), made, 3, name.rstrip("/") or MODEL)


def test_a_login_page_of_the_right_size_is_read_as_json_and_refused(preheat, wild):
    wild.put({"tokenizer.json": LOGIN}, f"llm/{MODEL}")
    made = preheat()
    refused(made.run(), made, 3, "tokenizer.json", "web page", "credentials")


@pytest.mark.parametrize(
    "text",
    [b'{"a": [1, 2', *in_full(b"", b'{"a": 1', b'{"a" 1}', b'{"a": 1,}', b"[1, 2]]", b'{"a": "b')],
)
def test_json_that_is_cut_off_at_the_source_is_refused(preheat, wild, text):
    wild.put({"tokenizer.json": text}, f"llm/{MODEL}")
    made = preheat()
    refused(made.run(), made, 3, "tokenizer.json", "cut off")


@pytest.mark.full
def test_a_json_file_without_a_length_is_refused(preheat, wild):
    wild.faults.plan = lambda path, _count: (
        ("undelimited", 30) if path.endswith("tokenizer.json") else None
    )
    made = preheat()
    assert made.run().code in (3, 5)
    assert not made.ready


def test_the_last_shards_and_the_index_of_a_list_that_ends_early_are_missed(preheat, wild):
    for path in [
        path for path in wild.files if path.endswith(("00002-of-00002.safetensors", "index.json"))
    ]:
        del wild.files[path]
    made = preheat()
    refused(made.run(), made, 3, "model-00002-of-00002.safetensors", "missing")


@pytest.mark.parametrize("path", [ROOT, *in_full(f"{ROOT}onnx/", f"{ROOT}SHA256SUMS")])
def test_a_signal_during_a_slow_page_ends_the_run_within_its_grace(preheat, wild, path):
    wild.faults.plan = lambda asked, _count: ("stall",) if asked == path else None
    if path.endswith("SHA256SUMS"):
        sum_ = hashlib.sha256(MODEL_FILES["config.json"]).hexdigest()
        wild.put({"SHA256SUMS": f"{sum_}  config.json\n".encode()}, f"llm/{MODEL}")
    made = preheat()
    process = made.underway(lambda: wild.faults.gets.get(path, 0) > 0)
    began = time.monotonic()
    process.terminate()
    process.communicate(timeout=25)
    assert process.returncode == 143
    assert time.monotonic() - began < 10
