"""Names and labels that several components must agree on, each written once.

It decides spelling only: whether two names collide is checked where a stack is read.
"""

from __future__ import annotations

import hashlib

DOMAIN = "inferplan.dev"
POOL_LABEL = f"{DOMAIN}/pool"
NAMESPACE = "inference"
MAX_NAME = 63
# A hyphen and seven hex digits, which Pulumi adds to the name of a resource that is given none.
_RANDOM_END = 8


def labels(component: str, instance: str) -> dict[str, str]:
    """The recommended Kubernetes labels of one object of `component` that belongs to `instance`."""
    return {**selector(component, instance), "app.kubernetes.io/managed-by": "inferplan", "app.kubernetes.io/part-of": "inferplan"}


def selector(component: str, instance: str) -> dict[str, str]:
    """The two labels that select the pods of `instance`; immutable once a Deployment exists."""
    return {"app.kubernetes.io/component": component, "app.kubernetes.io/instance": instance}


def content_key(*parts: str) -> str:
    """Ten hex digits that change when any of `parts` changes; used in names of things keyed by content."""
    joined = "\x00".join(parts).encode()
    return hashlib.sha256(joined).hexdigest()[:10]


def bounded(prefix: str, key: str, limit: int = MAX_NAME) -> str:
    """`prefix-key`, the prefix cut so that the whole fits `limit` characters and the key survives."""
    room = limit - len(key) - 1
    return f"{prefix[:room].rstrip('-')}-{key}"


def autonamed(name: str, limit: int) -> str:
    """`name` for a resource that Pulumi names itself, cut so that the name with its random end fits `limit` characters."""
    room = limit - _RANDOM_END
    return name if len(name) <= room else bounded(name, content_key(name), room)
