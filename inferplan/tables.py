"""Tables of data, next to the modules that read them."""

from functools import cache
from pathlib import Path
from typing import Any


@cache
def table(path: str) -> Any:
    """Return the contents of the TOML file, or the rows of the CSV file, at `path` below the
    package.
    """
    text = (Path(__file__).parent / path).read_text(encoding="utf-8")
    if path.endswith(".csv"):
        import csv

        return list(csv.DictReader(text.splitlines()))
    import tomllib

    return tomllib.loads(text)
