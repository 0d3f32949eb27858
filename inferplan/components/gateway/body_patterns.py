"""Regular expressions (PCRE) that read the model's name from a request body without changing or
copying the body.

They never go back to an earlier position, so their time is linear in the size of the body. For a
valid body they find the one `model` at the top level; where two parsers could disagree (two keys
`model`, an escaped spelling of it, another type) they do not match. Only the brackets and strings
of JSON are checked: the model's server rejects the rest.
"""

DEEPEST = 64
"""Levels of nesting below the top level of a JSON body."""
LONGEST_NAME = 256
"""Characters of a model's name in a request: nginx copies names for each of its maps."""
NAME = rf"[A-Za-z0-9](?:[-\w.:@+]|\\?/){{0,{LONGEST_NAME - 1}}}+"
"""A model's name in a body, where JSON may escape a slash."""
# A closed string; an escaped character never ends it.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _spellings(key: str) -> str:
    """Return the pattern of `key` in either case, which Go's encoding/json does not distinguish, and
    with any of its letters escaped. Go reads the long s as an s, too.
    """
    letters = []
    for letter in key:
        codes = "|".join(rf"\\u(?i:{ord(each):04x})" for each in (letter, letter.upper()))
        long_s = r"|\xc5\xbf|\\u017[fF]" if letter == "s" else ""
        letters.append(f"(?:[{letter}{letter.upper()}]|{codes}{long_s})")
    return f'"{"".join(letters)}"'


# A character of a quoted text in UTF-8, none that controls anything.
_CHARACTER = (
    r"[ !#-\[\]-~]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    r"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    r"|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)


def json_pattern(group: str) -> str:
    """Return the pattern of a JSON object with exactly one key `model`, whose value, a string, is
    captured as `group`, and at most one key `stream`, which is true, false or null.
    """
    # Group 1 is a string, group n + 1 a value in brackets that has at most DEEPEST + 1 - n levels;
    # a recursive group would have no limit.
    levels = [f"({_STRING})"]
    for number in range(2, DEEPEST + 2):
        inner = r'[^][{}"]++|(?1)' + (f"|(?{number + 1})" if number <= DEEPEST else "")
        levels.append(rf"([[{{](?:{inner})*+[]}}])")
    # Groups after the levels: a member other than model and stream, and a stream before the model,
    # which excludes a stream after it.
    member, in_front = DEEPEST + 2, DEEPEST + 3
    read = f"{_spellings('model')}|{_spellings('stream')}"
    others = rf"((?!{read})(?1)\s*+:\s*+(?:(?1)|[-+.\w]++|(?2))\s*+)"
    before, after = rf"(?:(?{member}),\s*+)*+", rf"(?:,\s*+(?{member}))*+"
    stream = r'"stream"\s*+:\s*+(?:true|false|null)\s*+'
    model = rf'"model"\s*+:\s*+"(?<{group}>{NAME})"\s*+'
    return (
        rf"(?s)(?(DEFINE){''.join(levels)}{others})\A\s*+\{{\s*+"
        rf"{before}(?:({stream}),\s*+{before})?+{model}{after}"
        rf"(?({in_front})|(?:,\s*+{stream}{after})?+)\}}\s*+\z"
    )


def form_pattern(group: str, boundary: str) -> str:
    """Return the pattern of a multipart form with exactly one field `model`; captures its value and
    the form's `boundary`.
    """
    headers = (
        r"(?i:content-(?:type:[\t -~]*+|length: *+[0-9]++|transfer-encoding: *+(?:binary|[78]bit))"
        r" *+\r\n)*+"
    )
    disposition = r"(?i:content-disposition: *+form-data *+; *+name=)"
    file = rf'(?: *+; *+filename="(?:{_CHARACTER}|\\[ -~])*+")?+(?: *+; *+filename\*=[!#-:<-~]++)?+'
    end = rf"\r\n--\k<{boundary}>"
    # A boundary at the start of a field, or after a bare newline or carriage return, ends the field
    # for some parsers only.
    content = (
        rf"(?!--\k<{boundary}>)(?:[^\r\n]++|\r(?!\n?--\k<{boundary}>)|\n(?!--\k<{boundary}>))*+"
    )
    other = rf'{headers}{disposition}"(?!model")[ !#$&-\[\]-~]++"{file} *+\r\n{headers}\r\n{content}{end}'
    model = rf'{headers}{disposition}"model" *+\r\n{headers}\r\n(?<{group}>{NAME}){end}'
    return rf"\A--(?<{boundary}>[^\r\n]{{1,70}})\r\n(?:{other}\r\n)*+{model}(?:\r\n{other})*+--(?:\r\n)?\z"
