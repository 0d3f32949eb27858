"""The command itself: quick to list what it can do, and never a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from inferplan.commands import main
from inferplan.documents.files import state_directory
from inferplan.errors import UnsettledError

PROJECT = Path(__file__).parents[3]
INFERPLAN = Path(sys.executable).with_name("inferplan")
VALIDATE = "from inferplan.commands import main; main.run(['validate', 'local'])"


@pytest.fixture
def add(monkeypatch):
    """Adds a sub-command `try` that runs the function given."""

    def register(function) -> None:
        module = ModuleType("try_module")
        vars(module)["command"] = function
        monkeypatch.setitem(sys.modules, "try_module", module)
        monkeypatch.setitem(main.COMMANDS, "try", ("try_module", "Try.", "inferplan try"))

    return register


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main.run(arguments)
    return int(caught.value.code or 0)


def test_every_listed_command_can_be_loaded_and_explains_itself(capsys):
    for name, (_, text, _) in main.COMMANDS.items():
        assert exit_code(name, "--help") == 0
        assert capsys.readouterr().out
        assert text.endswith(".")


@pytest.mark.parametrize("arguments", [("-h",), ("plan", "-h")])
def test_the_short_help_option_works_everywhere(arguments, capsys):
    assert exit_code(*arguments) == 0
    assert "Usage: inferplan" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"inferplan {version('inferplan')}\n"


@pytest.mark.parametrize(("typed", "offered"), [("sta", "status"), ("keys --va", "--value")])
def test_the_shell_completes_commands_and_their_options(typed, offered):
    words = f"inferplan {typed}"
    env = {
        **os.environ,
        "_INFERPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [INFERPLAN], env=env, capture_output=True, text=True, check=False, cwd=PROJECT
    )
    assert done.stdout.split() == [offered], done.stderr


def test_listing_the_commands_loads_none_of_them_and_neither_pulumi_nor_the_specs():
    script = (
        "import sys\nfrom inferplan.commands import main\ntry:\n  main.run(['--help'])\nexcept"
        " SystemExit: print('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    loaded = set(done.stdout.split())
    assert "inferplan.commands.main" in loaded
    assert loaded.isdisjoint(
        {
            "pulumi",
            "pydantic",
            "kubernetes",
            "inferplan.commands.validate.command",
            "inferplan.stackfile.settings",
            "markdown_it",
            "pygments",
            "rich.markdown",
            "rich.traceback",
        }
    )


def test_checking_a_stack_needs_neither_pulumi_nor_a_cloud_sdk():
    script = (
        "import sys\nfrom inferplan.commands import main\ntry:\n  main.run(['validate',"
        " 'local'])\nexcept SystemExit as done: print(done.code); print('\\n'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    assert "ok  stacks/Pulumi.local.yaml" in done.stdout
    assert set(done.stdout.split()).isdisjoint(
        {"pulumi", "pulumi_aws", "pulumi_kubernetes", "kubernetes"}
    )


def test_an_unknown_command_names_the_nearest_one_and_is_bad_input(capsys):
    assert exit_code("validat") == 2
    assert "did you mean 'validate'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan"], "missing argument 'stack'. Choose from: dev, local, onprem, prod, staging. For the options, run: inferplan plan --help"),
        (["preheat", "m"], "missing option '--stack' / '-s'. Choose from: dev, local, onprem, prod, staging. For the options, run: inferplan preheat --help"),
        (["up", "local", "--engine", "foo"], "invalid value for '--engine': 'foo' is not one of 'auto', 'pulumi', 'rehearsal'. For the options, run: inferplan up --help"),
        (["plan", "local", "more"], "got unexpected extra argument(s) (more). For the options, run: inferplan plan --help"),
        (["--unheard"], "no such option: --unheard. For the options, run: inferplan --help"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_reported_in_one_line_with_the_remedy(capsys, arguments, told):
    assert exit_code(*arguments) == 2
    assert capsys.readouterr().err == f"inferplan: {told}\n"


def test_no_command_at_all_lists_them(capsys):
    assert exit_code() == 2
    assert "Bring a stack up" in capsys.readouterr().out


def test_an_interrupt_ends_in_a_line_that_says_how_to_go_on(add, capsys):
    def command(_word: str) -> None:
        raise KeyboardInterrupt

    add(command)
    assert exit_code("try", "two words") == 130
    assert (
        capsys.readouterr().err
        == "inferplan: interrupted; completed steps are kept. To continue, run: inferplan try 'two"
        " words'\n"
    )


def test_an_unforeseen_exception_becomes_one_line_and_a_trace_file(
    add, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def command() -> None:
        raise KeyError("lost\nline")

    add(command)
    assert exit_code("try") == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err + captured.out
    trace = re.search(r"the trace in (\S+)", captured.err)
    assert trace is not None
    assert "Traceback" in Path(trace[1]).read_text()
    assert Path(trace[1]).stat().st_mode & 0o077 == 0, "a trace is its owner's alone"


def test_a_trace_that_cannot_be_written_causes_no_second_failure(
    add, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))

    def command() -> None:
        raise RuntimeError("x")

    add(command)
    assert exit_code("try") == 1
    assert "its trace could not be saved (No such file or directory)" in capsys.readouterr().err


def test_an_error_on_purpose_is_printed_as_it_is_with_its_own_exit_code(add, capsys):
    def command() -> None:
        raise UnsettledError("no such thing; do another")

    add(command)
    assert exit_code("try") == 3
    assert capsys.readouterr().err == "inferplan: no such thing; do another\n"


def test_a_fault_of_the_rehearsal_is_printed_with_its_remedy(add, capsys):
    from inferplan.errors import RehearsalError

    def command() -> None:
        raise RehearsalError("the port is taken", "stop whatever holds it")

    add(command)
    assert exit_code("try") == 1
    assert capsys.readouterr().err == "inferplan: the port is taken. Stop whatever holds it\n"


def test_paths_in_the_environment_are_relative_to_the_folder_of_the_person(
    capsys, tmp_path, monkeypatch
):
    (tmp_path / "passphrase").write_text("inferplan-example\n")
    (tmp_path / "inferplan").mkdir()
    for name in ("Pulumi.yaml", "stacks", "inferplan/infra"):
        (tmp_path / name).symlink_to(PROJECT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "passphrase")
    monkeypatch.setenv("INFERPLAN_STATE_DIR", "state")
    assert exit_code("keys", "show", "chat", "--stack", "local") == 0
    assert capsys.readouterr().out.count("\tvalid\t") == 2
    assert state_directory() == tmp_path / "state"


def test_a_full_disk_is_not_reported_as_a_defect():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", VALIDATE],
            cwd=PROJECT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "inferplan: no space left for the output. Free space and run it again\n",
    )


def test_a_locale_that_cannot_draw_tables_gets_them_all_the_same():
    draws = (
        "import sys; from inferplan.commands import main; sys.modules['draw'] = sys; sys.command ="
        " lambda: print('\u2500 pools')"
    )
    script = (
        f"{draws}; main.COMMANDS['draw'] = ('draw', 'Draw.', 'inferplan draw'); main.run(['draw'])"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "? pools\n", "")


def test_the_process_ends_with_the_code_of_the_command_its_output_and_its_exit_functions():
    script = (
        "import atexit, sys; from inferplan.commands import main; atexit.register(print,"
        " 'cleaned'); sys.argv = ['inferplan', {!r}]; main.main()"
    )
    for argument, code, out in (("--version", 0, "inferplan "), ("unheard", 2, "")):
        done = subprocess.run(
            [sys.executable, "-c", script.format(argument)],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (
            done.returncode,
            done.stdout.startswith(out),
            done.stdout.endswith("cleaned\n"),
        ) == (code, True, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "raised",
    [
        "raise KeyboardInterrupt",
        # What an import and an event loop make of an interrupt.
        "raise ImportError('Terminated')",
        "from asyncio import InvalidStateError; raise InvalidStateError('invalid state')",
        "import threading; threading.Thread(target=lambda: 1 / 0).start()",
    ],
)
def test_an_interrupt_ends_in_one_line_whatever_it_became(number, raised):
    program = (
        "import os, sys\n"
        "from inferplan.commands import main\n"
        "from inferplan.commands.schema import command as schema\n"
        "def command():\n"
        f"    try: os.kill(os.getpid(), {number.value})\n"
        "    except BaseException:\n"
        f"        {raised}\n"
        "        raise\n"
        "schema.command = command\n"
        "main.run(['schema'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == (130 if number == signal.SIGINT else 143), done.stderr
    assert done.stderr == (
        "inferplan: interrupted; completed steps are kept. To continue, run: inferplan schema\n"
    )
