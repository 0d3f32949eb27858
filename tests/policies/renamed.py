"""Examples under other names: what a user writes who copies one and calls everything differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inferplan.pulumi_engine.program.record import record
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.stackfile.reader import StackFile, read_stack
from tests.stacks.test_committed_stacks import PASSPHRASE, ROOT

_NAMED = ("models", "nodePools", "storage", "consumers", "queues")
# Maps whose keys are names that a user chose.
_KEYED = {*(f"inferplan:{section}" for section in _NAMED), "inferplan:keyHistory", "pools"}
NAMESPACE = "elsewhere"


def examples() -> dict[str, Path]:
    """Every example stack of the repository by its name."""
    found = [
        path
        for folder in ("stacks", "docs")
        for path in sorted((ROOT / folder).rglob("Pulumi.*.yaml"))
    ]
    return {path.stem.partition(".")[2]: path for path in found}


def other_names(file: StackFile) -> dict[str, Any]:
    """The configuration of `file` with another name for each model, pool, store, consumer and
    queue, and another namespace.
    """
    config = {
        key: json.loads(text) if text[:1] in "[{" else text for key, text in file.config.items()
    }
    names = {
        name: f"{section[:2].lower()}-other-{place}"
        for section in _NAMED
        for place, name in enumerate(config.get(f"inferplan:{section}") or {})
    }
    return {
        **{key: _other(value, names, key) for key, value in config.items()},
        "inferplan:namespace": NAMESPACE,
    }


def _other(value: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {
            names.get(name, name) if key in _KEYED else name: _other(item, names, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_other(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def renamed(path: Path) -> tuple[dict[str, Any], Recording]:
    """The renamed configuration of the example at `path`, and what the program registers for it."""
    file = read_stack(path)
    secrets = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=file.secrets_provider,
        environment=PASSPHRASE,
    )
    config = other_names(file)
    texts = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()
    }
    keys = frozenset(secrets.values)
    return config, record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack="renamed",
        config={**texts, **secrets.values},
        secret_keys=keys,
    )
