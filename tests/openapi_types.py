"""Writes `inferplan/kube/object_types.json` from the OpenAPI document of a Kubernetes release.

go mod download k8s.io/kubernetes@v1.37.2
python -m tests.openapi_types $(go env GOMODCACHE)/k8s.io/kubernetes@v1.37.2
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "inferplan" / "kube" / "object_types.json"
_PREFIX = "#/definitions/"
_SCALARS = {"string": "string", "integer": "integer", "boolean": "boolean", "number": "number"}
_TEXTS = {"Time": "string", "MicroTime": "string", "Quantity": "quantity"}
_OPEN = (
    "IntOrString",
    "RawExtension",
    "JSON",
    "JSONSchemaProps",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "FieldsV1",
)


def table(document: dict[str, Any], release: str) -> dict[str, Any]:
    """The kinds that users can create, and the fields of each type they need. "" is a field of any
    form.
    """
    definitions = document["definitions"]
    kinds: dict[str, str] = {}
    for name, each in definitions.items():
        for gvk in (
            each.get("x-kubernetes-group-version-kind", [])
            if "metadata" in each.get("properties", {})
            else []
        ):
            if not gvk["kind"].endswith("List") and re.fullmatch(r"v\d+", gvk["version"]):
                kinds["/".join(filter(None, (gvk["group"], gvk["version"], gvk["kind"])))] = _short(
                    name
                )
    by_short = {_short(name): each for name, each in definitions.items()}
    types: dict[str, Any] = {}
    waiting = sorted(set(kinds.values()))
    while waiting:
        name = waiting.pop()
        if name not in types:
            types[name] = {
                key: _form(each)
                for key, each in by_short[name].get("properties", {}).items()
                if key != "status"
            }
            waiting += [form.lstrip("[{@") for form in types[name].values() if "@" in form]
    return {
        "release": release,
        "kinds": dict(sorted(kinds.items())),
        "types": dict(sorted(types.items())),
    }


def _form(schema: dict[str, Any]) -> str:
    """`string`, `@type` for an object, `[` before the form of items, `{` before that of values."""
    if "$ref" in schema:
        name = _short(schema["$ref"].removeprefix(_PREFIX))
        last = name.rpartition(".")[2]
        return "" if last in _OPEN else _TEXTS.get(last) or f"@{name}"
    match schema.get("type"):
        case "array":
            return f"[{_form(schema['items'])}"
        case "object":
            return (
                "{" + _form(schema["additionalProperties"])
                if "additionalProperties" in schema
                else "{"
            )
        case kind:
            return _SCALARS.get(str(kind), "")


def _short(name: str) -> str:
    return ".".join(name.split(".")[-3:])


def main(root: Path) -> None:
    document = json.loads((root / "api" / "openapi-spec" / "swagger.json").read_text())
    content = table(document, root.name.rpartition("@v")[2])
    rows = (
        f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in content["types"].items()
    )
    kinds = (f"  {json.dumps(kind)}: {json.dumps(name)}" for kind, name in content["kinds"].items())
    parts = f'{{\n "release": "{content["release"]}",\n "kinds": {{\n'
    TARGET.write_text(
        parts + ",\n".join(kinds) + '\n },\n "types": {\n' + ",\n".join(rows) + "\n }\n}\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
