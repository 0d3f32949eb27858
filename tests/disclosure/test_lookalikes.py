"""Public values stay visible, although they resemble secrets or stand next to their names."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any

import pytest

from inferplan.kube.disclosure.forms import is_name
from inferplan.kube.disclosure.texts import command
from inferplan.kube.paths import Path as PropertyPath
from inferplan.kube.paths import leaves, parse
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import as_json, make_report
from tests.review_streams import step, stream

ROOMS = Path(__file__).parents[2] / "inferplan" / "components" / "serving"
ROWS = tomllib.loads(Path(__file__).with_name("lookalikes.toml").read_text())["rows"]


def nested(path: PropertyPath, value: Any) -> Any:
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    return value


def test_there_are_as_many_as_was_promised():
    assert len(ROWS) >= 60


@pytest.mark.parametrize(
    ("type_", "path", "value"),
    ROWS,
    ids=[
        f"{type_.rpartition(':')[2]} {path} {index}" for index, (type_, path, _) in enumerate(ROWS)
    ],
)
def test_a_look_alike_is_shown(type_, path, value):
    inputs = nested(parse(path), value)
    report = make_report([read_bytes(stream(step("create", type_, "x", None, inputs)))])
    (resource,) = report.stacks[0].resources
    shown = " ".join(each.new for each in resource.properties)
    assert "(hidden" not in shown, shown
    for _, each in leaves(value):
        text = each if isinstance(each, str) and each[:1] not in "{[" else json.dumps(each)
        assert text.strip('\n"') in shown or json.dumps(each)[1:-1] in shown
    assert as_json(report)


@pytest.mark.parametrize("letters", range(10, 15))
def test_random_letters_are_rarely_taken_for_a_name(letters):
    """A name of one word may have a part that is in no public word. Of random letters, fewer than 1
    in 500 may pass for one.
    """
    random = Random(letters)  # noqa: S311 - the same letters in each run
    texts = ("".join(random.choices(ascii_lowercase, k=letters)) for _ in range(5000))
    assert sum(map(is_name, texts)) < 10


@pytest.mark.parametrize(
    "name", ["inference", "kubernetes", "borealis", "llamaserver", "preheating"]
)
def test_a_name_of_one_word_stays_visible(name):
    assert is_name(name)


def test_every_value_that_an_engine_lists_is_shown():
    tables = [
        *(ROOMS / "vllm" / "values").glob("*.json"),
        ROOMS / "sglang" / "options.json",
    ]
    hidden = [
        words
        for table in tables
        for option, row in json.loads(table.read_text())["options"].items()
        for value in row.get("values", ())
        for words in ([option, value], [f"{option}={value}"], [f"exec serve {option} {value}"])
        if command(words, lambda value, _: value) != words
    ]
    assert hidden == []


def test_a_listed_value_is_hidden_at_the_place_of_a_secret():
    assert command(["--password", "gptq_marlin"], lambda value, _: value)[1] != "gptq_marlin"
