"""Values of manifests that are secret by their place or name: of Secrets, variables, headers, and arguments after an option."""

from collections.abc import Callable
from typing import Any, Final

from inferplan.kube.paths import leaves
from inferplan.review.rendering.text import HIDDEN, clean

_HEADERS: Final = ("authorization", "proxy-authorization", "cookie", "x-api-key")
_SHORTEST: Final = 4


def veiled(body: dict[str, Any], hide: Callable[[Any], Any], *, named: bool = True) -> dict[str, Any]:
    """A copy of an object with `hide` applied to the content of a Secret, and if `named` to other values that are secret."""
    copy: dict[str, Any] = _veiled(body, hide) if named else dict(body)
    content = ("data", "stringData") if body.get("kind") == "Secret" else ()
    return {key: hide(each) if key in content else each for key, each in copy.items()}


def without_secrets(text: str, body: dict[str, Any]) -> str:
    """`text`, which may quote the object `body`, without its secret values and without credentials of known forms."""
    values: list[Any] = []
    veiled(body, values.append)
    for each in sorted({str(leaf) for value in values for _, leaf in leaves(value)}, key=len, reverse=True):
        text = text.replace(each, HIDDEN) if len(each) >= _SHORTEST else text
    return clean(text)


def _veiled(value: Any, hide: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        copy = {key: _veiled(each, hide) for key, each in value.items()}
        name, content = str(value.get("name")), value.get("value")
        return {**copy, "value": hide(content)} if content and _is_secret(name, content) else copy
    if isinstance(value, list):
        pairs = zip(("", *value), value, strict=False)
        return [hide(each) if _is_argument(before, each) else _veiled(each, hide) for before, each in pairs]
    return value


def _is_secret(name: str, value: Any) -> bool:
    return name.lower() in _HEADERS or _is_hidden(f"{name}={next(leaves(value))[1]}")


def _is_argument(before: Any, value: Any) -> bool:
    return isinstance(value, str) and str(before).startswith("-") and not value.startswith("-") and _is_hidden(f"{before} {value}")


def _is_hidden(text: str) -> bool:
    return clean(text) != text
