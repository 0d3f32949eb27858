"""Tables of data and templates of text, next to the modules that read them."""

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


@cache
def template(path: str, *, filters: tuple[tuple[str, Any], ...] = (), **options: Any) -> Any:
    """Return the Jinja template at `path` below the package, which may include others of its
    folder. Only HTML is escaped: `autoescape=True`.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder, _, name = path.rpartition("/")
    loader = FileSystemLoader(Path(__file__).parent / folder)
    environment = Environment(loader=loader, undefined=StrictUndefined, **options)  # noqa: S701 - see above
    environment.filters.update(filters)
    return environment.get_template(name)
