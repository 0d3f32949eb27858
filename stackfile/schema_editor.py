"""Additions to the JSON Schema for editors: examples, Markdown descriptions, and snippets for a pool, a store and a model."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

_EXAMPLES = Path(__file__).with_name("examples.toml")
_SNIPPETS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "nodePools": [
        ("EKS pool", "Nodes that EKS creates", {"provider": "eks", "accelerator": "nvidia-l40s", "instanceTypes": ["g6e.4xlarge"], "size": {"min": 1, "max": 4}}),
        ("existing pool", "Nodes of a rack", {"provider": "existing", "accelerator": "gaudi-2", "machine": {"cpu": "96", "memory": "1000Gi", "accelerators": 8}, "nodes": 2}),
    ],
    "storage": [
        ("S3 bucket", "Model files in a bucket", {"kind": "s3", "bucket": "acme-weights", "prefix": "llm"}),
        ("NFS share", "A share to preheat into", {"kind": "nfs", "server": "nfs.storage.svc", "path": "/export/models", "capacity": "2Ti"}),
        ("Hugging Face", "A model hub", {"kind": "huggingface"}),
    ],
    "models": [
        (
            "vLLM model",
            "An OpenAI-compatible model with preheated weights",
            {
                "engine": "vllm",
                "weights": {"store": "weights", "path": "llama-3-8b", "revision": "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2", "size": "16Gi"},
                "preheat": {"into": "shared"},
                "pool": "l40s",
                "replicas": 2,
                "consumers": ["chat"],
            },
        ),
    ],
}  # fmt: skip


def add_examples(definitions: dict[str, dict[str, Any]]) -> None:
    """Add `examples` and `markdownDescription` to the fields of `definitions`; a field with fixed choices needs no example."""
    examples = tomllib.loads(_EXAMPLES.read_text(encoding="utf-8"))["values"]
    for name, definition in definitions.items():
        for key, field in definition.get("properties", {}).items():
            values = examples.get(f"{name}.{key}", examples.get(key))
            if values is not None and not has_choices(field, definitions):
                field["examples"] = values
            if "description" in field:
                field["markdownDescription"] = _markdown(key, field)


def snippets(section: str) -> list[dict[str, Any]]:
    """Return the snippets of a top-level section; each adds one entry, whose name the editor asks for."""
    return [
        {"label": label, "description": text, "body": {f"${{1:{label.split()[0].lower()}}}": body}}
        for label, text, body in _SNIPPETS.get(section, ())
    ]


def has_choices(field: dict[str, Any], definitions: dict[str, dict[str, Any]]) -> bool:
    """Return whether every value of `field` is a choice (an enum, a constant, a boolean or null)."""
    if "$ref" in field:
        return has_choices(definitions[field["$ref"].rpartition("/")[2]], definitions)
    options = [*field.get("anyOf", ()), *field.get("oneOf", ()), *field.get("allOf", ())]
    if options:
        return all(has_choices(each, definitions) for each in options)
    return "enum" in field or "const" in field or field.get("type") in ("boolean", "null")


def _markdown(key: str, field: dict[str, Any]) -> str:
    lines = [field["description"]]
    if field.get("default") not in (None, {}, []):
        lines.append(f"Default: `{json.dumps(field['default'])}`")
    if "examples" in field:
        lines.append("\n".join(("```yaml", *(f"{key}: {json.dumps(each)}" for each in field["examples"]), "```")))
    return "\n\n".join(lines)
