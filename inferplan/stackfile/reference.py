"""Writes the reference of stack files in Markdown, from their JSON Schema: `python -m
inferplan.stackfile.reference docs/reference/stack-file.md`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferplan.stackfile.json_schema import options_of, stack_schema
from inferplan.stackfile.reader import PROJECT

_PREFIX = f"{PROJECT}:"


def reference() -> str:
    """Return the page: the top-level sections, then every definition with its fields."""
    schema = stack_schema()
    config = schema["properties"]["config"]
    required = {key.removeprefix(_PREFIX) for key in config["required"]}
    lines = [
        "# Reference of stack files",
        "",
        "Generated from the specifications. `*` marks required fields.",
        "",
        "## Sections",
        "",
    ]
    lines += _table(
        {key.removeprefix(_PREFIX): field for key, field in config["properties"].items()}, required
    )
    for name, definition in sorted(schema["definitions"].items()):
        if "properties" in definition:
            lines += ["", f"## {name}", "", definition.get("description", ""), ""]
            lines += _table(definition["properties"], set(definition.get("required", ())))
    return "\n".join(lines) + "\n"


def _table(fields: dict[str, dict[str, Any]], required: set[str]) -> Iterator[str]:
    yield "| field | values | default | example | meaning |"
    yield "|---|---|---|---|---|"
    for key, field in fields.items():
        default = "" if field.get("default") is None else f"`{json.dumps(field['default'])}`"
        example = " ".join(f"`{json.dumps(each)}`" for each in field.get("examples", ()))
        cells = (
            f"`{key}`{'*' if key in required else ''}",
            values_text(field),
            default,
            example,
            field.get("description", ""),
        )
        yield (
            f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"
        )


def values_text(field: dict[str, Any], *, link: bool = True) -> str:
    """Return the values of a field in a few words: a definition, choices, or the JSON type. `link`
    makes definitions links of the page.
    """
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        shown = f"[{name}](#{name.lower()})" if link else name
        return "any value" if name == "JsonValue" else shown
    if options := [
        each.get("then", each) for each in options_of(field) if each.get("type") != "null"
    ]:
        return ", ".join(dict.fromkeys(values_text(each, link=link) for each in options))
    if "enum" in field or "const" in field:
        return ", ".join(
            f"`{json.dumps(each)}`" if link else json.dumps(each)
            for each in field.get("enum", [field.get("const")])
        )
    if field.get("type") == "array":
        return f"list of {values_text(field.get('items', {}), link=link) or 'values'}"
    if field.get("type") == "object":
        inner = [*field.get("patternProperties", {}).values(), field.get("additionalProperties")]
        named = next((each for each in inner if isinstance(each, dict)), {})
        return f"mapping of {values_text(named, link=link) or 'values'}"
    return str(field.get("type", ""))


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(reference(), encoding="utf-8")
