"""A run's figures in the text format of Prometheus, for the textfile collector of node-exporter to pick up.

One file a model, replaced in one step. It holds no time stamps beside samples, which that collector refuses, and only
labels that a stack bounds: the model, and a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

STATES = ("running", "ready", "failed", "stopped")
_PREFIX = "inferplan_preheat"
# Name, help, and where the status document has it.
_GAUGES = (
    ("bytes", "Bytes of the model that the current phase has copied or verified.", "bytes"),
    ("total_bytes", "Bytes of the model that the current phase works on.", "total"),
    ("moved_bytes", "Bytes that this run moved over the network.", "moved"),
    ("bytes_per_second", "Rate of the current phase over the last seconds.", "bytesPerSecond"),
    ("start_timestamp_seconds", "When this run started.", "startedSeconds"),
    ("update_timestamp_seconds", "When these figures were written.", "updatedSeconds"),
    ("files", "Files of the model, once it is READY.", "files"),
    ("exit_code", "How the run ended: 0 is READY, the others are listed in docs/storage.md.", "exitCode"),
)


def exposition(status: Mapping[str, Any]) -> str:
    """The metrics of a status document, as text that ends with a line feed. Figures that it does not have are left out."""
    model = _escaped(str(status["job"]))
    lines = [*_head("state", "What the run is at: 1 for its state, 0 for the others.")]
    lines += (f'{_PREFIX}_state{{model="{model}",state="{state}"}} {int(status["state"] == state)}' for state in STATES)
    for name, text, key in _GAUGES:
        if status.get(key) is not None:
            lines += [*_head(name, text), f'{_PREFIX}_{name}{{model="{model}"}} {status[key]}']
    return "".join(f"{line}\n" for line in lines)


def _head(name: str, text: str) -> Iterable[str]:
    return f"# HELP {_PREFIX}_{name} {text}", f"# TYPE {_PREFIX}_{name} gauge"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
