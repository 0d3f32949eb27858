"""Read which server and which authority a kubeconfig names; credentials in it are not looked at.

It accepts what kubectl accepts for one file; it does not merge several.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Target:
    """What one context of a kubeconfig leads to; `authority` is the PEM of its certificate authority, if any."""

    context: str
    server: str
    authority: bytes | None


def read_target(path: Path, context: str | None = None) -> Target:
    """What `context` (or the current context) of the kubeconfig `path` leads to.

    Raises:
        ClusterError: the file cannot be read, is no kubeconfig or lacks the context.
    """
    document = _load(path)
    chosen = context or str(document.get("current-context") or "")
    entry = _named(document, "contexts", chosen)
    if entry is None:
        names = ", ".join(str(each.get("name")) for each in _entries(document, "contexts")) or "none"
        raise ClusterError(f"{path} has no context {chosen!r}", f"contexts in it are: {names}")
    cluster = _named(document, "clusters", str(_inner(entry, "context").get("cluster")))
    inner = _inner(cluster, "cluster") if cluster else {}
    return Target(chosen, str(inner.get("server") or ""), _authority(inner, path))


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ClusterError(f"cannot read the kubeconfig {path}: {fault}", "give a kubeconfig that can be read") from fault
    import yaml

    try:
        document = yaml.safe_load(text)  # a kubeconfig written as JSON is YAML too
    except (yaml.YAMLError, ValueError) as fault:
        raise ClusterError(f"{path} is not a kubeconfig: it is no YAML", "give a kubeconfig") from fault
    if not isinstance(document, dict):
        raise ClusterError(f"{path} is not a kubeconfig: it holds no mapping", "give a kubeconfig")
    return document


def _entries(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = document.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _named(document: dict[str, Any], key: str, name: str) -> dict[str, Any] | None:
    return next((each for each in _entries(document, key) if each.get("name") == name), None)


def _inner(entry: dict[str, Any], key: str) -> dict[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def _authority(cluster: dict[str, Any], path: Path) -> bytes | None:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    try:
        if data:
            return base64.b64decode(str(data), validate=True)
        return (path.parent / str(file)).read_bytes() if file else None
    except (binascii.Error, OSError):
        return None
