"""A stack that is up, as the engine's state has it: what was declared, and the outputs with the
server's defaults and passing state.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from inferplan.kube import marks
from inferplan.pulumi_engine.recording import Options, Recording, Registration
from inferplan.pulumi_engine.secrets import SecretBox, unlock
from inferplan.pulumi_engine.values import Secret

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "live-stack"
_PASSPHRASE = "inferplan-example"  # noqa: S105 - the throw-away passphrase of the examples


@cache
def live(name: str) -> tuple[Recording, dict[str, dict[str, Any]]]:
    """The state `<name>.state.json.gz`: its resources with their inputs, and the outputs of each by
    URN.
    """
    state = json.loads(gzip.decompress((FIXTURES / f"{name}.state.json.gz").read_bytes()))[
        "deployment"
    ]
    box = unlock(_PASSPHRASE, state["secrets_providers"]["state"]["salt"], source="state")
    listed = [each for each in state["resources"] if each["type"] != "pulumi:pulumi:Stack"]
    registrations = tuple(_registration(each, box) for each in listed)
    outputs = {each["urn"]: _opened(each.get("outputs", {}), box) for each in listed}
    return Recording(project="inferplan", stack=name, registrations=registrations), outputs


def _registration(each: dict[str, Any], box: SecretBox) -> Registration:
    return Registration(
        urn=each["urn"],
        type=each["type"],
        name=each["urn"].rpartition("::")[2],
        custom=each["custom"],
        parent=each.get("parent", ""),
        inputs=_opened(each.get("inputs", {}), box),
        dependencies=tuple(each.get("dependencies", ())),
        property_dependencies={
            key: tuple(urns) for key, urns in each.get("propertyDependencies", {}).items()
        },
        # The engine writes `<urn>::<id>`.
        provider=each.get("provider", "").rpartition("::")[0],
        options=Options(protect=each.get("protect", False)),
    )


def _opened(value: Any, box: SecretBox) -> Any:
    """`value` with what is encrypted in it as Secret, as the engine hands it to an analyzer."""
    if isinstance(value, dict):
        if value.get(marks.SIGNATURE) == marks.SECRET:
            return Secret(json.loads(box.decrypt(value["ciphertext"])))
        return {key: _opened(item, box) for key, item in value.items()}
    return [_opened(item, box) for item in value] if isinstance(value, list) else value
