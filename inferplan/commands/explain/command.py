"""`inferplan explain WORD`: a key of stack files as the specifications describe it, or what is
supported, what is not, and what to write instead.
"""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.pages import about as page_about
from inferplan.commands.screen import show, show_json
from inferplan.errors import RequestError
from inferplan.stackfile.explanation import Key, explain, is_section
from inferplan.stackfile.support import Topic, about, near, topics


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY|WORD]",
            show_default=False,
            help=(
                "A key by its path, such as models.weights.revision, or an engine, accelerator,"
                " cloud, store, format or feature."
            ),
        ),
    ] = None,
    as_json: Annotated[bool, json_option("Print one JSON document instead of text.")] = False,
) -> None:
    """Explain a key of stack files: meaning, type, default, example, and the keys below it. Or say
    whether inferplan supports WORD, since when, and what to write instead. Without an argument,
    list all topics.
    """
    word = " ".join(words or [])
    keys = explain(word) if is_section(word) else []
    rows = about(word) if word else list(topics())
    if not keys and not rows:
        if "." in word:
            explain(word)  # says what the path lacks
        raise RequestError(
            f"Unknown topic {word!r}.{near(word)} To list all topics, run inferplan explain."
        )
    if as_json:
        show_json({"version": 1, "keys": list(map(asdict, keys)), "topics": list(map(asdict, rows))})  # fmt: skip
        return
    for each in keys:
        show(_key(each))
    for each in rows:
        print(_topic(each, whole=bool(word)))
    if keys and (page := page_about(word)):
        show(f"read more: inferplan docs {page.address}")


def _topic(topic: Topic, *, whole: bool) -> str:
    return f"{topic.topic}: {topic.answer}" + (f"\n  {topic.reason}" if whole else "")


def _key(key: Key) -> str:
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
