"""Public values stay visible, although they resemble secrets or stand next to their names."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from inferplan.kube.paths import Path as PropertyPath
from inferplan.kube.paths import leaves, parse
from inferplan.review.reading.reader import read_bytes
from inferplan.review.report import as_json, make_report
from tests.review_streams import step, stream

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
