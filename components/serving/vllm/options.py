"""The options of `vllm serve`, to find a misspelt one in extraArgs before a pod fails on it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

VERSION = "0.32.0"
"""The version of vLLM whose argument parser listed the options in `options.txt`."""


@cache
def options() -> frozenset[str]:
    """Return every long option."""
    lines = Path(__file__).with_name("options.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def unknown_options(arguments: list[str]) -> list[str]:
    """Return the options among `arguments` that vLLM does not have.

    vLLM reads `--a.b=1` as a key of `--a`, underscores as hyphens, and the unique beginning of an option as the option.
    """
    names = [each.partition("=")[0].partition(".")[0].replace("_", "-") for each in arguments if each.startswith("--")]
    return [name for name in names if not any(option.startswith(name) for option in options())]
