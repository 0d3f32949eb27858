"""Files of ConfigMaps in containers, and the commands that they come to."""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import yaml

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Resource, Stack
from inferplan.policies.subjects.pods import Container, PodTemplate
from inferplan.policies.subjects.programs import SHELLS

CONFIG_MAP = "kubernetes:core:ConfigMap"
_SHELL_FILE = re.compile(
    r".*\.(sh|bash|zsh|ksh|envsh)|(.*[-_])?(entrypoint|run|start|init|setup|install)"
)
_PYTHON = re.compile(r"python[0-9.]*")


class File(NamedTuple):
    """A file at `path` of a container, and the field with its content."""

    container: Container
    path: str
    field: Field

    @property
    def text(self) -> str:
        """Its text. Raises FieldError."""
        text = self.field.text()
        with contextlib.suppress(binascii.Error):
            if self.field.above.keys[-1] == "binaryData":
                return base64.b64decode(text).decode(errors="replace")
        return text

    @property
    def language(self) -> str:
        """`python`, `shell`, or "" for data."""
        first, name = self.text.partition("\n")[0], PurePosixPath(self.path).name
        last, runner = "", ""
        for word in self.container.words:
            if PurePosixPath(word).name == name:
                runner = last.rpartition("/")[2]
            elif not word.startswith("-"):
                last = word
        if name.endswith(".py") or _PYTHON.fullmatch(runner) or re.match("#!.*python", first):
            return "python"
        named = any(PurePosixPath(word).name == name for word in self.container.words[:1])
        shell = runner in (*SHELLS, ".", "source") or named or re.match("#!.*sh", first)
        return "shell" if shell or _SHELL_FILE.fullmatch(name) else ""


def maps_named(stack: Stack, pod: PodTemplate, reference: Field) -> list[Resource]:
    """The ConfigMaps of the stack that a pod refers to. Raises FieldError."""
    return [*stack.named(reference.at("name").text(), pod.resource, CONFIG_MAP)]


def files_of(stack: Stack, pod: PodTemplate) -> Iterator[File]:
    """The files of the stack's ConfigMaps in the containers of a pod. Raises FieldError."""
    volumes: dict[str, list[tuple[str, Field]]] = {}
    for volume in pod.at("volumes").each():
        sources = (volume.at("configMap"), *volume.select("projected", "sources", "*", "configMap"))
        volumes[volume.at("name").text()] = [
            file for each in sources if not each.absent for file in _entries(stack, pod, each)
        ]
    for container in pod.containers:
        for mount in container.at("volumeMounts").each():
            folder, part = mount.at("mountPath").text().rstrip("/"), mount.at("subPath").text()
            for name, field in volumes.get(mount.at("name").text(), ()):
                if part in ("", name):
                    yield File(container, folder if part else f"{folder}/{name}", field)


def _entries(stack: Stack, pod: PodTemplate, source: Field) -> Iterator[tuple[str, Field]]:
    names = {each.at("key").text(): each.at("path").text() for each in source.at("items").each()}
    for map_ in maps_named(stack, pod, source):
        for part in ("data", "binaryData"):
            for key, field in map_.at(part).entries():
                if not names or key in names:
                    yield names.get(key, key), field


def mounts_map(container: Container, path: str) -> bool:
    """True if a path of a container is in a volume of ConfigMaps. Raises FieldError."""
    volumes = {
        each.at("name").text()
        for each in container.pod.at("volumes").each()
        if not each.at("configMap").absent or not each.at("projected").absent
    }
    return any(
        each.at("name").text() in volumes
        and f"{path}/".startswith(f"{each.at('mountPath').text().rstrip('/')}/")
        for each in container.at("volumeMounts").each()
    )


def as_run(file: File) -> Container | None:
    """The container as if its command line were what a file says, None for a file that is neither
    run nor read as options. Raises FieldError.
    """
    raw: dict[str, Any] = dict(file.container.field.value)
    match file.language:
        case "python":
            raw |= {"command": ["python", "-c", file.text], "args": []}
        case "shell":
            raw |= {"command": ["sh", "-c", file.text], "args": []}
        case _:
            options = _options(file)
            if not options:
                return None
            raw["args"] = [*raw.get("args", ()), *options]
    return with_raw(file.container, raw)


def with_raw(container: Container, raw: dict[str, Any]) -> Container:
    """A container with other fields, alone in its pod."""
    spec = {**container.pod.spec.value, "containers": [raw], "initContainers": []}
    pod = PodTemplate(container.pod.resource, container.pod.metadata, Field(spec))
    return pod.containers[0]


def _options(file: File) -> list[str]:
    """The options that an engine reads from a file of its --config, as arguments."""
    values = None
    if file.path == file.container.option("--config"):
        with contextlib.suppress(yaml.YAMLError):
            values = yaml.load(file.text, Loader=yaml.CSafeLoader)
    pairs = values.items() if isinstance(values, dict) else ()
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in pairs
        if not isinstance(value, dict | list)
    ]
