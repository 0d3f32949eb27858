"""Derives keys from the stack's seed and spells them; pure functions of their arguments.

A printed key is `ipk_<consumer>_<version>_<secret>_<check>`: 43 base-62 digits carry 256 bits, the last 6 are the CRC-32 of
all that stands before them, so that a mistyped key is told from an unknown one and a scanner finds leaked keys without
false alarms. A consumer's name has no underscore, so the form reads only one way.

Nothing here is stored or logged, and the seed never leaves: one derived key says nothing about another.
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
    """The form of a printed key as a PCRE that captures its public part under the names `consumer` and `version`, and its checksum as `check`."""
    last = f"(?<{check}>{_CHECK_PATTERN})" if check else _CHECK_PATTERN
    return f"{PREFIX}_(?<{consumer}>{NAME_PATTERN})_(?<{version}>{VERSION_PATTERN})_{_SECRET_PATTERN}_{last}"


@dataclass(frozen=True, kw_only=True)
class PrintedKey:
    """The parts of a key that was read back; the secret part stays out of the repr."""

    consumer: str
    version: int
    secret: str = field(repr=False)


def seed_error(seed: str) -> str | None:
    """Why `seed` cannot carry keys, in words that quote none of it; None when it can."""
    text = seed.strip()
    remedy = 'set 32 random bytes: pulumi config set --secret apiKeySeed "$(openssl rand -hex 32)"'
    if len(text) < MIN_SEED_CHARACTERS:
        return f"has {len(text)} characters, fewer than the {MIN_SEED_CHARACTERS} that 256 bits need; {remedy}"
    if len(set(text)) < _MIN_DISTINCT:
        return f"repeats {len(set(text))} characters, so it can be guessed; {remedy}"
    return None


def consumer_key(seed: str, consumer: str, version: int) -> str:
    """The printed key of one consumer and key version.

    Raises ValueError when the seed is too weak.
    """
    secret = _base62(_derive(seed, "consumer-key", consumer, str(version)), SECRET_DIGITS)
    body = f"{PREFIX}_{consumer}_{version}_{secret}"
    return f"{body}_{_check(body)}"


def server_key(seed: str, model: str) -> str:
    """The key of one model's server, which only the gateway presents.

    Raises ValueError when the seed is too weak.
    """
    return f"{SERVER_PREFIX}_{_base62(_derive(seed, 'server-key', model), SECRET_DIGITS)}"


def pepper(seed: str) -> str:
    """What the proxy hashes keys with, so that its hashes are of no use elsewhere.

    Raises ValueError when the seed is too weak.
    """
    return _base62(_derive(seed, "proxy-pepper"), SECRET_DIGITS)


def fingerprint(seed: str, content: str) -> str:
    """Sixteen hex digits that change with the seed or `content`, and lead back to neither.

    Raises ValueError when the seed is too weak.
    """
    return hmac.new(_derive(seed, "fingerprint"), content.encode(), hashlib.sha256).hexdigest()[:16]


def proxy_digest(key: str, salt: str) -> str:
    """What nginx's secure_link compares: base64url of the MD5 of the presented key and the pepper.

    MD5 is what nginx can compute without a module of its own. Its weakness is collisions between inputs that an attacker
    chooses; here the input holds 256 unknown bits, and finding them again from a digest costs some 2^123 trials.
    """
    digest = hashlib.md5(f"{key} {salt}".encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def read_key(printed: str) -> PrintedKey:
    """The parts of a printed key.

    Raises ValueError, without quoting the key, when the form or the checksum is wrong.
    """
    match = _PRINTED.fullmatch(printed)
    if match is None:
        raise ValueError(f"this is no key of ours; keys read {PREFIX}_<consumer>_<version>_<{SECRET_DIGITS} characters>_<checksum>")
    if match["check"] != _check(printed[: -CHECK_DIGITS - 1]):
        raise ValueError("the key's checksum does not fit: a character is wrong or missing; copy it again")
    return PrintedKey(consumer=match["consumer"], version=int(match["version"]), secret=match["secret"])


def _derive(seed: str, *context: str) -> bytes:
    fault = seed_error(seed)
    if fault is not None:
        raise ValueError(f"apiKeySeed {fault}")
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    # NUL stands in no name, so two contexts never join to the same bytes.
    info = "\x00".join(("inferplan", "v1", *context)).encode()
    return HKDF(algorithm=SHA256(), length=32, salt=b"inferplan/api-keys", info=info).derive(seed.strip().encode())


def _check(body: str) -> str:
    return _base62(zlib.crc32(body.encode()).to_bytes(4, "big"), CHECK_DIGITS)


def _base62(octets: bytes, digits: int) -> str:
    number = int.from_bytes(octets, "big")
    spelled = []
    for _ in range(digits):
        number, digit = divmod(number, len(_DIGITS))
        spelled.append(_DIGITS[digit])
    return "".join(reversed(spelled))
