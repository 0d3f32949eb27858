from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplan.pulumi_engine.reading.records import MAX_RECORD, EventsError
from inferplan.review.reading.collector import StepCollector, counts_of
from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read, read_bytes, read_file
from inferplan.review.report import make_report
from inferplan.review.verdict import INCOMPLETE

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STREAMS = sorted((FIXTURES / "engine-events").iterdir())
KUBERNETES = FIXTURES / "kubernetes-previews"

_COLOUR = re.compile(r"<\{%.*?%\}>")
_LINE = re.compile(
    r"^ {4}(?:[+~=-]|\+-)? ?(\d+) (?:to"
    r" )?(create|update|delete|replace|import|errored|created|updated|deleted|replaced|imported)\b"
)
_UNCHANGED = re.compile(r"^ {4}.*?(\d+) unchanged")
# Ops that the CLI counts and does not print.
_SILENT = {"discard", "read"}


def printed_counts(path: Path) -> dict[str, int]:
    """What the CLI printed under `Resources:`."""
    text = _COLOUR.sub("", path.read_text())
    if "Resources:" not in text:
        return {}
    counts: dict[str, int] = {}
    for line in text.rpartition("Resources:\n")[2].splitlines():
        if not line.startswith("    "):
            break
        if found := _LINE.match(line):
            op = found[2].removesuffix("d").removesuffix("e")
            counts[
                {"creat": "create", "updat": "update", "delet": "delete", "replac": "replace"}.get(
                    op, op
                )
            ] = int(found[1])
        if found := _UNCHANGED.match(line):
            counts["same"] = int(found[1])
    counts.pop("error", None)
    return counts


def outcome_of(content: bytes) -> str:
    """The refusal of `content`, or the name of the source that was read."""
    try:
        return read_bytes(content).source
    except EventsError as refusal:
        return str(refusal)


def shown(preview: Preview) -> dict[str, int]:
    return {op: count for op, count in preview.counts.items() if op not in _SILENT}


