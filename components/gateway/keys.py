"""Derives keys from the stack's seed and formats them; pure functions.

A printed key is `ipk_<consumer>_<version>_<secret>_<check>`: 43 base-62 digits with 256 bits, then 6 digits with the CRC-32 of
everything before them, so that a mistyped key can be distinguished from an unknown one and scanners find leaked keys without
false positives. A consumer's name has no underscore, so the format is unambiguous.

Nothing here is stored or logged. One derived key reveals nothing about the seed or another key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass, field

PREFIX = "ipk"
SERVER_PREFIX = "ips"
SECRET_DIGITS = 43
CHECK_DIGITS = 6
MIN_SEED_CHARACTERS = 43
_MIN_DISTINCT = 10
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

NAME_PATTERN = "[a-z][-a-z0-9]{0,62}"
VERSION_PATTERN = "[1-9][0-9]{0,5}"
_SECRET_PATTERN = f"[0-9A-Za-z]{{{SECRET_DIGITS}}}"
_CHECK_PATTERN = f"[0-9A-Za-z]{{{CHECK_DIGITS}}}"
_PRINTED = re.compile(
    rf"{PREFIX}_(?P<consumer>{NAME_PATTERN})_(?P<version>{VERSION_PATTERN})_(?P<secret>{_SECRET_PATTERN})_(?P<check>{_CHECK_PATTERN})",
    re.ASCII,
)


def printed_pattern(consumer: str, version: str, check: str = "") -> str:
    """Return a PCRE for printed keys that captures the public part as `consumer` and `version`, and the checksum as `check`."""
    last = f"(?<{check}>{_CHECK_PATTERN})" if check else _CHECK_PATTERN
    return f"{PREFIX}_(?<{consumer}>{NAME_PATTERN})_(?<{version}>{VERSION_PATTERN})_{_SECRET_PATTERN}_{last}"


@dataclass(frozen=True, kw_only=True)
class PrintedKey:
    """The parts of a printed key; the secret part stays out of the repr."""

    consumer: str
    version: int
    secret: str = field(repr=False)


def seed_error(seed: str) -> str | None:
    """Return why keys cannot be derived from `seed`, without quoting it; None if they can."""
    text = seed.strip()
    remedy = 'Set 32 random bytes: pulumi config set --secret apiKeySeed "$(openssl rand -hex 32)"'
    if len(text) < MIN_SEED_CHARACTERS:
        return f"has {len(text)} characters, but 256 bits need at least {MIN_SEED_CHARACTERS}. {remedy}"
    if len(set(text)) < _MIN_DISTINCT:
        return f"has only {len(set(text))} different characters and can be guessed. {remedy}"
    return None


def consumer_key(seed: str, consumer: str, version: int) -> str:
    """Return the printed key of one consumer and key version.

    Raises ValueError if the seed is too weak.
    """
    secret = _base62(_derive(seed, "consumer-key", consumer, str(version)), SECRET_DIGITS)
    body = f"{PREFIX}_{consumer}_{version}_{secret}"
    return f"{body}_{_check(body)}"


def server_key(seed: str, model: str) -> str:
    """Return the key of one model's server, which only the gateway sends.

    Raises ValueError if the seed is too weak.
    """
    return f"{SERVER_PREFIX}_{_base62(_derive(seed, 'server-key', model), SECRET_DIGITS)}"


def pepper(seed: str) -> str:
    """Return the pepper that nginx hashes keys with, so that its hashes are useless elsewhere.

    Raises ValueError if the seed is too weak.
    """
    return _base62(_derive(seed, "proxy-pepper"), SECRET_DIGITS)


def fingerprint(seed: str, content: str) -> str:
    """Return sixteen hex digits that change with the seed or `content` and reveal neither.

    Raises ValueError if the seed is too weak.
    """
    return hmac.new(_derive(seed, "fingerprint"), content.encode(), hashlib.sha256).hexdigest()[:16]


def proxy_digest(key: str, salt: str) -> str:
    """Return what nginx's secure_link compares: base64url of the MD5 of a key and the pepper.

    MD5 is the only hash that nginx computes without an additional module. Its weakness is collisions between inputs that an
    attacker chooses; here the input has 256 unknown bits, and recovering them from a digest takes about 2^123 trials.
    """
    digest = hashlib.md5(f"{key} {salt}".encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def read_key(printed: str) -> PrintedKey:
    """Return the parts of a printed key.

    Raises ValueError, without quoting the key, if the format or the checksum is wrong.
    """
    match = _PRINTED.fullmatch(printed)
    if match is None:
        raise ValueError(f"Not an API key of inferplan. Expected {PREFIX}_<consumer>_<version>_<{SECRET_DIGITS} characters>_<checksum>.")
    if match["check"] != _check(printed[: -CHECK_DIGITS - 1]):
        raise ValueError("The checksum of the key is wrong: a character is wrong or missing. Copy the key again.")
    return PrintedKey(consumer=match["consumer"], version=int(match["version"]), secret=match["secret"])


def _derive(seed: str, *context: str) -> bytes:
    error = seed_error(seed)
    if error is not None:
        raise ValueError(f"apiKeySeed {error}")
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    # No name contains NUL, so two contexts never join to the same bytes.
    info = "\x00".join(("inferplan", "v1", *context)).encode()
    return HKDF(algorithm=SHA256(), length=32, salt=b"inferplan/api-keys", info=info).derive(seed.strip().encode())


def _check(body: str) -> str:
    return _base62(zlib.crc32(body.encode()).to_bytes(4, "big"), CHECK_DIGITS)


def _base62(octets: bytes, digits: int) -> str:
    number = int.from_bytes(octets, "big")
    text = []
    for _ in range(digits):
        number, digit = divmod(number, len(_DIGITS))
        text.append(_DIGITS[digit])
    return "".join(reversed(text))
