"""What a person types out of habit: commands of other tools, the tab key, and NO_COLOR."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.commands.main import COMMANDS
from inferplan.tables import table
from tests.lanes import in_full

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("list", "inferplan status STACK"),
        ("rollback", "Revert the commit in Git, then: inferplan up STACK"),
        ("diff", "inferplan plan STACK --against REVISION"),
        ("history", "git log -p stacks/Pulumi.STACK.yaml"),
        ("destroy", "inferplan down STACK"),
        ("preview", "inferplan plan STACK"),
    ],
)
def test_a_command_of_another_tool_names_ours(capsys, typed, remedy):
    with pytest.raises(SystemExit) as ended:
        main.run((typed, "local"))
    assert ended.value.code == 2
    message = " ".join(capsys.readouterr().err.split())
    assert f"Unknown command '{typed}'" in message
    assert remedy in message


def test_every_remedy_names_a_command_that_exists():
    for typed, remedy in table("workspace/remedies.toml")["commands"].items():
        assert typed not in COMMANDS
        named = [each.split()[0].strip(",") for each in remedy.split("inferplan ")[1:]]
        assert {*named} <= {*COMMANDS}, remedy


def _completed(line: str, word: int) -> list[str]:
    variables = {
        "_INFERPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(word),
    }
    code = (
        "import sys; from inferplan.commands.main import main, run\ntry:\n run([])\nfinally:\n"
        " sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not {"pulumi", "pulumi_kubernetes"} & {*done.stderr.split()}, "completion has to be fast"
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "word", "names"),
    [
        ("inferplan status ", 2, {"local", "prod", "onprem"}),
        ("inferplan call --stack onprem ", 4, {"qwen-3-8b", "llama-3-70b"}),
        ("inferplan keys show --stack onprem ", 5, {"assistants", "evaluation"}),
        ("inferplan plan on", 2, {"onprem"}),
        *in_full(("inferplan call q", 2, {"qwen-3-8b", "qwen-3-14b"})),
    ],
)
def test_the_shell_completes_stacks_models_and_consumers(line, word, names):
    assert {*_completed(line, word)} >= names


def test_completion_keeps_to_the_named_stack():
    assert "chat" not in _completed("inferplan keys show --stack onprem ", 5)


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "--help"), ("validate", "nowhere")])
def test_no_color_leaves_no_escape_code_on_a_terminal(arguments):
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    code = f"from inferplan.commands.main import run; run({list(arguments)!r})"
    environment = os.environ | {"NO_COLOR": "1", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, stdout=writer, stderr=writer
    )
    os.close(writer)
    printed = b""
    while True:
        try:
            part = os.read(reader, 2**16)
        except OSError:
            break
        if not part:
            break
        printed += part
    process.wait()
    os.close(reader)
    assert printed
    assert b"\x1b" not in printed
