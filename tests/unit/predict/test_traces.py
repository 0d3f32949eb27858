"""Traces in the public formats, and what a damaged one says."""

from __future__ import annotations

import pytest

from inferplan.predict.traces import TraceError, read_trace

# The first lines of the public samples (Mooncake's FAST25 traces; AzureLLMInferenceTrace_conv.csv
# of 2023).
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 7319, "output_length": 490, "hash_ids": [0, 14]}
"""
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""


def read(tmp_path, text):
    path = tmp_path / "a.trace"
    path.write_text(text)
    return read_trace(path, "a.trace")


def test_both_formats_have_times_in_seconds_and_tokens(tmp_path):
    mooncake, azure = read(tmp_path, MOONCAKE), read(tmp_path, AZURE)
    assert (mooncake.arrivals.tolist(), mooncake.prompts.tolist(), mooncake.answers.tolist()) == (
        [0, 3],
        [6758, 7319],
        [500, 490],
    )
    assert azure.arrivals.tolist() == pytest.approx([0, 4.314579], abs=1e-5)
    assert (azure.prompts.tolist(), azure.answers.tolist()) == ([374, 396], [44, 109])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.trace has 0 requests. A trace needs at least 2"),
        (
            "a,b\n",
            (
                "a.trace:1: 'a,b' is not the header of a trace. Expected"
                " TIMESTAMP,ContextTokens,GeneratedTokens"
            ),
        ),
        (
            AZURE.replace(",109", ""),
            (
                "a.trace:3: '2023-11-16 18:15:50.9951690,396' is not a request. Expected a time and"
                " two numbers."
            ),
        ),
        (
            AZURE.replace("374", "-1"),
            (
                "a.trace:2: -1 input tokens is out of range. Expected 1 to 10,000,000. Remove the"
                " request, or correct it"
            ),
        ),
        (AZURE.replace("374", "nan"), "a.trace:2: nan input tokens is out of range."),
        (
            AZURE.replace("109", "1e9"),
            "a.trace:3: 1e+09 output tokens is out of range. Expected 0 to 10,000,000.",
        ),
        (
            MOONCAKE.replace("3000", "-5"),
            (
                "a.trace:2: -0.005 seconds is out of range. Expected at least 0. Remove the"
                " request, or correct it"
            ),
        ),
        (
            MOONCAKE.replace('"timestamp": 0', '"timestamp": 9000'),
            "a.trace:2: it comes before the request above it. Expected rising times. Sort",
        ),
        (MOONCAKE.replace("7319", "null"), 'a.trace:2: \'{"timestamp": 3000'),
        (
            MOONCAKE + "oops\n",
            (
                "a.trace:3: 'oops' is not a request. Expected timestamp (ms), input_length and"
                " output_length. Correct the line"
            ),
        ),
        (MOONCAKE.splitlines()[0], "a.trace has 1 requests. A trace needs at least 2"),
    ],
)
def test_a_damaged_trace_is_one_line_with_place_and_remedy(tmp_path, text, message):
    with pytest.raises(TraceError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_trace_with_a_hole_is_rejected(tmp_path):
    lines = [
        f'{{"timestamp": {second * 1000}, "input_length": 9, "output_length": 9}}'
        for second in (*range(600), *range(10_000, 10_600))
    ]
    with pytest.raises(
        TraceError,
        match=(
            r"a.trace:601: no request for 2.6 hours before it. A trace must not have holes. Cut it"
            r" there"
        ),
    ):
        read(tmp_path, "\n".join(lines))


def test_the_busiest_five_minutes_give_the_rate(tmp_path):
    lines = [
        f'{{"timestamp": {second * 100}, "input_length": 9, "output_length": 9}}'
        for second in range(36_000)
    ]
    assert read(tmp_path, "\n".join(lines)).busiest == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    "times", [[*range(0, 60_000, 1200), *range(7_260_000, 7_320_000, 1200)], [0, 90_000_000]]
)
def test_a_hole_does_not_hide_behind_the_mean_that_it_raises(tmp_path, times):
    """Two hours between two busy minutes are half of all time; two requests a day apart are no
    trace of traffic.
    """
    with pytest.raises(TraceError, match=r"no request for (2|25)\.0 hours before it"):
        read(
            tmp_path,
            "".join(
                f'{{"timestamp": {each}, "input_length": 9, "output_length": 9}}\n'
                for each in times
            ),
        )
