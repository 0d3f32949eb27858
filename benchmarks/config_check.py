"""Measures how long checking a stack of 100 models takes once everything is imported: reading, validating, cross-checking.

It measures processor time, so that a busy machine does not count, and judges against a budget of 50 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ending import ended
from stackfile.reader import read_stack
from stackfile.settings import validate

MODELS = 100
BUDGET_MS = 50
_REPEATS = 9
_HEAD = """\
config:
  inferplan:cluster: {provider: simulated}
  inferplan:nodePools:
    l40s: {provider: simulated, accelerator: nvidia-l40s, nodes: 1000}
  inferplan:storage:
    weights: {kind: s3, bucket: acme-weights, prefix: llm}
    shared: {kind: nfs, server: nfs.storage.svc, path: /export/models, capacity: 100Ti}
  inferplan:gateway: {host: llm.local.test, insecure: true, ingressClassName: nginx}
  inferplan:consumers: {chat: {keys: [2, 1]}}
  inferplan:apiKeySeed: {secure: v1:x:y}
  inferplan:models:
"""
_MODEL = """\
    model-{n}:
      engine: vllm
      weights: {{store: weights, path: model-{n}, revision: 8afb486c1db24fe5011ec46dfbe5b5dccdb575c2, size: 16Gi}}
      preheat: {{into: shared}}
      pool: l40s
      replicas: 1
      consumers: [chat]
"""


def stack_of(models: int) -> str:
    """A stack file of `models` models."""
    return _HEAD + "".join(_MODEL.format(n=n) for n in range(models))


def milliseconds() -> tuple[float, float]:
    """Processor time of reading and of judging the stack, the best of several runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Pulumi.bench.yaml"
        path.write_text(stack_of(MODELS), encoding="utf-8")
        reading, judging = [], []
        for _ in range(_REPEATS):
            began = time.process_time()
            file = read_stack(path)
            read = time.process_time()
            validate(file)
            judging.append(time.process_time() - read)
            reading.append(read - began)
    return min(reading) * 1000, min(judging) * 1000


def main() -> int:
    """Print the figures; 1 when the budget is exceeded."""
    reading, judging = milliseconds()
    total = reading + judging
    print(f"config check, {MODELS} models: {total:.1f} ms of {BUDGET_MS} ms (reading {reading:.1f}, judging {judging:.1f})")
    return int(total > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.config_check"))
