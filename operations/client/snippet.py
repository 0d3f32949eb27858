"""Code that calls a model: a template for each protocol and language, with values quoted for that language.

It contains no key: the code reads it from an environment variable.
"""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from operations.client.messages import request_of
from operations.client.target import KEY_VARIABLE
from operations.errors import RequestError

if TYPE_CHECKING:
    import jinja2

    from components.handles import ProtocolKind
    from operations.client.target import Target

_FOLDER = files("operations.client") / "snippets"


def languages(kind: ProtocolKind) -> list[str]:
    """The languages of the templates for protocol `kind`."""
    parts = (each.name.removesuffix(".j2").rpartition(".") for each in _FOLDER.iterdir() if each.name.endswith(".j2"))
    return sorted(language for protocol, _, language in parts if protocol == kind)


def snippet(target: Target, language: str, prompt: str, *, max_tokens: int) -> str:
    """Code in `language` that puts `prompt` to `target` and prints the answer. Raises OperationError for a language that there is not."""
    known_languages = languages(target.kind)
    if language not in known_languages:
        raise RequestError(f"--language: no code in {language!r} for {target.kind}. Languages: {', '.join(known_languages)}")
    grpc = target.kind == "kserve-v2-grpc"
    return _template(f"{target.kind}.{language}.j2").render(
        target=target,
        request=None if grpc else request_of(target, prompt, max_tokens),
        prompt=prompt,
        max_tokens=max_tokens,
        variable=KEY_VARIABLE,
    )


@cache
def _template(name: str) -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - not HTML: what enters is quoted by the filters, each for the language of the template
        keep_trailing_newline=True,
    )
    environment.filters |= {"py": repr, "sh": shlex.quote, "json": json.dumps}
    return environment.from_string((_FOLDER / name).read_text(encoding="utf-8"))
