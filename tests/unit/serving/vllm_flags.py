"""The options of `vllm serve` 0.32.0, from its own parser, and what is wrong with a list of
arguments in their light.

`vllm-flags-0.32.0.json` holds every option with its spellings, how many values it takes, and its
choices. The whole suite reads the parser again, with `READER` in vLLM's own environment, and
compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READER = """
import json
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
print(json.dumps([
    {"flags": each.option_strings, "takes": {None: "one", 0: "nothing"}.get(each.nargs, each.nargs), "choices": list(each.choices or [])}
    for each in make_arg_parser(FlexibleArgumentParser())._actions if each.option_strings and each.dest != "help"
]))
"""


@dataclass(frozen=True)
class Flag:
    """One option: whether a value follows (`one`, `nothing`, `+`, `*`, `?`), and which ones there
    are, none when any will do.
    """

    takes: str
    choices: frozenset[str]


def flags_of(options: list[dict[str, Any]]) -> dict[str, Flag]:
    """The options by each of their spellings."""
    return {
        spelling: Flag(takes=option["takes"], choices=frozenset(map(str, option["choices"])))
        for option in options
        for spelling in option["flags"]
    }


FLAGS = flags_of(
    json.loads(Path(__file__).with_name("vllm-flags-0.32.0.json").read_text())["flags"]
)


def complaints(arguments: Sequence[str]) -> list[str]:
    """What the parser would not take of the arguments that follow the model."""
    return list(_complaints(list(arguments)))


def _complaints(arguments: list[str]) -> Iterator[str]:
    while arguments:
        option, equals, value = arguments.pop(0).partition("=")
        flag = FLAGS.get(option)
        if flag is None:
            yield f"{option} is no option"
            continue
        values = [value] if equals else []
        while (
            arguments
            and not arguments[0].startswith("-")
            and not equals
            and flag.takes != "nothing"
        ):
            values.append(arguments.pop(0))
        if flag.takes == "nothing" and values:
            yield f"{option} takes no value"
        if (flag.takes == "one" and len(values) != 1) or (flag.takes == "+" and not values):
            yield f"{option} takes {flag.takes} value and got {len(values)}"
        yield from (
            f"{option} cannot be {each}"
            for each in values
            if flag.choices and each not in flag.choices
        )
