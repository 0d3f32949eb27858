"""`inferplan explain KEY`: a key of stack files, as the specifications describe it."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.docs.pages import about
from inferplan.commands.screen import show, show_json
from inferplan.stackfile.explanation import Key, explain


def command(
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="A key by its path, such as models.weights.revision."),
    ],
    as_json: Annotated[bool, json_option("Print one JSON document instead of text.")] = False,
) -> None:
    """Explain a key of stack files: meaning, type, default, example, the keys below it, and the
    section of the documentation. Names of your own may be in the path.

    Example: inferplan explain nodePools.size.max
    """
    keys = explain(key)
    if as_json:
        show_json({"version": 1, "keys": [asdict(each) for each in keys]})
        return
    for each in keys:
        show(_text(each))
    if page := about(key):
        show(f"read more: inferplan docs {page.address}")


def _text(key: Key) -> str:
    owners = f"  ({', '.join(key.owners)})" if key.owners else ""
    rows = [
        ("type", key.type),
        ("limits", key.limits),
        ("required", "yes" if key.required else ""),
        ("default", "" if key.default in (None, {}, []) else json.dumps(key.default)),
        ("example", ", ".join(json.dumps(each) for each in key.examples)),
        ("keys", ", ".join(key.children)),
    ]
    lines = [f"  {name:<9} {value}" for name, value in rows if value]
    return "\n".join([f"{key.path}{owners}", f"  {key.meaning}", *lines])
