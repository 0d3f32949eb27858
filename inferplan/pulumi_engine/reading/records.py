"""JSON values one after the other, one a line or not, from a stream that may be truncated, huge or
not JSON.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

MAX_RECORD = 64 * 2**20
"""Bytes that one record may have; the largest resource that an engine can send is a sixth of it."""

GIVE = (
    "Give a file of engine events (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json,"
    " or inferplan plan --events)"
)
"""The end of every error: what to give instead."""


def records(stream: BinaryIO, source: str, cut: Callable[[str], None]) -> Iterator[tuple[int, Any]]:
    """Each JSON value of `stream` with its first line; `cut` gets a message if the stream ends
    within a value. Raises EventsError.
    """
    number = 0
    while content := stream.readline(MAX_RECORD + 1):
        number += 1
        if not content.strip():
            continue
        _check_size(content, source, number)
        try:
            yield number, json.loads(content)
        except RecursionError as error:
            raise EventsError(
                f"{source}:{number}: the record is nested too deeply for an engine event. {GIVE}"
            ) from error
        except ValueError:
            content += stream.read(MAX_RECORD + 1)
            _check_size(content, source, number)
            yield from _concatenated(content, source, number, cut)
            return


def _check_size(content: bytes, source: str, line: int) -> None:
    if len(content) > MAX_RECORD:
        raise EventsError(
            f"{source}:{line}: a record is larger than {MAX_RECORD // 2**20} MiB; engine events are"
            f" smaller. {GIVE}"
        )


def _concatenated(
    content: bytes, source: str, line: int, cut: Callable[[str], None]
) -> Iterator[tuple[int, Any]]:
    """Values that follow each other without keeping to lines."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        # The end of a truncated stream may cut a multi-byte character; that does not make it
        # binary.
        if error.start < len(content) - 4 or error.reason != "unexpected end of data":
            raise EventsError(
                f"{source}:{line}: byte {error.start + 1} is not valid UTF-8. {GIVE}"
            ) from error
        text = content[: error.start].decode()
    decoder = json.JSONDecoder()
    position = 0
    while position < (length := len(text)):
        while position < length and text[position].isspace():
            position += 1
        if position == length:
            return
        at = line + text.count("\n", 0, position)
        try:
            value, position = decoder.raw_decode(text, position)
        except RecursionError as error:
            raise EventsError(
                f"{source}:{at}: the record is nested too deeply for an engine event. {GIVE}"
            ) from error
        except ValueError as error:
            if not _cut_short(text, position, error):
                raise EventsError(f"{source}:{at}: this line is not JSON. {GIVE}") from error
            cut(f"the stream ends in the middle of an event (line {at})")
            return
        yield at, value


def _cut_short(text: str, position: int, error: ValueError) -> bool:
    """True if the value at `position` is JSON that only lacks its end."""
    if text[position] != "{" or not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text.rstrip()) - 6 or error.msg.startswith("Unterminated string")


def excerpt(value: Any) -> str:
    """`value`, shortened and in ASCII."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class EventsError(ValueError):
    """The input is not a stream of engine events and not a digest; the message has the position,
    the problem and the remedy.
    """
