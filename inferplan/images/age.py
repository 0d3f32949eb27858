"""Lists rows of the product's tables whose sources were read too long ago:

python -m inferplan.images.age [MONTHS]
"""

import csv
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_MONTHS = 2


def old_rows(today: date, months: int = _MONTHS) -> list[tuple[str, str, str]]:
    """Return month, file and row of each fact that is older than `months`, the oldest first."""
    oldest = today.year * 12 + today.month - 1 - months
    return sorted(
        (read, file, row)
        for read, file, row in _dated()
        if int(read[:4]) * 12 + int(read[5:7]) - 1 < oldest
    )


def _dated() -> Iterator[tuple[str, str, str]]:
    for path in sorted(_PACKAGE.rglob("*.toml")):
        name = path.relative_to(_PACKAGE).as_posix()
        for row, read in _reads(tomllib.loads(path.read_text(encoding="utf-8"))):
            yield read, name, row
    for path in sorted(_PACKAGE.rglob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                if read := line.get("read"):
                    yield read, path.relative_to(_PACKAGE).as_posix(), next(iter(line.values()))


def _reads(node: Any, row: str = "") -> Iterator[tuple[str, str]]:
    """Yield each table below `node` that says when its source was read, by its path."""
    if isinstance(node, dict):
        if isinstance(read := node.get("read"), str):
            yield row or "the table", read
        for key, each in node.items():
            yield from _reads(each, f"{row}.{key}".removeprefix("."))


def main(months: int) -> int:
    """Print the rows, and return 1 if there are some."""
    rows = old_rows(datetime.now(UTC).date(), months)
    for read, file, row in rows:
        print(f"{read}  {file}  {row}")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else _MONTHS))
