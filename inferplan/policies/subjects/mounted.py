"""Files of ConfigMaps, Secrets and annotations in containers, and the commands that they come to."""

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import Stack
from inferplan.policies.subjects.pods import Container, PodTemplate
from inferplan.policies.subjects.programs import SHELLS

# Where each source of a volume keeps its texts: the kind, the key with its name, and its fields, of which
# some are in base64.
_SOURCES = {
    "configMap": ("kubernetes:core:ConfigMap", "name", {"data": False, "binaryData": True}),
    "secret": ("kubernetes:core:Secret", "secretName", {"stringData": False, "data": True}),
}
_ANNOTATION = re.compile(r"metadata\.annotations\['(.*)'\]")
_SHELL_FILE = re.compile(
    r".*\.(sh|bash|zsh|ksh|envsh)|(.*[-_])?(entrypoint|run|start|init|setup|install)"
)
_PYTHON = re.compile(r"python[0-9.]*")
# Programs whose argument is a file of code, by the ending of its name.
_INTERPRETERS = {
    "node": re.compile(r"node(js)?|deno|bun|tsx|ts-node"),
    "ruby": re.compile(r"ruby|rackup|puma|unicorn"),
    "lua": re.compile(r"lua(jit)?[0-9.]*|resty"),
}
_ENDINGS = {"js": "node", "mjs": "node", "cjs": "node", "ts": "node", "rb": "ruby", "lua": "lua"}
_ENDINGS |= {"py": "python", "ru": "ruby"}


# Comments and messages of each language, which run nothing.
_MESSAGE = r"\s*\(?\s*(\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`)\s*\)?"
_SPOKEN = {
    "node": re.compile(
        rf"(?s)/\*.*?\*/|(?<!:)//[^\n]*|\b(console\.\w+|log\w*\.\w+|Error){_MESSAGE}"
    ),
    "ruby": re.compile(rf"(?<!\S)#[^\n{{][^\n]*|\b(puts|print|warn|raise|logger\.\w+){_MESSAGE}"),
    "lua": re.compile(rf"(?s)--\[\[.*?\]\]|--[^\n]*|\b(print|error|ngx\.log|io\.write){_MESSAGE}"),
}


class Text(NamedTuple):
    """A text of an object, `encoded` in base64 or plain."""

    field: Field
    encoded: bool = False

    @property
    def text(self) -> str:
        """The text, decoded. Raises FieldError."""
        text = self.field.text()
        with contextlib.suppress(binascii.Error):
            if self.encoded:
                return base64.b64decode(text).decode(errors="replace")
        return text


class File(NamedTuple):
    """A file at `path` of a container, and its content. Files of Secrets are `closed`: rules read
    only those that the container runs.
    """

    container: Container
    path: str
    content: Text
    closed: bool = False

    @property
    def text(self) -> str:
        """Its text. Raises FieldError."""
        return self.content.text

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def language(self) -> str:
        """`python`, `shell`, `node`, `ruby`, `lua`, or "" for data."""
        last, runner, name = "", "", self.name
        for word in self.container.words:
            if word == name or word.endswith(f"/{name}"):
                runner = last.rpartition("/")[2]
            elif not word.startswith("-"):
                last = word
        first = "" if self.closed else self.text.partition("\n")[0]
        ending = name.rpartition(".")[2]
        if ending == "py" or _PYTHON.fullmatch(runner) or re.match("#!.*python", first):
            return "python"
        for language, programs in _INTERPRETERS.items():
            if _ENDINGS.get(ending) == language or programs.fullmatch(runner):
                return language
        named = any(word.rpartition("/")[2] == name for word in self.container.words[:1])
        shell = runner in (*SHELLS, ".", "source") or named or re.match("#!.*sh", first)
        return "shell" if shell or _SHELL_FILE.fullmatch(name) else ""


