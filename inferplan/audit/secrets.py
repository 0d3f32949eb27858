"""Hides the content of Secrets before manifests are judged, and secret values in the words of a
cluster or a renderer.
"""

from collections.abc import Callable
from typing import Any

from inferplan.documents.text import clean
from inferplan.kube.disclosure.disclosure import disclosed, hidden_values, message
from inferplan.kube.disclosure.encodings import HIDDEN
from inferplan.kube.paths import leaves


def veiled(body: dict[str, Any], hide: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy of an object with `hide` applied to the content of a Secret."""
    content = ("data", "stringData") if body.get("kind") == "Secret" else ()
    return {key: hide(each) if key in content else each for key, each in body.items()}


def without_secrets(text: str, body: dict[str, Any], names: tuple[str, ...] = ()) -> str:
    """`text`, which may quote the object `body`, with placeholders for its hidden values. Its other
    values and `names` are shown.
    """
    shown = disclosed(body, f"{body.get('apiVersion', 'v1')}/{body.get('kind')}")
    public = [each for _, each in leaves(shown) if isinstance(each, str) and HIDDEN not in each]
    near = (f"{name}/{each}" for name in names for each in public if f"/{each}" in text)
    return message(clean(text), hidden_values(body, shown), {*names, *public, *near})
