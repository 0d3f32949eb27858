"""Output fits the width that COLUMNS states; without it lines stay whole, for logs and searches."""

from __future__ import annotations

import io

import pytest

from inferplan.commands.main import run
from inferplan.commands.screen import into, table

LINE = (
    "note: a sentence that goes on for longer than sixty columns, as most notes of a plan do, and"
    " then some"
)
URL = "https://minio.storage.svc.cluster.local:9000/acme-weights/llm/llama-3-8b/model-00001-of-00002.safetensors"


def printed(text, **options):
    stream = io.StringIO()
    into(stream).print(text, highlight=False, soft_wrap=True, **options)
    return stream.getvalue()


def test_lines_are_folded_at_words_and_the_rest_is_indented(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    first, *rest = printed(LINE).splitlines()
    assert rest
    assert all(len(line) <= 60 for line in (first, *rest))
    assert all(line.startswith("    ") for line in rest)
    assert " ".join(f"{first} {' '.join(rest)}".split()) == LINE


def test_an_indented_line_stays_indented_and_each_line_is_folded_for_itself(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = printed(f"one\n  {LINE}\ntwo").splitlines()
    assert (lines[0], lines[-1]) == ("one", "two")
    assert lines[1].startswith("  note")
    assert all(line.startswith("      ") for line in lines[2:-1])


def test_a_table_in_a_file_has_no_blanks_at_the_end_of_its_lines():
    stream, rows = io.StringIO(), table("checks", "check", "finding")
    rows.add_row("a", "short")
    rows.add_row("b", "longer than the other")
    into(stream).print(rows)
    assert "longer than the other" in stream.getvalue()
    assert not [line for line in stream.getvalue().splitlines() if line.endswith(" ")]


def test_a_url_stays_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert URL in printed(f"see {URL} for it").split()


def test_without_a_width_a_line_stays_whole(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert printed(LINE * 3) == LINE * 3 + "\n"


def test_markup_is_kept_or_shown_as_asked(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert printed("[red]x[/] " + LINE).startswith("x note")
    assert printed("[red]x[/] " + LINE, markup=False).startswith("[red]x[/] note")


@pytest.mark.parametrize(
    "command",
    [
        ["validate"],
        ["validate", "nosuch"],
        ["status", "nosuch"],
        ["plan", "local", "--nosuch"],
        ["nosuch"],
    ],
)
def test_messages_of_commands_fit(monkeypatch, capsys, command):
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        run(command)
    told = capsys.readouterr()
    lines = (told.out + told.err).splitlines()
    assert lines
    assert all(len(line) <= 60 for line in lines), lines
