"""Names and labels that several components share. Validation of a stack checks that names do not
collide.
"""

import hashlib

from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL, MANAGED_BY_LABEL, PART_OF_LABEL

NAMESPACE = "inference"
POD_COMPONENTS = (
    "benchmark",
    "engine-build",
    "gateway",
    "image-pull",
    "model",
    "preheat",
    "router",
)
"""The components of a stack's pods in its namespace, by which network policies select them."""
PROMETHEUS_LOGIN = "prometheus-login"
"""The TriggerAuthentication of scalers that log in to Prometheus."""
MAX_NAME = 63
# A hyphen and seven hex digits, which Pulumi adds to the names of resources that it names itself.
_RANDOM_SUFFIX = 8


def labels(component: str, instance: str) -> dict[str, str]:
    """Return the recommended Kubernetes labels of an object of `component` and `instance`."""
    return {
        **selector(component, instance),
        MANAGED_BY_LABEL: "inferplan",
        PART_OF_LABEL: "inferplan",
    }


def selector(component: str, instance: str) -> dict[str, str]:
    """Return the two labels that select the pods of `instance`; immutable once a Deployment exists."""
    return {COMPONENT_LABEL: component, INSTANCE_LABEL: instance}


def content_key(*parts: str) -> str:
    """Return ten hex digits that change when any of `parts` changes, for names that depend on
    content.
    """
    joined = "\x00".join(parts).encode()
    return hashlib.sha256(joined).hexdigest()[:10]


def bounded(prefix: str, key: str, limit: int = MAX_NAME) -> str:
    """Return `prefix-key`, with the prefix cut so that the name has at most `limit` characters."""
    room = limit - len(key) - 1
    return f"{prefix[:room].rstrip('-')}-{key}"


def autonamed(name: str, limit: int) -> str:
    """Return `name` for a resource that Pulumi names itself, cut so that it fits `limit` characters
    with its random suffix.
    """
    room = limit - _RANDOM_SUFFIX
    return name if len(name) <= room else bounded(name, content_key(name), room)
