"""Names of the Secrets that hold keys, each spelled once: whoever reads a key addresses it by these."""

from __future__ import annotations

PROXY_SECRET = "gateway-keys"  # noqa: S105 - the name of a Secret, not its content
"""What the gateway's proxy mounts: hashes of consumers' keys, and the servers' keys that it presents."""

CLIENTS_SECRET = "gateway-clients"  # noqa: S105 - the name of a Secret, not its content
"""What an Envoy Gateway reads: every valid key, in clear since it compares no hashes, by client id."""

PROXY_EDGES = "gateway-proxies"
"""The NetworkPolicy that lets the proxies of an Envoy Gateway reach the models."""

CREDENTIAL = "credential"
"""The field of a server's Secret that an Envoy Gateway presents as it is."""

SECRET_KEY = "api-key"  # noqa: S105 - the name of a field, not its content
"""The field of a consumer's or a server's Secret that holds the key."""

NEXT_KEY = "next-api-key"
"""The field of a server's Secret with the key that the gateway presents once `previousApiKeySeed` is removed."""

ISSUED = "inferplan.dev/issued"
"""The annotation with the day on which the oldest key inside was made valid; the policy pack holds it to an age."""


def consumer_secret(consumer: str) -> str:
    """The Secret with a consumer's newest key, for clients inside the cluster."""
    return f"consumer-{consumer}"


def server_key_secret(model: str) -> str:
    """The Secret with the key that a model's server asks for; only the server and the gateway read it."""
    return f"{model}-server-key"


def client_id(consumer: str, version: int, *, previous: bool = False) -> str:
    """A key by its public part; a consumer's name has no underscore, so there is one way to read it."""
    return f"{consumer}_{version}{'_previous' if previous else ''}"
