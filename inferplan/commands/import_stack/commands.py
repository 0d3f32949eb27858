"""Reads the command lines of servers: options with their values, and the place of each in its
document.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile

from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.kube.paths import Path
from inferplan.tables import table

_TABLE = table("commands/import_stack/servers.toml")["commands"]
_PROGRAM, _SERVER, _SHELL = (re.compile(_TABLE[name]) for name in ("program", "server", "shell"))
COMMAND_LINE = next(each for each in MODEL_SPECS.values() if "extra_args" in each.model_fields)
"""The engine whose options are read: a stack names them as its command line does."""
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
# Kubernetes replaces $(NAME) in commands, a shell also the other forms.
_REFERENCE, _SHELL_REFERENCE = (
    re.compile(r"\$\((\w+)\)"),
    re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))"),
)
# What a chart, an operator or a shell puts in before the server sees the word.
_TEMPLATE = re.compile(r"\{\{[^{}]*(?<![\w)])\.[A-Z]|\$\{\w+\}")
_OTHER_CHARACTERS = (
    "the name of the option contains other characters; write the option and its value as two words"
)
_SEPARATORS = ";&|<>\n"
_SCRIPT = (
    "only the command of the server and its options are read from the shell script; comments and"
    " other commands are not carried over"
)


@dataclass(kw_only=True)
class Option:
    """An option with its values, as `words` of a command line; a word that belongs to no option has
    the name "".

    `reason` says why the option cannot be carried over.
    """

    name: str
    words: list[str]
    path: Path
    values: list[str] = field(default_factory=list)
    reason: str = ""


def read_options(
    words: list[tuple[Path, str]], variables: Mapping[str, str], leave: Callable[[Path, str], None]
) -> list[Option]:
    """The options of a command. `words` have their paths; `variables` are the literal values of the
    container's environment.
    """
    reference, unresolved = _REFERENCE, _REFERENCE
    if len(words) > 2 and _SHELL.fullmatch(" ".join(word for _, word in words[:2])):
        (place, script), *rest = words[3:] if words[2][1] == "--" and len(words) > 3 else words[2:]
        leave(place, _SCRIPT)
        for path, _ in rest:
            leave(path, "it is an argument of the shell script")
        words = [(place, word) for word in next(filter(_starts_server, _commands(script)), [])]
        reference, unresolved = _SHELL_REFERENCE, re.compile("[$`]")
    arguments = dropwhile(lambda each: _PROGRAM.fullmatch(each[1]), words)
    resolved = (
        (path, reference.sub(lambda each: variables.get(each[each.lastindex or 0], each[0]), word))
        for path, word in arguments
    )
    options = _options(resolved)
    for each in options:
        if any(map(unresolved.search, each.words)):
            each.reason = (
                "it refers to a variable or a command whose value is not in the container's"
                " environment"
            )
        elif any(map(_TEMPLATE.search, each.words)):
            each.reason = "it contains a template that only the tools of its source can fill in"
    return options


def program_of(words: Iterable[str]) -> str:
    """The words that start a server, of a command and of the scripts in it."""
    commands = (each for word in words for each in (_commands(word) if " " in word else ([word],)))
    return " ".join(each for command in commands for each in command if _SERVER.fullmatch(each))


def take_weights(options: list[Option], *, by_name: bool = False) -> Option | None:
    """Take the last option that names the weights, else the first word that belongs to no option
    unless `by_name`.
    """
    named = [each for each in options if each.name in _TABLE["weights"] and each.values]
    if not (named or by_name):
        named = [each for each in options if not each.name][:1]
    if named:
        options.remove(named[-1])
    return named[-1] if named else None


def _options(words: Iterable[tuple[Path, str]]) -> list[Option]:
    options: list[Option] = []
    for path, word in words:
        if match := _OPTION.match(word):
            name, equals, value = word.partition("=")
            stem = match[0].partition(".")[0]
            reason = "" if match[0] == name else _OTHER_CHARACTERS
            options.append(
                Option(
                    name=stem.replace("_", "-"),
                    words=[word],
                    path=path,
                    values=[value] if equals else [],
                    reason=reason,
                )
            )
        elif options and _takes_value(options[-1]):
            options[-1].values.append(word)
            options[-1].words.append(word)
        else:
            options.append(Option(name="", words=[word], path=path, values=[word]))
    return options


def _takes_value(option: Option) -> bool:
    """True if the next word is a value of `option`. A switch has a second form, `--no-<name>`."""
    is_switch = option.name.startswith("--no-") or is_known(
        f"--no-{option.name.removeprefix('--')}"
    )
    return option.name in _TABLE["many"] or not (option.values or is_switch)


def is_known(option: str) -> bool:
    """True if the engine has the option."""
    return not any(COMMAND_LINE.model_construct(extra_args=[option]).unknown_options())


def _commands(script: str) -> Iterator[list[str]]:
    """The commands of a shell script, a list of words each, without comments."""
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    command: list[str] = []
    in_comment = False
    try:
        for token in lexer:
            ends = not set(token) - set(_SEPARATORS)
            in_comment = (in_comment and "\n" not in token) or (not ends and token.startswith("#"))
            if ends and not in_comment:
                yield command
                command = []
            elif not in_comment:
                command.append(token)
    except ValueError:
        return  # a quote without its end
    yield command


def _starts_server(command: list[str]) -> bool:
    return any(map(_SERVER.fullmatch, takewhile(_PROGRAM.fullmatch, command)))
