"""Checks that a container can start in its image: which programs it calls, and which directories it
must be able to write.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import PurePosixPath

from inferplan.images.catalogue import ImageFacts, WrittenPath, catalogue

_SHELLS = ("sh", "bash")
# Programs that every image with a shell has; rows do not list them.
_COREUTILS = frozenset({"cat", "cp", "echo", "false", "mkdir", "sleep", "test", "true"})


def programs_called(words: Sequence[str]) -> set[str]:
    """The programs that a command, its arguments or a script of `sh -c` call by name: the first
    word, and those of the catalogue.
    """
    if not words:
        return set()
    first, *rest = words
    text = [*rest]
    if _base(first) in _SHELLS and "-c" in rest:
        with suppress(ValueError):
            text = shlex.split(rest[rest.index("-c") + 1])
    return {_base(first), *(word for word in text if word in _known_programs())}


def missing_programs(facts: ImageFacts, words: Sequence[str]) -> list[str]:
    here = {_base(program) for program in facts.programs}
    return sorted(programs_called(words) - here - (_COREUTILS if "sh" in here else frozenset()))


def unwritable_paths(
    facts: ImageFacts, environment: Mapping[str, str], mounts: Iterable[str]
) -> list[WrittenPath]:
    """The directories that the image's programs write to and that are in none of `mounts`, the
    paths of writable volumes.
    """
    volumes = [*mounts]
    homes = [each.path for each in facts.writes if each.env == "HOME"]
    return [
        each
        for each in facts.writes
        if not any(is_below(_place(each, environment, homes), volume) for volume in volumes)
    ]


def _place(written: WrittenPath, environment: Mapping[str, str], homes: Iterable[str]) -> str:
    """The place of a directory: its variable moves it, and HOME moves all directories below it."""
    if written.env is not None and written.env in environment:
        return environment[written.env]
    for home in homes:
        if "HOME" in environment and is_below(written.path, home):
            return str(
                PurePosixPath(environment["HOME"]) / PurePosixPath(written.path).relative_to(home)
            )
    return written.path


# Thousands of containers have the same paths, and `PurePosixPath` takes 10 us for each pair.
@lru_cache(maxsize=4096)
def is_below(path: str, folder: str) -> bool:
    """True if `path` is `folder`, or a path in it."""
    return PurePosixPath(path).is_relative_to(folder)


def _base(program: str) -> str:
    return program.rpartition("/")[2]


@cache
def _known_programs() -> frozenset[str]:
    rows = catalogue().values()
    # `serve` is a program of Ray, and the first argument of vLLM.
    arguments = {word for row in rows for word in row.entrypoint[1:]}
    programs = frozenset(program for row in rows for program in row.programs)
    return programs - {*_SHELLS, *_COREUTILS, *arguments}
