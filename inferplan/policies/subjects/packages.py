"""Shell commands that install or run packages of a registry. All rules on such commands read this one
table.
"""

import re
from functools import cache, lru_cache

from inferplan.tables import table

# An option before the command may have a value in the next word: npm --prefix /tmp install.
_BEFORE = r"(-\S*\s+([^\s-]\S*\s+)?)*?"
_MOST_WORDS = 16
_OFFLINE = frozenset(["--no-index", "--offline", "--dry-run", "--help"])
_COMMENT = re.compile(r"(?m)(^|(?<=\s))#.*$")
_PRINTED = re.compile(
    r"""(?<![\w./-])(echo|printf|logger)(\s+("[^"]*"|'[^']*'|[^\s;&|"']+))+(?!\s*\|)"""
)
_ENDS = re.compile(r"[;&|\n()`]+")
_QUOTES = re.compile(r"""[\s'",\[\]]+""")  # of a shell, and of a list of Python


def commands_in(script: str) -> str:
    """A shell script without its comments and what it only prints."""
    return _PRINTED.sub(":", _COMMENT.sub("", script.replace("\\\n", " ")))


@lru_cache(maxsize=1024)
def installs(text: str) -> bool:
    """True if a command in `text` installs packages of a registry."""
    return _has("installs", text)


@lru_cache(maxsize=1024)
def runs(text: str) -> bool:
    """True if a command in `text` runs a package of a registry at once."""
    return _has("runs", text)


def _has(group: str, text: str) -> bool:
    for command in _ENDS.split(commands_in(text)):
        words = [each for each in _QUOTES.split(command) if each]
        for place, word in enumerate(words if _OFFLINE.isdisjoint(words) else (), 1):
            if wanted := _commands_of(group, word.rpartition("/")[2]):
                rest = " ".join(words[place : place + _MOST_WORDS])
                if re.match(rf"{_BEFORE}({wanted})(\s|\Z|(?<=[/:@]))", rest):
                    return True
    return False


@lru_cache(maxsize=4096)
def _commands_of(group: str, program: str) -> str:
    """The commands of a program that do so, as one pattern; "" if it has none."""
    if not _programs_of(group).fullmatch(program):
        return ""
    rows = table("policies/subjects/packages.toml")[group].items()
    return "|".join(commands for names, commands in rows if re.fullmatch(names, program))


@cache
def _programs_of(group: str) -> re.Pattern[str]:
    return re.compile("|".join(table("policies/subjects/packages.toml")[group]))
