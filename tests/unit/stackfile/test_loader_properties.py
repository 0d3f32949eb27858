"""Whatever stands in a file, the loader answers with settings or with faults, and with nothing
else.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.json_schema import stack_schema
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.stackfile.stack import StackSettings

STACK = Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml"
SOUND = STACK.read_bytes()


def vocabulary() -> list[str]:
    """Everything that a stack may call its keys and tags, so that arbitrary structures get past the
    first door.
    """
    in_file = {
        word for text in SOUND.decode().split() for word in (text.strip("{}[],:\"'"),) if word
    }
    return sorted(
        in_file
        | {
            key
            for spec in stack_schema()["definitions"].values()
            for key in spec.get("properties", {})
        }
    )


SPLINTERS = ["{", "}", "[", "]", ": ", "- ", "\t", "\n", "&a ", "*a ", "!!x ", "'", '"', "\x00", "~", "? ", "<<: ", "1e999", ".nan", "0x", "\\ud800", "|", ">", "%YAML 1.3\n", "---\n", "...\n", "#", "\ufeff", "\u2028"]  # fmt: skip

words = st.deferred(lambda: st.sampled_from(vocabulary())) | st.text(max_size=8)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | words
structures = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5),
    max_leaves=25,
)
sections = st.sampled_from(
    [f"inferplan:{field.alias}" for field in StackSettings.model_fields.values()]
    + ["inferplan:apiKeySeed", "aws:region"]
)

relaxed = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def judge(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        outcome = validate(read_stack(path, shown_path="s.yaml"))
    except InvalidStack as refused:
        outcome = refused
    if isinstance(outcome, InvalidStack):
        assert outcome.lines
        assert all(line.startswith("s.yaml") and "\n" not in line for line in outcome.lines)
        str(outcome).encode()
    else:
        assert isinstance(outcome, StackSettings)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.yaml"


@relaxed
@given(
    content=st.binary(max_size=400)
    | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_arbitrary_bytes_end_in_faults_or_settings(path, content):
    judge(path, content)


@relaxed
@given(
    config=st.dictionaries(sections | words, structures, max_size=6),
    top=st.dictionaries(words, structures, max_size=2),
)
def test_arbitrary_structures_end_in_faults_or_settings(path, config, top):
    judge(
        path,
        yaml.safe_dump({**top, "config": config}, allow_unicode=True).encode(
            "utf-8", "surrogatepass"
        ),
    )


@relaxed
@given(data=st.data())
def test_a_sound_stack_with_values_replaced_ends_in_faults_or_settings(path, data):
    stack = yaml.safe_load(SOUND)
    for _ in range(data.draw(st.integers(1, 4))):
        node = stack["config"]
        for _ in range(data.draw(st.integers(0, 4))):
            below = [
                each
                for each in (node.values() if isinstance(node, dict) else node)
                if isinstance(each, dict | list) and each
            ]
            if not below:
                break
            node = data.draw(st.sampled_from(below))
        where = (
            data.draw(st.sampled_from(sorted(node)))
            if isinstance(node, dict)
            else data.draw(st.integers(0, len(node) - 1))
        )
        node[where] = data.draw(structures)
    # JSON is YAML, and keeps what a YAML dumper would fold or alias.
    judge(path, json.dumps(stack).encode())


@relaxed
@given(data=st.data())
def test_a_sound_stack_with_its_text_broken_ends_in_faults_or_settings(path, data):
    text = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text) - 1))
        cut = data.draw(st.integers(0, 20))
        text[at : at + cut] = data.draw(
            st.sampled_from(SPLINTERS).map(str.encode) | st.binary(max_size=3)
        )
    judge(path, bytes(text))


def test_the_error_of_a_key_with_line_breaks_is_one_line(path):
    judge(path, b"? '\n\n  '\n: null\nconfig: {}\n")
