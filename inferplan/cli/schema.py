"""`inferplan schema`: the JSON Schema of stack files, for editors. It derives everything and keeps nothing of its own."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from inferplan.operations.project import project_root, short_path
from inferplan.operations.validation import stack_schema_text


def command(write: Annotated[bool, typer.Option("--write", help="Write schemas/stack.schema.json instead of printing.")] = False) -> None:
    """Print the JSON Schema of stack files, or write it where editors look for it."""
    text = stack_schema_text()
    if not write:
        sys.stdout.write(text)
        return
    path = project_root() / "schemas" / "stack.schema.json"
    path.parent.mkdir(exist_ok=True)
    changed = not path.is_file() or path.read_text(encoding="utf-8") != text
    if changed:
        path.write_text(text, encoding="utf-8")
    print(f"{'wrote' if changed else 'unchanged'}  {short_path(path)}")
