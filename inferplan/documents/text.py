"""Foreign text made safe: colours and control characters taken out, credentials hidden, Markdown
and HTML disarmed.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

HIDDEN = "[hidden: looks like a credential]"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_COLOUR_TAG = re.compile(r"<\{%[^{}]*?%\}>")
# Control characters, and those that reverse or hide text: readers must see the text as it is.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_CREDENTIALS = re.compile(
    r"""
      \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----(?:.*?-----END\ [A-Z ]*PRIVATE\ KEY-----|.*)
    | \bgh[pousr]_[A-Za-z0-9]{30,} | \bgithub_pat_\w{30,} | \bglpat-[\w-]{20,}
    | \bhf_[A-Za-z0-9]{30,} | \bsk-[\w-]{20,} | \bnvapi-[\w-]{20,} | \bpul-[0-9a-f]{40} | \bxox[abprs]-[\w-]{10,}
    | \beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)
    | (?<=[Bb]earer\ )[\w.~+/=-]{16,}
    """,
    re.VERBOSE | re.DOTALL,
)
# Every credential above contains one of these words. Most text has none of them, and they are
# quicker to search for than the long pattern.
_HINTS = (
    "AKIA",
    "ASIA",
    "-----BEGIN",
    "gh",
    "glpat-",
    "hf_",
    "sk-",
    "nvapi-",
    "pul-",
    "xox",
    "eyJ",
    "://",
    "earer ",
)
_CONTEXT = 24  # characters around a difference, enough to recognize its context
# Foreign text never starts a line, where more characters would be markup.
_MARKUP = re.compile(r"[\\`*_\[\]#|~@<>&$]")
# Characters of a text that is remembered: names and values are cleaned again and again.
_SHORT = 200
_masks: list[re.Pattern[str]] = []


def add_masks(patterns: Iterable[str]) -> None:
    """Hide what `patterns` match from now on, in everything that is cleaned. Raises ValueError for
    an invalid regular expression.
    """
    try:
        _masks.extend(re.compile(each) for each in patterns)
    except re.error as error:
        raise ValueError(f"{error.pattern!r} is not a regular expression: {error}") from error
    _clean_short.cache_clear()


def clean(text: str) -> str:
    """`text` without colours, control characters and anything that looks like a credential."""
    return _clean_short(text) if len(text) <= _SHORT else _clean(text)


@lru_cache(maxsize=8192)
def _clean_short(text: str) -> str:
    return _clean(text)


def _clean(text: str) -> str:
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "<{%" in text:
        text = _COLOUR_TAG.sub("", text)
    text = _CONTROL.sub("", text)
    if any(hint in text for hint in _HINTS):
        text = _CREDENTIALS.sub(HIDDEN, text)
    for mask in _masks:
        text = mask.sub(HIDDEN, text)
    return text


def one_line(text: str) -> str:
    return " ⏎ ".join(line.strip() for line in text.strip().splitlines())


def shortened(text: str, limit: int) -> str:
    """`text`, or its beginning and its length where it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit].rstrip()}… ({len(text):,} characters)"


def joined(texts: Sequence[str], most: int, comma: str = ", ") -> str:
    """The first `most` of `texts`, and the number of the others."""
    more = (
        f"{comma if comma != ', ' else ' '}and {len(texts) - most:,} more"
        if len(texts) > most
        else ""
    )
    return f"{comma.join(texts[:most])}{more}"


def differing_parts(old: str, new: str, limit: int) -> tuple[str, str]:
    """Both texts; of long ones that are alike at the beginning or the end only the parts that are
    not, each cut to `limit`.
    """
    if not old or not new or max(len(old), len(new)) <= limit:
        return shortened(old, limit), shortened(new, limit)
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] != new[index]), most)
    end = next(
        (index for index in range(most - start) if old[-1 - index] != new[-1 - index]), most - start
    )
    # From the beginning of the line that differs, but not so far back that the difference would be
    # cut off.
    begin = max(old.rfind("\n", 0, start) + 1, start - _CONTEXT)
    before, after = (_part(text, begin, len(text) - end + _CONTEXT, limit) for text in (old, new))
    return before, after


def transition(old: str, new: str, limit: int, unit: str = "") -> str:
    before, after = differing_parts(old, new, limit)
    return (
        f"{before or 'nothing'} →"
        f" {after or 'nothing'}{f' {unit}' + ('' if after == '1' else 's') if unit and after else ''}"
    )


def _part(text: str, begin: int, end: int, limit: int) -> str:
    part = f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
    return part if len(part) <= limit else f"{part[:limit].rstrip()}…"


def code(text: str) -> str:
    """`text` as inline code in Markdown: nothing in it is markup, a mention, an issue number or a
    link.
    """
    return f"<code>{_entities(one_line(text)).replace(':', '&#58;') or ' '}</code>"


def prose(text: str) -> str:
    """`text` as words in Markdown, its markup disarmed; a comment after `@` and `#` prevents
    notifications.
    """
    return (
        _entities(one_line(text))
        .replace("&#64;", "&#64;<!-- -->")
        .replace("&#35;", "&#35;<!-- -->")
    )


def attribute(text: str) -> str:
    """`text` inside an HTML comment: no sequence in it can end the comment."""
    return re.sub(r"[^A-Za-z0-9._:/@+-]|-(?=-)|-$", "_", text)


def _entities(text: str) -> str:
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", text)
