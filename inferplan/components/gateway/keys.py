"""Derives keys from the stack's seed and formats them; names the Secrets that contain them.

A printed key is `ipk_<consumer>_<version>_<secret>_<check>`: 43 base-62 digits with 256 bits, then
6 digits with the CRC-32 of everything before them, so that a mistyped key can be distinguished from
an unknown one and scanners find leaked keys without false positives. A consumer's name has no
underscore, so the format is unambiguous.

Nothing here is stored or logged. One derived key reveals nothing about the seed or another key.
"""

import base64
import hashlib
import hmac
import zlib

from inferplan.components.gateway.strength import is_guessable
from inferplan.components.handles import SecretRef

PREFIX = "ipk"
SERVER_PREFIX = "ips"
SECRET_DIGITS = 43
CHECK_DIGITS = 6
MIN_SEED_CHARACTERS = 43
_MIN_DISTINCT = 10
_REMEDY = 'Set 32 random bytes: pulumi config set --secret apiKeySeed "$(openssl rand -hex 32)"'
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

NAME_PATTERN = "[a-z][-a-z0-9]{0,62}"
VERSION_PATTERN = "[1-9][0-9]{0,5}"
_SECRET_PATTERN = f"[0-9A-Za-z]{{{SECRET_DIGITS}}}"
PRINTED_PATTERN = f"{PREFIX}_(?<owner>{NAME_PATTERN})_(?<version>{VERSION_PATTERN})_{_SECRET_PATTERN}_(?<check>[0-9A-Za-z]{{{CHECK_DIGITS}}})"
"""A PCRE for printed keys that captures the consumer as `owner`, the version and the checksum."""

PROXY_SECRET = "gateway-keys"  # noqa: S105 - part of the name of a Secret, not its content
"""The start of the name of the Secret that nginx mounts: hashes of the consumers' keys, and the keys
of the model servers. A hash of what it is made from follows.
"""
CLIENTS_SECRET = "gateway-clients"  # noqa: S105 - the name of a Secret, not its content
"""The Secret that an Envoy Gateway reads: every valid key by client id, in plain text because it
cannot compare hashes.
"""
PROXY_EDGES = "gateway-proxies"
"""The NetworkPolicy that admits the proxies of an Envoy Gateway to the models."""
CREDENTIAL = "credential"
"""The field of a server's Secret that an Envoy Gateway sends unchanged."""
SECRET_KEY = "api-key"  # noqa: S105 - the name of a field, not its content
"""The field of a consumer's or server's Secret that contains the key."""
NEXT_KEY = "next-api-key"
"""The field of a server's Secret with the key that the gateway sends once `previousApiKeySeed` is
removed.
"""


def seed_error(seed: str) -> str | None:
    """Return why keys cannot be derived from `seed`, without quoting it; None if they can."""
    text = seed.strip()
    if len(text) < MIN_SEED_CHARACTERS:
        return (
            f"has {len(text)} characters, but 256 bits need at least {MIN_SEED_CHARACTERS}."
            f" {_REMEDY}"
        )
    if len(set(text)) < _MIN_DISTINCT:
        return f"has only {len(set(text))} different characters and can be guessed. {_REMEDY}"
    return None


def seed_weakness(seed: str) -> str | None:
    """Return `seed_error`, or that `seed` can be guessed; it takes 0.2 s, so judge each seed once."""
    error = seed_error(seed)
    if error is None and is_guessable(seed):
        danger = (
            "can be guessed: it has words, dates, keyboard rows or repeated parts. Anyone who has"
            " one key could find the seed and derive every key"
        )
        return f"{danger}. {_REMEDY}"
    return error


def consumer_key(seed: str, consumer: str, version: int) -> str:
    """Return the printed key of one consumer and key version. Raises ValueError if the seed is too
    weak.
    """
    secret = _base62(_derive(seed, "consumer-key", consumer, str(version)), SECRET_DIGITS)
    body = f"{PREFIX}_{consumer}_{version}_{secret}"
    return f"{body}_{_check(body)}"


def server_key(seed: str, model: str) -> str:
    """Return the key of one model's server, which only the gateway sends. Raises ValueError if the
    seed is too weak.
    """
    return f"{SERVER_PREFIX}_{_base62(_derive(seed, 'server-key', model), SECRET_DIGITS)}"


def pepper(seed: str) -> str:
    """Return the pepper that nginx hashes keys with. Raises ValueError if the seed is too weak."""
    return _base62(_derive(seed, "proxy-pepper"), SECRET_DIGITS)


def fingerprint(seed: str, content: str) -> str:
    """Return sixteen hex digits that change with the seed or `content` and reveal neither. Raises
    ValueError if the seed is too weak.
    """
    return hmac.new(_derive(seed, "fingerprint"), content.encode(), hashlib.sha256).hexdigest()[:16]


def proxy_digest(key: str, salt: str) -> str:
    """Return what nginx's secure_link compares: base64url of the MD5 of a key and the pepper.

    MD5 is the only hash that nginx computes without an additional module. Its weakness is
    collisions between inputs that an attacker chooses; here the input has 256 unknown bits, and
    recovering them from a digest takes about 2^123 trials.
    """
    digest = hashlib.md5(f"{key} {salt}".encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def consumer_secret(consumer: str) -> str:
    """Return the name of the Secret with a consumer's newest key, for clients inside the cluster."""
    return f"consumer-{consumer}"


def server_key_secret(model: str) -> str:
    """Return the name of the Secret with the key of a model's server; only the server and the
    gateway read it.
    """
    return f"{model}-server-key"


def server_keys_secret(model: str) -> str:
    """Return the name of the Secret with both keys of a model's server while the seed changes."""
    return f"{model}-server-keys"


def server_key_ref(model: str) -> SecretRef:
    return SecretRef(name=server_key_secret(model), key=SECRET_KEY)


def client_id(consumer: str, version: int, *, previous: bool = False) -> str:
    """Return the public id of a key. A consumer's name has no underscore, so the id is unambiguous."""
    return f"{consumer}_{version}{'_previous' if previous else ''}"


def _derive(seed: str, *context: str) -> bytes:
    error = seed_error(seed)
    if error is not None:
        raise ValueError(f"apiKeySeed {error}")
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    # No name contains NUL, so two contexts never join to the same bytes.
    info = "\x00".join(("inferplan", "v1", *context)).encode()
    return HKDF(algorithm=SHA256(), length=32, salt=b"inferplan/api-keys", info=info).derive(
        seed.strip().encode()
    )


def _check(body: str) -> str:
    return _base62(zlib.crc32(body.encode()).to_bytes(4, "big"), CHECK_DIGITS)


def _base62(octets: bytes, digits: int) -> str:
    number = int.from_bytes(octets, "big")
    text = []
    for _ in range(digits):
        number, digit = divmod(number, len(_DIGITS))
        text.append(_DIGITS[digit])
    return "".join(reversed(text))