def test_there_are_forty_streams_and_four_kubernetes_previews():
    assert len(STREAMS) == 40
    assert len(list(KUBERNETES.glob("*.*json"))) == 4


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_counts_equal_what_the_cli_printed(folder):
    preview = read_file(folder / "eventstream.json")
    changed = {op: count for op, count in shown(preview).items() if op != "same"}
    displays = [folder / name for name in ("diff.stdout.txt", "progress.stdout.txt")]
    printed = [printed_counts(path) for path in displays if "Resources:" in path.read_text()]
    # The CLI counts in each of its displays but for two runs, and unchanged resources only beside
    # changed ones.
    assert printed
    for said in printed:
        assert {op: count for op, count in said.items() if op != "same"} == changed
        assert "same" not in said or said["same"] == shown(preview)["same"]


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_a_stream_that_is_cut_anywhere_is_incomplete_and_never_without_changes(folder):
    content = (folder / "eventstream.json").read_bytes()
    end = content.rindex(b'"summaryEvent"')
    for share in range(8):
        report = make_report([read_bytes(content[: end * share // 8])])
        assert report.verdict.startswith("incomplete: ")
        assert (report.rank, report.stacks[0].accelerators, report.stacks[0].cost) == (
            INCOMPLETE,
            "",
            "",
        )


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_counts_without_the_summary_are_those_of_the_summary(folder):
    """A cut stream is counted from its steps: with every step there, the result is the engine's
    own.
    """
    lines = (folder / "eventstream.json").read_text().splitlines()
    with_summary = read_file(folder / "eventstream.json")
    without = read_bytes("\n".join(line for line in lines if '"summaryEvent"' not in line).encode())
    assert without.incomplete
    assert without.counts == with_summary.counts


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_failed_operations_are_those_that_the_cli_calls_errored(folder):
    printed = re.search(r"(\d+) errored", _COLOUR.sub("", (folder / "diff.stdout.txt").read_text()))
    assert read_file(folder / "eventstream.json").failed_operations == (
        int(printed[1]) if printed else 0
    )


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_one_line_or_many_lines_or_indented_read_alike(folder):
    content = (folder / "eventstream.json").read_bytes()
    events = [json.loads(line) for line in content.splitlines() if line.strip()]
    plain = read_bytes(content)
    assert read_bytes("".join(map(json.dumps, events)).encode()) == plain
    assert read_bytes("\n".join(json.dumps(event, indent=2) for event in events).encode()) == plain


def test_a_kubernetes_preview_counts_a_replacement_once():
    preview = read_file(KUBERNETES / "changes.ndjson")
    assert preview.counts == {"create": 1, "delete": 1, "replace": 2, "same": 2, "update": 1}
    assert [(step.op, step.name) for step in preview.changed if step.op == "replace"] == [
        ("replace", "k"),
        ("replace", "preheat"),
    ]
    assert (preview.project, preview.stack, preview.incomplete) == ("tiny", "dev", "")


def test_a_digest_counts_what_the_cli_printed_for_it():
    preview = read_file(KUBERNETES / "changes.digest.json")
    assert preview.counts == printed_counts(KUBERNETES / "changes.diff.txt")
    assert {step.name: step.op for step in preview.changed} == {
        "k": "replace",
        "cm": "create",
        "m": "update",
        "gpu-0": "delete",
    }
    assert preview.form == "digest"


def test_a_digest_has_no_new_outputs_so_none_is_reported_as_deleted():
    stack = {
        "urn": "urn:pulumi:local::shop::pulumi:pulumi:Stack::shop-local",
        "type": "pulumi:pulumi:Stack",
        "custom": False,
    }
    step = {
        "op": "same",
        "urn": stack["urn"],
        "oldState": {**stack, "outputs": {"gateway": "http://gateway"}},
        "newState": stack,
    }
    preview = read_bytes(json.dumps({"steps": [step], "changeSummary": {"same": 1}}).encode())
    assert preview.output_changes == ()


def test_policy_events_are_kept_and_debug_diagnostics_are_not():
    preview = read_file(KUBERNETES / "policy-violations.ndjson")
    assert [
        (each.policy_name, each.enforcement_level, each.severity) for each in preview.policies
    ] == [
        ("pinned-images", "mandatory", "high"),
        ("budget", "advisory", ""),
    ]
    assert preview.policy_packs == {"probe|local|../pol": "0.0.1"}
    assert preview.result == "failed"
    assert {each.severity for each in preview.diagnostics} == {"warning", "error", "info#err"}


def test_remediations_are_kept():
    remediations = read_file(
        FIXTURES / "engine-events" / "d905e00b" / "eventstream.json"
    ).remediations
    assert [each.policy_name for each in remediations] == ["ignored", "real-deal"]


def test_unknown_keys_and_kinds_are_passed_over():
    lines = (KUBERNETES / "changes.ndjson").read_text().splitlines()
    strange = [json.dumps({"sequence": 1, "timestamp": 2, "quantumEvent": {"spin": 1}})]
    strange += [json.dumps({**json.loads(line), "novelty": [1]}) for line in lines]
    assert read_bytes("\n".join(strange).encode()) == read_bytes("\n".join(lines).encode())


def test_an_unknown_op_is_a_step_like_any_other():
    stream = (
        (KUBERNETES / "changes.ndjson").read_text().replace('"op":"update"', '"op":"transmute"')
    )
    assert ("transmute", "m") in [
        (step.op, step.name) for step in read_bytes(stream.encode()).changed
    ]


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=0, max_value=88284))
def test_a_truncated_stream_is_incomplete_and_never_an_error(cut):
    content = (KUBERNETES / "changes.ndjson").read_bytes()
    end = content.index(b'"summaryEvent"') - 40
    preview = read_bytes(content[: cut % end])
    assert preview.incomplete


def test_an_empty_stream_says_that_the_run_never_began():
    assert read_bytes(b"").incomplete == "the stream is empty; the run ended before it began"


def test_a_replacement_in_a_truncated_stream_is_one_replacement():
    lines = (KUBERNETES / "changes.ndjson").read_text().splitlines()
    first = next(index for index, line in enumerate(lines) if '"create-replacement"' in line)
    assert read_bytes("\n".join(lines[: first + 1]).encode()).counts["replace"] == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x00\x01\xff\xfe" * 64, ["events:1", "not valid UTF-8"]),
        (b"Logging in as anna\n", ["events:1: this line is not JSON"]),
        (b'{"sequence": 1, "preludeEvent": {}}\nPreviewing update\n', ["events:2", "is not JSON"]),
        (b"[1, 2]\n", ["events:1: this is not an event"]),
        (b'{"name": "inferplan"}\n', ["events:1", "unknown event with the keys ['name']"]),
        (b'{"resOutputsEvent": 5}\n', ["events:1", "resOutputsEvent"]),
        (b'{"resOutputsEvent": {"metadata": {"op": "same"}}}\n', ["metadata.urn", "required"]),
        (b'{"a":' * 20000, ["nested too deeply"]),
        (b"[" * 200000 + b"]" * 200000, ["nested too deeply"]),
    ],
)
def test_other_input_is_rejected_with_its_position_and_the_remedy(content, words):
    with pytest.raises(EventsError) as refusal:
        read_bytes(content)
    for word in [*words, "pulumi preview --json"]:
        assert word in str(refusal.value)


def test_a_line_of_a_hundred_megabytes_is_rejected_without_being_read_whole():
    class Endless:
        given = 0

        def readline(self, size):
            self.given += size
            return b"x" * size

    stream = Endless()
    with pytest.raises(EventsError, match="larger than 64 MiB"):
        read(stream, source="big")  # type: ignore[arg-type]  # only readline is asked for
    assert stream.given == MAX_RECORD + 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_rejected(content):
    assert "events" in outcome_of(content)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    kind=st.sampled_from(
        ["resOutputsEvent", "policyEvent", "summaryEvent", "preludeEvent", "steps"]
    ),
    body=_JSON,
)
def test_any_json_in_an_event_is_read_or_rejected(kind, body):
    assert "events" in outcome_of(json.dumps({kind: body}).encode())


def test_a_collector_without_events_counts_nothing():
    assert counts_of(StepCollector().steps()) == {}
