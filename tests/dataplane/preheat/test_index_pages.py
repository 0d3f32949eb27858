"""A web server whose index pages name the files: each of them arrives, or the run says which one
did not and why.
"""

from __future__ import annotations

import json

import pytest

from inferplan.components.sources import WebStore
from tests.lanes import in_full

from .rig import MODEL, refused, small_model, verified

MODEL_FILES = small_model() | {"tokenizer.json": b'{"version": "1.0"}'}
ADDRESS = f"/llm/{MODEL}/tokenizer.json"


@pytest.fixture
def preheat(job, web):
    web.put(MODEL_FILES, f"llm/{MODEL}")
    return lambda **changes: job(
        source=WebStore(address=f"{web.url}/llm"),
        tuning={"retries": 3, "report_seconds": 60.0},
        **changes,
    )


@pytest.mark.parametrize("status", [404, *in_full(503, 403, 429)])
def test_a_file_whose_head_fails_for_a_while_is_not_left_out(preheat, web, status):
    web.faults.heads = lambda path, count: status if path == ADDRESS and count <= 2 else None
    made = preheat()
    verified(made.run(), made, MODEL_FILES)


@pytest.mark.parametrize("status", [403, pytest.param(405, marks=pytest.mark.full)])
def test_a_server_that_answers_get_and_not_head_is_read_all_the_same(preheat, web, status):
    web.faults.heads = lambda path, _count: status if path == ADDRESS else None
    made = preheat()
    verified(made.run(), made, MODEL_FILES)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (404, 3, ["404", "an index page links to this file"]),
        pytest.param(503, 5, ["503"], marks=pytest.mark.full),
        pytest.param(403, 3, ["403", "an index page links to this file"], marks=pytest.mark.full),
        pytest.param(429, 5, ["429"], marks=pytest.mark.full),
    ],
)
def test_a_file_that_is_linked_and_never_given_is_refused_by_name(
    preheat, web, status, code, words
):
    web.faults.heads = lambda path, _count: status if path == ADDRESS else None
    web.faults.plan = lambda path, _count: ("status", status) if path == ADDRESS else None
    made = preheat()
    refused(made.run(), made, code, "tokenizer.json", *words)


@pytest.mark.full
def test_a_redirection_that_never_ends_is_called_one(preheat, web):
    web.circles.add(ADDRESS)
    made = preheat()
    refused(made.run(), made, 3, "tokenizer.json", "redirects")


@pytest.mark.full
def test_a_server_that_compresses_whatever_is_asked_for_is_refused_at_once(preheat, web):
    web.compresses = True
    made = preheat()
    outcome = made.run()
    refused(outcome, made, 3, "gzip", "compress")
    assert "trying again" not in outcome.output


def test_names_arrive_whatever_characters_they_are_made_of(preheat, web):
    odd = {
        f"{name}.json": json.dumps(name).encode()
        for name in (
            "a:b",
            "a b",
            "100%",
            "ü",
            "#1",
            "what?",
            "a&b",
            "it's",
            'say "x"',
            "+",
            "sub/a:b",
        )
    }
    web.put(odd, f"llm/{MODEL}")
    made = preheat()
    verified(made.run(), made, MODEL_FILES | odd)


def test_a_file_in_a_folder_whose_index_page_fails_for_a_while_is_not_left_out(preheat, web):
    web.put({"sub/one.json": b"1", "sub/two.json": b"2"}, f"llm/{MODEL}")
    web.faults.heads = lambda path, count: 404 if path.endswith("two.json") and count <= 1 else None
    web.faults.failing_lists = 2
    made = preheat()
    verified(made.run(), made, MODEL_FILES | {"sub/one.json": b"1", "sub/two.json": b"2"})


@pytest.mark.full
def test_a_file_that_a_list_names_and_the_server_does_not_give_for_a_while_is_no_reason_to_give_up(
    preheat, web
):
    web.faults.heads = lambda path, count: 503 if path == ADDRESS and count <= 2 else None
    made = preheat(weights={"files": dict.fromkeys(MODEL_FILES)})
    verified(made.run(), made, MODEL_FILES)
