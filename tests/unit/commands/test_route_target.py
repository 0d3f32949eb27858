"""A route is called as a model is: its snippet and its calls go to /v1, with the key of a consumer
that the route grants.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from inferplan.commands.main import run

PROJECT = Path(__file__).parents[3]
ROUTE = (
    "  inferplan:routes: {chat-large: {backends: {llama-3-70b: 95, llama-3-8b: 5}, consumers:"
    " [batch]}}\n"
)


@pytest.fixture
def stack(tmp_path, monkeypatch):
    (tmp_path / "inferplan" / "infra").mkdir(parents=True)
    (tmp_path / "stacks").mkdir()
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    text = (PROJECT / "stacks" / "Pulumi.local.yaml").read_text()
    (tmp_path / "stacks" / "Pulumi.local.yaml").write_text(text.rstrip() + "\n" + ROUTE)
    monkeypatch.chdir(tmp_path)


def snippet(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        run(["snippet", "chat-large", "--stack", "local", *arguments])
    return int(ended.value.code or 0), *capsys.readouterr()


@pytest.mark.usefixtures("stack")
def test_the_snippet_of_a_route_names_it_at_the_one_address(capsys):
    code, out, err = snippet(capsys, "--protocol", "openai")
    assert (code, err) == (0, "")
    assert re.search(r"https?://[^/ ]+/v1/chat/completions", out)
    assert '"model": "chat-large"' in out
    assert "inferplan keys show batch" in out


@pytest.mark.usefixtures("stack")
def test_a_consumer_without_the_route_gets_no_snippet_and_no_other_protocol_has_one(capsys):
    code, _, err = snippet(capsys, "--consumer", "chat")
    assert code == 2
    assert (
        "chat may not call chat-large; batch may. Add it to routes.chat-large.consumers in"
        " stacks/Pulumi.local.yaml" in err
    )
    code, _, err = snippet(capsys, "--protocol", "kserve-v2-http")
    assert code == 2
    assert "chat-large" in err
    assert "does not speak kserve-v2-http. It speaks openai" in err
