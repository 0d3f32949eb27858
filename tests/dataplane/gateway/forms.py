"""Multipart forms at /v1 that every parser reads alike, and forms that parsers could read in two
ways. Their boundary is XX.
"""

from __future__ import annotations


def _part(
    parameters: str,
    value: str = "llama",
    *,
    before: str = "",
    after: str = "",
    disposition: str = "form-data",
) -> str:
    return f"{before}Content-Disposition: {disposition}; {parameters}\r\n{after}\r\n{value}"


def _form(*parts: str, end: str = "\r\n--XX--\r\n") -> bytes:
    return ("--XX\r\n" + "\r\n--XX\r\n".join(parts) + end).encode()


MODEL, OTHER = _part('name="model"'), _part('name="x"', "1")
VALID = {
    "the model alone": _form(MODEL),
    "the model first": _form(MODEL, OTHER),
    "the model between": _form(OTHER, MODEL, OTHER),
    "no line at the end": _form(MODEL, end="\r\n--XX--"),
    "headers before": _form(
        _part('name="model"', before="Content-Type: text/plain\r\n"),
        _part('name="x"', before="Content-Length: 5\r\n"),
    ),
    "headers after": _form(
        _part('name="model"', after="Content-Transfer-Encoding: 8bit\r\n"),
        _part('name="x"', after="Content-Length: 5\r\n"),
    ),
    "a file with both names": _form(
        _part('name="file"; filename="a.wav"; filename*=utf-8\'\'a.wav'), MODEL
    ),
    "a quote in a file's name": _form(_part(r'name="file"; filename="a\"b.wav"'), MODEL),
    "a longer name": _form(_part('name="models"'), MODEL),
    "lines in a file": _form(
        _part('name="file"; filename="a"', "a\r\nb\n\r-XX\r\r\n-XX\n--X"), MODEL
    ),
}
INVALID = {
    "no model": _form(OTHER),
    "a carriage return before a boundary": _form(_part('name="file"; filename="a"', "a\r--XX\r"), MODEL),
    "a newline and a carriage return": _form(_part('name="file"; filename="a"', "a\n\r--XX"), MODEL),
    "a name that is too long": _form(_part('name="model"', "a" * 257)),
    "a second model first": _form(_part('name="model"', "mistral"), MODEL),
    "a second model last": _form(MODEL, _part('name="model"', "mistral")),
    "a model in capitals": _form(_part('name="MODEL"')),
    "an escaped name": _form(_part(r'name="mo\del"', "mistral"), MODEL),
    "an encoded name": _form(_part('name="%6dodel"', "mistral"), MODEL),
    "a name of two lines": _form(_part('name="x\r\nmodel"', "mistral"), MODEL),
    "a second name": _form(_part('name="x"; name="model"', "mistral"), MODEL),
    "an extended name": _form(_part("name=\"x\"; name*=utf-8''model", "mistral"), MODEL),
    "an open file's name": _form(_part(r'name="x"; filename="a\"', "mistral"), MODEL),
    "a file's name of two lines": _form(_part('name="x"; filename="a\r\nb"', "mistral"), MODEL),
    "parameters after an extended name": _form(_part('name="x"; filename*=a; name=model', "mistral"), MODEL),
    "a quote in an extended name": _form(_part('name="x"; filename*=a"b', "mistral"), MODEL),
    "a model that is a file": _form(_part('name="model"; filename="a"')),
    "a model with a parameter": _form(_part('name="model"; x=y')),
    "a model with a space": _form(_part('name="model"', "llama ")),
    "a model of two lines": _form(_part('name="model"', "llama\r\nmistral")),
    "another disposition": _form(_part('name="model"', disposition="attachment")),
    "a folded disposition": _form(_part('name="model"', disposition="form-data;\r\n x=y")),
    "a disposition on its own line": _form(_part('name="model"', disposition="\r\n form-data")),
    "a name on its own line": _form(_part('\r\n name="model"')),
    "an encoded model": _form(_part('name="model"', "bGxhbWE", after="Content-Transfer-Encoding: base64\r\n")),
    "a length that is none": _form(_part('name="model"', before="Content-Length: 5x\r\n")),
    "an unknown header": _form(_part('name="model"', before="Type: text/plain\r\n")),
    "a header after a bare newline": _form(_part('name="x"', before='Content-Type: a\nContent-Disposition: form-data; name="model"\r\n'), MODEL),
    "a longer boundary": _form(_part('name="x"', "1\r\n--XXY"), MODEL),
    "a boundary after a bare newline": _form(_part('name="x"', f"1\n--XX\r\n{MODEL}"), MODEL),
    "a bare newline at the end": _form(MODEL, end="\n--XX--\r\n"),
    "text before": b"x\r\n" + _form(MODEL),
    "text after": _form(MODEL, end=f"\r\n--XX--\r\n--XX\r\n{MODEL}\r\n--XX--\r\n"),
    "lines after": _form(MODEL, end="\r\n--XX--\r\n\r\n"),
    "no end": _form(MODEL, end="\r\n--XX\r\n"),
}  # fmt: skip
