"""Names of the Secrets that contain keys, and of their fields."""

from __future__ import annotations

PROXY_SECRET = "gateway-keys"  # noqa: S105 - the name of a Secret, not its content
"""The Secret that nginx mounts: hashes of the consumers' keys, and the keys of the model servers."""

CLIENTS_SECRET = "gateway-clients"  # noqa: S105 - the name of a Secret, not its content
"""The Secret that an Envoy Gateway reads: every valid key by client id, in plain text because it cannot compare hashes."""

PROXY_EDGES = "gateway-proxies"
"""The NetworkPolicy that admits the proxies of an Envoy Gateway to the models."""

CREDENTIAL = "credential"
"""The field of a server's Secret that an Envoy Gateway sends unchanged."""

SECRET_KEY = "api-key"  # noqa: S105 - the name of a field, not its content
"""The field of a consumer's or server's Secret that contains the key."""

NEXT_KEY = "next-api-key"
"""The field of a server's Secret with the key that the gateway sends once `previousApiKeySeed` is removed."""

"""The annotation with the day the Secret's oldest key was added; a policy limits the age of keys."""


def consumer_secret(consumer: str) -> str:
    """Return the name of the Secret with a consumer's newest key, for clients inside the cluster."""
    return f"consumer-{consumer}"


def server_key_secret(model: str) -> str:
    """Return the name of the Secret with the key of a model's server; only the server and the gateway read it."""
    return f"{model}-server-key"


def client_id(consumer: str, version: int, *, previous: bool = False) -> str:
    """Return the public id of a key. A consumer's name has no underscore, so the id is unambiguous."""
    return f"{consumer}_{version}{'_previous' if previous else ''}"
