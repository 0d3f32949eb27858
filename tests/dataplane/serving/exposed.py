"""The metrics that a real server exposes, held against the pinned list of its engine."""

from __future__ import annotations

import http.client
from contextlib import closing

from inferplan.components.monitoring.vocabulary import engine_metrics
from tests.patience import PATIENCE_SECONDS

_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


def exposed(engine: str, port: int) -> str:  # noqa: ARG001 - says at the call whose metrics these are
    """The text of /metrics."""
    with closing(
        http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()


def missing_metrics(engine: str, port: int) -> list[str]:
    """The pinned metrics of `engine` that the server lacks, or has with another type; without those
    that need a setting.
    """
    text = exposed(engine, port)
    names = {
        line.partition("{")[0].partition(" ")[0]
        for line in text.splitlines()
        if line and not line.startswith("#")
    }
    types = {
        words[2]: words[3]
        for words in (line.split() for line in text.splitlines() if line.startswith("# TYPE "))
        if len(words) == 4
    }
    pinned = engine_metrics(engine)
    missing = []
    for name, kind in pinned["metrics"].items():
        if name in pinned["needs"]:
            continue
        stated = types.get(name) or types.get(name.removesuffix("_total"))
        if (
            any(f"{name}{suffix}" not in names for suffix in _SUFFIXES.get(kind, ("",)))
            or stated != kind
        ):
            missing.append(f"{name} ({kind}; the server says {stated})")
    return missing
