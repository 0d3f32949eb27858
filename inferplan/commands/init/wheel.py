"""The wheel of inferplan that a new repository installs, by its SHA-256."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from inferplan.errors import RequestError

_URL = re.compile(r"(https://[^\s#]+\.whl)#sha256=([0-9a-f]{64})")
_NAME = re.compile(r"inferplan-[0-9][^-/]*-py3-none-any\.whl")
FOLDER = "wheels"


@dataclass(frozen=True)
class Wheel:
    """A wheel as pip reads it: a URL, or a path in the repository, with the `content` to write there."""

    address: str
    sha256: str
    content: bytes | None = None


def wheel_of(text: str | None) -> Wheel | None:
    """The wheel at a path, which is copied, or at https://HOST/PATH.whl#sha256=HEX. Raises
    RequestError.
    """
    if text is None:
        return None
    if match := _URL.fullmatch(text):
        return Wheel(match[1], match[2])
    path = Path(text)
    if "://" in text or not _NAME.fullmatch(path.name):
        raise RequestError(
            f"--wheel: {text!r} is not a wheel of inferplan. Name inferplan-VERSION-py3-none-any.whl"
            " of a release or of `make release`, or its https URL with #sha256= and 64 hex digits"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(
            f"--wheel {text} cannot be read: {error.strerror}. Name a file that you may read"
        ) from error
    return Wheel(f"./{FOLDER}/{path.name}", hashlib.sha256(content).hexdigest(), content)
