"""Looks up a path of a user's data in the JSON Schema of a spec, for errors: the allowed keys, and
what they mean.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from inferplan.documents.errors import KeyPath
from inferplan.kube.paths import MISSING, value_at


@cache
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `model`, in the spelling of YAML."""
    return model.model_json_schema(by_alias=True)


_SIZES, _CPUS = ("1Mi", "1000Ti"), ("1m", "1000")
_LARGEST = 1024


def _sample(part: dict[str, Any], *, high: bool) -> Any:
    """The lowest or highest value of one branch of a schema; None for mappings and free text."""
    if "const" in part or "enum" in part:
        return part.get("enum", [part.get("const")])[-1 if high else 0]
    kind, pattern, value = part.get("type"), part.get("pattern", ""), None
    if kind == "boolean":
        value = high
    elif kind in ("integer", "number"):
        value = (
            part.get("maximum", _LARGEST)
            if high
            else max(part.get("minimum", 1), part.get("exclusiveMinimum", 0) + 1)
        )
    elif kind == "array" and (item := _sample(part.get("items", {}), high=high)) is not None:
        value = [item]
    elif kind == "string" and "Ki|Mi" in pattern:
        value = _SIZES[high]
    elif kind == "string" and pattern.endswith("m)$"):
        value = _CPUS[high]
    return value


class SchemaGuide:
    """The schema of `model` along the paths of `data`."""

    def __init__(self, model: type[BaseModel], data: Any) -> None:
        self._schema = schema_of(model)
        self._data = data

    def keys(self, path: KeyPath) -> list[str]:
        """The allowed keys of the mapping at `path`; empty if names are free or unknown."""
        return sorted({key for part in self._parts_at(path) for key in part.get("properties", ())})

    def required(self, path: KeyPath) -> list[str]:
        return sorted({key for part in self._parts_at(path) for key in part.get("required", ())})

    def tags(self, path: KeyPath, discriminator: str) -> list[str]:
        tags: set[str] = set()
        for schema, _ in self._at(path):
            tags.update(self._plain(schema).get("discriminator", {}).get("mapping", ()))
            for part in self._parts(schema):
                tag = part.get("properties", {}).get(discriminator, {})
                tags.update([tag["const"]] if "const" in tag else tag.get("enum", ()))
        return sorted(tags)

    def description(self, path: KeyPath) -> str:
        """The description of the key at `path`, in one line without its full stop; "" if there is
        none.
        """
        parts = (part for schema, _ in self._at(path) for part in (schema, *self._parts(schema)))
        return " ".join(_first(parts, "description").split()).removesuffix(".")

    def pattern(self, path: KeyPath) -> str:
        return _first(
            (part for schema, _ in self._at(path) for part in self._parts(schema)), "pattern"
        )

    def key_description(self, path: KeyPath) -> str:
        """The description of the names in the mapping at `path`."""
        return _first(
            (self._plain(part.get("propertyNames", {})) for part in self._parts_at(path)),
            "description",
        ).removesuffix(".")

    def sample(self, path: KeyPath, *, high: bool) -> Any:
        """A valid value of the key at `path`, low or high where values have an order; None if the
        schema has none.
        """
        values = (_sample(part, high=high) for part in self._parts_at(path))
        return next((value for value in values if value is not None), None)

    def _parts_at(self, path: KeyPath) -> Iterator[dict[str, Any]]:
        for schema, data in self._at(path):
            yield from self._parts(schema, data)

    def _at(self, path: KeyPath) -> list[tuple[dict[str, Any], Any]]:
        here = [(self._schema, self._data)]
        for part in path:
            here = [step for schema, data in here for step in self._step(schema, data, part)]
        return here

    def _step(
        self, schema: dict[str, Any], data: Any, part: str | int
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        inner = value_at(data, (part,))
        for option in self._parts(schema, data):
            below = option.get("items")
            if isinstance(part, str):
                named = next(
                    iter(option.get("patternProperties", {}).values()),
                    option.get("additionalProperties"),
                )
                below = option.get("properties", {}).get(part, named)
            if isinstance(below, dict):
                yield below, None if inner is MISSING else inner

    def _plain(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._schema["$defs"][schema["$ref"].rpartition("/")[2]], **siblings}
        return schema

    def _parts(self, schema: dict[str, Any], data: Any = None) -> list[dict[str, Any]]:
        """The branches of a union that the data's tag picks; all where no tag decides."""
        plain = self._plain(schema)
        if "discriminator" in plain and isinstance(data, dict):
            by_tag = plain["discriminator"]
            tag = data.get(by_tag["propertyName"])
            target = (
                by_tag.get("mapping", {}).get(tag)
                if isinstance(tag, str)
                else by_tag.get("defaultMapping")
            )
            if target is not None:
                return self._parts({"$ref": target})
        options = [option for key in ("oneOf", "anyOf", "allOf") for option in plain.get(key, ())]
        return (
            [part for option in options for part in self._parts(option, data)]
            if options
            else [plain]
        )


def _first(parts: Iterable[dict[str, Any]], key: str) -> str:
    return next((part[key] for part in parts if part.get(key)), "")
