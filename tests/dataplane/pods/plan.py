"""Takes pods out of a plan of a stack file, with the files and secrets that their volumes and
variables name.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from inferplan.components.gateway.keys import consumer_key
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.pulumi_engine.values import reveal
from inferplan.stackfile.reader import read_stack
from tests.policies.recorded import recording_with
from tests.stacks.test_committed_stacks import PASSPHRASE, ROOT


class Plan:
    """What the stack file at `path` registers, with `changes` to its models by name; a field that
    is None is left out.
    """

    def __init__(self, path: Path, changes: Mapping[str, Mapping[str, Any]]) -> None:
        self.path = ROOT / path
        config = yaml.safe_load(self.path.read_text(encoding="utf-8"))["config"]
        models = {
            name: {
                key: value
                for key, value in {**config["inferplan:models"][name], **fields}.items()
                if value is not None
            }
            for name, fields in changes.items()
        }
        self.recording: Recording = recording_with(
            self.path, path.stem.partition(".")[2], models=models
        )

    def pod(self, name: str) -> dict[str, Any]:
        """The pod of the model or gateway `name`: its spec, its annotations, and what its
        ConfigMaps and Secrets hold.
        """
        return self.completed(self._workload(name))

    def completed(self, template: dict[str, Any]) -> dict[str, Any]:
        """The pod of `template`: its spec, its marks, and what its ConfigMaps and Secrets hold."""
        files = {each["metadata"]["name"]: dict(each["data"]) for each in self._inputs("ConfigMap")}
        volumes = {
            each["name"]: {"files": self._files(each, files)}
            for each in template["spec"]["volumes"]
            if _projects(each)
        }
        marks = {key: template["metadata"].get(key, {}) for key in ("annotations", "labels")}
        return {"spec": template["spec"], **marks, "volumes": volumes}

    def ray_service(self, name: str) -> dict[str, Any]:
        """The spec of the RayService `name`."""
        return next(
            each.inputs["spec"]
            for each in self.recording.of_type("kubernetes:ray.io/v1:RayService")
            if each.name == name
        )

    def secrets(self) -> dict[str, dict[str, str]]:
        """Every Secret of the stack by name, its values in clear."""
        return {each["metadata"]["name"]: _clear(each) for each in self._inputs("Secret")}

    def key(self, consumer: str) -> str:
        """The API key of a consumer."""
        file = read_stack(self.path)
        secrets = open_secrets(
            file.secrets,
            salt=file.encryption_salt,
            provider=file.secrets_provider,
            environment=PASSPHRASE,
        )
        return consumer_key(secrets.values["inferplan:apiKeySeed"], consumer, 1)

    def _workload(self, name: str) -> dict[str, Any]:
        for each in self.recording:
            if each.type == "kubernetes:apps/v1:Deployment" and each.name == name:
                return each.inputs["spec"]["template"]
            if each.type == "kubernetes:ray.io/v1:RayService" and each.name == name:
                return each.inputs["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
        raise AssertionError(f"the plan has no workload {name}")

    def _inputs(self, kind: str) -> list[dict[str, Any]]:
        return [each.inputs for each in self.recording.of_type(f"kubernetes:core/v1:{kind}")]

    def _files(self, volume: dict[str, Any], maps: dict[str, dict[str, str]]) -> dict[str, str]:
        source = volume.get("configMap")
        data = (
            self.secrets()[volume["secret"]["secretName"]]
            if source is None
            else maps[_name(source["name"], maps)]
        )
        items = (volume["secret"] if source is None else source).get("items")
        return {each["path"]: data[each["key"]] for each in items} if items else data


def _name(wanted: Any, maps: Mapping[str, Any]) -> str:
    return wanted if isinstance(wanted, str) else next(iter(maps))


def _projects(volume: Mapping[str, Any]) -> bool:
    return "configMap" in volume or "secret" in volume


def _clear(secret: Mapping[str, Any]) -> dict[str, str]:
    written = reveal(secret.get("stringData") or {}) or {}
    encoded = reveal(secret.get("data") or {}) or {}
    return {
        **{name: base64.b64decode(value).decode() for name, value in encoded.items()},
        **written,
    }
