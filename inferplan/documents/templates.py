"""Jinja templates, next to the modules that render them, and their compiled form, which is kept
between runs: compiling took a tenth of `plan` (2026-11).
"""

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from inferplan.documents.files import cache_directory

_PACKAGE = Path(__file__).parents[1]


@cache
def template(path: str, *, filters: tuple[tuple[str, Any], ...] = (), **options: Any) -> Any:
    """Return the Jinja template at `path` below the package, which may include others of its
    folder. Only HTML is escaped: `autoescape=True`.
    """
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    compiled = cache_directory() / "templates"
    with suppress(OSError):  # a directory that cannot be written keeps nothing
        compiled.mkdir(parents=True, exist_ok=True)

    class Compiled(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Any) -> None:
            with suppress(OSError):
                super().dump_bytecode(bucket)

    folder, _, name = path.rpartition("/")
    environment = Environment(  # noqa: S701 - see above
        loader=FileSystemLoader(_PACKAGE / folder),
        undefined=StrictUndefined,
        bytecode_cache=Compiled(str(compiled), "%s") if compiled.is_dir() else None,
        **options,
    )
    environment.filters.update(filters)
    return environment.get_template(name)