def objects_named(
    stack: Stack, pod: PodTemplate, reference: Field, source: str
) -> Iterator[tuple[str, Text]]:
    """The texts, by name, of the objects of the stack to which a pod refers by the name in
    `reference`. Secrets that only an update makes are left out. Raises FieldError.
    """
    kind, _, parts = _SOURCES[source]
    for each in stack.named(reference.text(), pod.resource, kind):
        for part, encoded in parts.items():
            if source == "secret" and each.at(part).unknown:
                continue
            for key, field in each.at(part).entries():
                if not (source == "secret" and field.unknown):
                    yield key, Text(field, encoded)


def files_of(stack: Stack, pod: PodTemplate) -> Iterator[File]:
    """The files of the stack's objects, and of the pod's own annotations, in the containers of a
    pod. Raises FieldError.
    """
    volumes = {
        volume.at("name").text(): [*_in_volume(stack, pod, volume)]
        for volume in pod.at("volumes").each()
    }
    for container in pod.containers:
        for mount in container.at("volumeMounts").each():
            folder, part = mount.at("mountPath").text().rstrip("/"), mount.at("subPath").text()
            for name, text, closed in volumes.get(mount.at("name").text(), ()):
                if part in ("", name):
                    yield File(container, folder if part else f"{folder}/{name}", text, closed)


def _in_volume(stack: Stack, pod: PodTemplate, volume: Field) -> Iterator[tuple[str, Text, bool]]:
    """The files of a volume: name, content, and true for one of a Secret. Raises FieldError."""
    for each in (volume, *volume.at("projected", "sources").each()):
        for source, (_, name, _) in _SOURCES.items():
            place = each.at(source)
            reference = place.at(name if each is volume else "name")
            items = {at.at("key").text(): at.at("path").text() for at in place.at("items").each()}
            if not place.absent:
                for key, text in objects_named(stack, pod, reference, source):
                    if not items or key in items:
                        yield items.get(key, key), text, source == "secret"
        for item in each.at("downwardAPI", "items").each():
            if match := _ANNOTATION.fullmatch(item.at("fieldRef", "fieldPath").text()):
                annotation = pod.metadata.at("annotations", match.group(1))
                yield item.at("path").text(), Text(annotation), False


def variables_of(stack: Stack, container: Container) -> Iterator[tuple[str, Text | None, Field]]:
    """The variables of a container that objects of the stack set: the name, the text, and the field
    with the reference. The text is None if the ConfigMap is not in the stack.
    """
    for source in container.at("envFrom").each():
        prefix = source.at("prefix").text()
        for kind in _SOURCES:
            reference = source.at(f"{kind}Ref", "name")
            texts = objects_named(stack, container.pod, reference, kind)
            listed = [] if reference.absent else [*texts]
            yield from ((prefix + name, text, source) for name, text in listed)
            if kind == "configMap" and not (reference.absent or listed):
                yield "", None, source
    for name, entry in container.environment.items():
        reference = entry.at("valueFrom", "configMapKeyRef")
        if not reference.absent:
            texts = objects_named(stack, container.pod, reference.at("name"), "configMap")
            key = reference.at("key").text()
            yield from ((name, text, entry) for each, text in texts if each == key)


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
        case "node" | "ruby" | "lua":
            code = _SPOKEN[file.language].sub("", file.text)
            raw |= {"command": [file.language, "-e", code], "args": []}
        case _ if file.closed:
            return None
        case _:
            options = options_in(file)
            if not options:
                return None
            raw["args"] = [*raw.get("args", ()), *options]
    return with_raw(file.container, raw)


def with_raw(container: Container, raw: dict[str, Any]) -> Container:
    """A container with other fields, alone in its pod."""
    spec = {**container.pod.spec.value, "containers": [raw], "initContainers": []}
    pod = PodTemplate(container.pod.resource, container.pod.metadata, Field(spec))
    return pod.containers[0]


def options_in(file: File) -> list[str]:
    """The options that an engine reads from a file of its --config, as arguments."""
    values = None
    if file.path == file.container.option("--config"):
        with contextlib.suppress(yaml.YAMLError):
            values = yaml.load(file.text, Loader=yaml.CSafeLoader)
    return [
        f"--{name}" if each is True else f"--{name}={_value(each)}"
        for name, value in (values.items() if isinstance(values, dict) else ())
        for each in (value if isinstance(value, list) else [value])
    ]


def _value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)
