"""Texts within texts: documents, base64, gzip, keys in armour, URLs; and the placeholder of a
hidden one.
"""

import base64
import binascii
import json
import re
import zlib
from typing import Any, Final

from inferplan.kube.disclosure.forms import is_harmless, is_readable
from inferplan.kube.disclosure.keys import is_secret

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_ARMOUR: Final = re.compile(
    r"-----BEGIN (?!CERTIFICATE|PUBLIC|RSA PUBLIC|EC PUBLIC|PGP PUBLIC)[^\n]*?(-----END [A-Z0-9"
    r" ]+-----|\Z)",
    re.DOTALL,
)
_MOST_BYTES: Final = 2**20
_GZIP: Final = 31
HIDDEN: Final = "(hidden, "
"""The beginning of every placeholder."""


def placeholder(length: int, *, changed: bool = False) -> str:
    """The text in place of a hidden value."""
    return f"{HIDDEN}{length:,} characters{', changed' if changed else ''})"


def document_in(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list | str) else None


def decoded(text: str) -> str | None:
    """The text that `text` holds in base64, also packed by gzip; None if it holds none."""
    packed = "".join(text.split())
    if not _BASE64.fullmatch(packed):
        return None
    try:
        content = base64.b64decode(
            packed.replace("-", "+").replace("_", "/") + "=" * (-len(packed) % 4)
        )
        if content[:2] == b"\x1f\x8b":
            content = zlib.decompressobj(_GZIP).decompress(content, _MOST_BYTES)
        inner = content.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return None
    return (
        inner if inner and all(each.isprintable() or each in "\r\n\t" for each in inner) else None
    )


def shown_url(parts: tuple[str, str, str, str, str]) -> str:
    scheme, authority, path, query, fragment = parts
    user, at, host = authority.rpartition("@")
    user = placeholder(len(user)) if at else ""
    host = host if is_harmless(host) or is_readable(host) else placeholder(len(host))
    segments = (
        path
        if is_harmless(path)
        else "/".join(
            each if is_harmless(each) else placeholder(len(each)) for each in path.split("/")
        )
    )
    values = [_parameter(each) for each in query.removeprefix("?").split("&")] if query else []
    end = fragment if is_harmless(fragment[1:]) else f"#{placeholder(len(fragment) - 1)}"
    return f"{scheme}{user}{at}{host}{segments}{'?' if query else ''}{'&'.join(values)}{end if fragment else ''}"


def _parameter(text: str) -> str:
    key, equals, value = text.partition("=")
    if not equals:
        return key if is_harmless(key) else placeholder(len(key))
    return f"{key if is_harmless(key) else placeholder(len(key))}={value if not is_secret(key) and is_harmless(value) else placeholder(len(value))}"


def unarmoured(text: str) -> str:
    return _ARMOUR.sub(lambda match: placeholder(len(match[0])), text)
