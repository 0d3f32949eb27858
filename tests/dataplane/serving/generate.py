"""Runs a generator that inferplan ships, in the environment that has its library: `python
generate.py SOURCE WEIGHTS PARAMETERS`.

PARAMETERS is JSON, strings by name. What it answers is printed as JSON, on the last line.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROWS = [("a longer prompt", 9, 0.0), ("one", 4, 0.0), ("a prompt", 6, 0.0)]


def main(source: str, weights: str, parameters: str) -> None:
    """Asks for whole answers, for pieces, for three at a time, and for one that is given up."""
    scope: dict[str, Any] = {"__name__": "generator", "__file__": source}
    exec(compile(Path(source).read_text(encoding="utf-8"), source, "exec"), scope)  # noqa: S102 - running the generator is what this program is for
    generator = scope["Generator"](weights, "cpu", json.loads(parameters))
    said = {
        "whole": generator.generate(ROWS),
        "alone": [generator.generate([row])[0] for row in ROWS],
        "pieces": [list(generator.stream(row, lambda: False)) for row in ROWS],
    }
    with ThreadPoolExecutor(max_workers=len(ROWS)) as threads:
        said["beside"] = list(
            threads.map(lambda row: "".join(generator.stream(row, lambda: False)), ROWS)
        )
    left = generator.stream(
        ("a longer prompt", 200, 0.0), iter([False, False, *[True] * 400]).__next__
    )
    said["given up"] = len("".join(left))
    said["after"] = generator.generate(ROWS[:1])
    if hasattr(generator, "close"):
        generator.close()
    print(json.dumps(said))


# Engines start processes that read this file again.
if __name__ == "__main__":
    main(*sys.argv[1:])
