"""Label selectors: matchLabels and matchExpressions."""

from collections.abc import Collection, Mapping
from typing import Any

from inferplan.kube.paths import mapping


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether a label selector selects `labels`; an empty one selects all. An expression
    that cannot be read excludes nothing.
    """
    expressions = selector.get("matchExpressions")
    return mapping(selector, "matchLabels").items() <= labels.items() and all(
        meets(labels, each.get("operator"), str(each.get("key")), each.get("values") or ())
        for each in (expressions if isinstance(expressions, list) else ())
        if isinstance(each, dict)
    )


def meets(labels: Mapping[str, Any], operator: Any, key: str, values: Collection[Any]) -> bool:
    """Return whether `labels` meet one expression of a selector."""
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return True
