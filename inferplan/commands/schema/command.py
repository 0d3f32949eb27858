"""`inferplan schema`: the JSON Schema of stack files, for editors. It derives everything and keeps
nothing of its own.
"""

import os
import sys
from typing import Annotated

import typer

from inferplan.stackfile.json_schema import stack_schema_text
from inferplan.stackfile.support import page
from inferplan.workspace.project import project_root, short_path
from inferplan.workspace.validation import component_files


def command(
    write: Annotated[
        bool, typer.Option("--write", help="Write schemas/stack.schema.json instead of printing.")
    ] = False,
) -> None:
    """Print the JSON Schema of stack files, or write it where editors look for it."""
    text = stack_schema_text()
    if not write:
        sys.stdout.write(text)
        return
    files = {"schemas/stack.schema.json": text}
    if (project_root() / "inferplan" / "components").is_dir():
        files |= {**component_files(), "docs/supported.md": page()}
    for name, content in files.items():
        path = project_root() / name
        path.parent.mkdir(exist_ok=True)
        changed = not path.is_file() or path.read_text(encoding="utf-8") != content
        if changed:
            path.write_text(content, encoding="utf-8")
        print(f"{'wrote' if changed else 'unchanged'}  {short_path(path)}")
        if changed and path.suffix == ".pyi":
            # The schema is made from these types, which this process has already loaded.
            os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606 - this command again
