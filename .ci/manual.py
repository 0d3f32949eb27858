"""Writes docs/inferplan.1, the manual page that the wheel installs for `man inferplan`, from the commands themselves."""

from pathlib import Path
from typing import Any

from inferplan.commands.main import COMMANDS, load

PAGE = Path(__file__).resolve().parents[1] / "docs" / "inferplan.1"
_END = """.SH EXIT STATUS
0 done, 1 rejected or failed, 2 bad input, 3 differs from the file, 130 interrupted, 143 terminated.
.SH FILES
.TP
.I stacks/Pulumi.STACK.yaml
The platform of an environment.
.TP
.I .passphrase
The passphrase of the project's secrets, if no variable of Pulumi holds it.
.SH SEE ALSO
.B inferplan docs
prints and searches the documentation.
"""


def manual() -> str:
    """Return the page in roff's man macros."""
    lines = [
        ".TH INFERPLAN 1",
        ".SH NAME",
        r"inferplan \- one declarative plan for AI inference platforms",
        ".SH SYNOPSIS",
        ".B inferplan",
        ".I COMMAND",
        "[OPTION]...",
        ".SH COMMANDS",
    ]
    for name, (_, text, example) in COMMANDS.items():
        command = load(name)
        positional = [each for each in command.params if each.param_type_name == "argument"]
        words = " ".join(_word(each) for each in positional)
        lines += [f'.SS "inferplan {_safe(name)} {_safe(words)}"', _safe(text)]
        for each in command.params:
            if each.param_type_name == "option" and not getattr(each, "hidden", False):
                names = ", ".join((*each.opts, *each.secondary_opts))
                lines += [".TP", f".B {_safe(names)}", _safe(getattr(each, "help", None) or "")]
        lines += [".PP", "Example:", f".B {_safe(example)}"]
    return "\n".join(lines) + "\n" + _END


def _word(argument: Any) -> str:
    word = (argument.metavar or argument.name.upper()).strip("[]")
    return word if argument.required else f"[{word}]"


def _safe(text: str) -> str:
    """Escape what roff would read as a request or a dash of text."""
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain


if __name__ == "__main__":
    PAGE.write_text(manual(), encoding="utf-8")
