"""Hides what may be a secret in a value of a cluster. People put secrets into any free text, so its
values are never shown.
"""

from collections.abc import Mapping
from typing import Any, Final

from inferplan.kube.disclosure.disclosure import disclosed, message
from inferplan.kube.paths import MISSING, Path, value_at
from inferplan.pulumi_engine.values import Secret, has_secret

HIDDEN: Final = "[not shown]"
"""Stands for a value that may contain a secret."""

_WIDTH: Final = 80
_FREE_TEXT: Final = frozenset(
    (
        "annotations",
        "args",
        "binaryData",
        "command",
        "data",
        "entrypoint",
        "rayStartParams",
        "serveConfigV2",
        "stringData",
        "userData",
    )
)
"""Fields whose values are hidden, with everything below them. Names of entries are shown."""
_WITH_PLAIN_VALUES: Final = frozenset(("taints", "tolerations"))
"""Lists whose items have a plain `value`; in every other list (variables, headers, parameters) it
is hidden.
"""


def visible(value: Any, path: Path, inputs: Any = None) -> Any:
    """Return the part of `value` at `path` that texts may show; `inputs` are the declared ones,
    which mark secrets. None for MISSING.
    """
    if value is MISSING:
        return None
    secret = isinstance(value, Secret) or _is_secret(inputs, path)
    if isinstance(value, Mapping) and not secret:
        return {key: visible(each, (*path, key), inputs) for key, each in value.items()}
    if secret or _is_free_text(path) or (isinstance(value, str) and _is_hidden(value, path)):
        return HIDDEN
    if isinstance(value, list):
        return [visible(each, (*path, index), inputs) for index, each in enumerate(value)]
    return value


def shown(value: Any) -> str:
    """`value` in at most 80 characters."""
    text = "not set" if value is None else str(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def variable_at(live: Any, path: Path) -> str:
    """The name of the environment variable that `path` leads into, "" if it leads elsewhere or to a
    variable as a whole.
    """
    if "env" not in path[:-2]:
        return ""
    name = value_at(live, (*path[: path.index("env") + 2], "name"))
    return name if isinstance(name, str) else ""


def _is_free_text(path: Path) -> bool:
    is_free = any(part in _FREE_TEXT or str(part).endswith("Args") for part in path)
    return is_free or (path[-1:] == ("value",) and _WITH_PLAIN_VALUES.isdisjoint(path))


def _is_hidden(value: str, path: Path) -> bool:
    if path == ("message",):
        return message(value) != value
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    return disclosed({key: value}) != {key: value}


def _is_secret(inputs: Any, path: Path) -> bool:
    """True if the value at or above `path` of `inputs` is marked secret, or one in a list on the
    way: live items have other indices.
    """
    for part in path:
        if not isinstance(inputs, Mapping):
            break
        inputs = inputs.get(str(part))
    return not isinstance(inputs, Mapping) and has_secret(inputs)
