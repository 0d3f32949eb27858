"""Engines and models of containers, from their images and command lines."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.resource import once
from inferplan.policies.subjects.pods import Container, PodTemplate
from inferplan.policies.subjects.programs import Image
from inferplan.tables import table

_TABLE = table("policies/subjects/serving.toml")
_ENGINES: Mapping[str, Mapping[str, Any]] = {
    name: row for name, row in _TABLE.items() if isinstance(row, dict) and "program" in row
}
WRITTEN: str = _TABLE["written"]
_FEATURES: Mapping[str, str] = {"switches a login off": _TABLE["logins"], **_TABLE["features"]}
_LOOPBACK = re.compile(r"(https?://)?(127\.[0-9.]+|localhost|\[?::1\]?)(:[0-9]+)?")
_HOSTS = ("--host", "-H", "--listen", "--ip", "--address", "--http-address", "--server-name")
_WEIGHTS = re.compile(
    r"(?i)/\S+\.(gguf|llamafile|safetensors|onnx|engine|plan|ggml|mlmodel|tflite)"
)
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_UNNAMED = "unnamed"
# No server has this name.
_NONE = r"(?!)"


@once
def engine_of(container: Container) -> str:
    """The engine that the command names, or that the image is one of unless the container only
    pulls it; "" if none is known.
    """
    named = _named(_texts(container)) or _started_by_image(container) or _answering(container)
    return named or (_UNNAMED if _reads_weights(container) else "")


def _reads_weights(container: Container) -> bool:
    """True if a container with ports names a folder of models or a file with weights."""
    return container.at("ports").has_items and (
        (container.option(*_TABLE["folders"]) or "").startswith("/")
        or any(_WEIGHTS.fullmatch(word.rpartition("=")[2]) for word in container.words)
    )


def is_keyless(container: Container) -> bool:
    """True if clients of other pods reach a server that takes no key, so only the network protects
    it. Raises FieldError.
    """
    engine, hosts = engine_of(container), (container.option(each) for each in _HOSTS)
    address = next(filter(None, hosts), "") or "".join(
        each.at("value").text() for each in container.variables(_TABLE["hosts"])
    )
    row = _ENGINES.get(engine, {})
    own_key = any(
        each.at("valueFrom", "secretKeyRef", "name").text()
        for each in container.variables(r"\w*(KEY|TOKEN|PASSWORD)")
    )
    return (
        (bool(engine) or container.accelerated)
        and not ({"variables", "options", "fronts"} & row.keys())
        and not (own_key and engine in ("", _UNNAMED))
        and not _LOOPBACK.fullmatch(address)
    )


def _answering(container: Container) -> str:
    """The engine that alone uses a port of the container by default, or whose protocol has the path
    of one of its probes; "" if none is known.
    """
    ports = {each.at("containerPort").text() for each in container.at("ports").each()}
    paths = {container.at(probe, "httpGet", "path").text() for probe in _PROBES} - {""}
    return next(
        (
            name
            for name, row in _ENGINES.items()
            if not ports.isdisjoint(map(str, row.get("ports", ())))
            or any(re.fullmatch(row.get("probes", _NONE), path) for path in paths)
        ),
        "",
    )


def _started_by_image(container: Container) -> str:
    """The engine that the image of a container, or what it reads, is that of, if its entrypoint
    starts; "" if none is known.
    """
    bare = container.at("command").absent
    for name, is_image in _possible(container.image):
        row = _ENGINES[name]
        if is_image:
            # A container without accelerators and ports that runs another command only pulls the
            # image.
            if bare or container.accelerated or container.at("ports").has_items:
                return name
        elif (bare or "scripted" in row) and container.variables(row["marks"]):
            return name
    return ""


@lru_cache(maxsize=1024)
def _possible(image: Image) -> tuple[tuple[str, bool], ...]:
    """The engines that an image may start, each with True if the image is the engine's own. The
    other engines are recognized by their variables.
    """
    engines = (
        (
            name,
            bool(
                re.fullmatch(row.get("image", _NONE), image.base)
                or re.search(row.get("name", _NONE), image.name)
            ),
        )
        for name, row in _ENGINES.items()
    )
    return tuple(each for each in engines if each[1] or "marks" in _ENGINES[each[0]])


@lru_cache(maxsize=4096)
def problems_of(name: str, value: str) -> tuple[str, ...]:
    """The problems of an option or a variable that is wrong for every program."""
    return tuple(
        problem
        for problem, pattern in _FEATURES.items()
        if re.fullmatch(pattern, f"{name}={value}")
        # The word after an option without a value is not its value.
        or (value.lower() not in ("false", "0", "no", "off") and re.fullmatch(pattern, name))
    )


def is_tunnel(container: Container) -> bool:
    """True if the image or a program of a container opens a way from the internet."""
    names = (container.image.base, *container.words)
    return any(re.fullmatch(_TABLE["tunnels"], name.rpartition("/")[2]) for name in names) or bool(
        re.search(_TABLE["tunnelCommands"], " ".join(container.words))
    )


def is_open_shell(container: Container) -> bool:
    """True if the container starts a program that runs what any client sends."""
    names = {*container.environment, *(name for _, name, _ in container.options)}
    return _opens_shell((*_texts(container), *container.words), frozenset(names))


@lru_cache(maxsize=4096)
def _opens_shell(texts: tuple[str, ...], names: frozenset[str]) -> bool:
    return any(
        any(re.fullmatch(program, text) for text in texts)
        and not any(re.fullmatch(login, name) for name in names)
        for program, login in _TABLE["shells"].items()
    )


@once
def started_engine(container: Container) -> str:
    """The engine that the container starts. A follower only joins an engine that another pod
    starts.
    """
    name = engine_of(container)
    return (
        name if name and (container.at("command").absent or _names(name, _texts(container))) else ""
    )


@once
def _texts(container: Container) -> tuple[str, ...]:
    """The words of the command line, and pairs of them: `serve` alone is the name of many programs,
    and `serve run` is Ray's; of a script also its folder.
    """
    words = [word.rpartition("/")[2] for word in container.words]
    words += [PurePosixPath(each).parent.name for each in container.words if each.endswith(".py")]
    return (*words, *map(" ".join, pairwise(words)))


@lru_cache(maxsize=4096)
def _named(texts: tuple[str, ...]) -> str:
    return next((name for name in _ENGINES if _names(name, texts)), "")


def _names(name: str, texts: tuple[str, ...]) -> bool:
    return any(re.fullmatch(_ENGINES[name]["program"], text) for text in texts)


def row_of(engine: str) -> Mapping[str, Any]:
    """The row of the table for an engine."""
    return _ENGINES[engine]


def switches_off(container: Container, engine: str) -> Iterator[Field]:
    """The words and variables that switch the key of a server off. Raises FieldError."""
    off = _ENGINES[engine].get("off", ())
    yield from (word.field for word in container.arguments if word.text in off)
    yield from (
        entry
        for name, entry in container.environment.items()
        if f"{name}={entry.at('value').text()}" in off
    )


def _is_engine(container: Container) -> bool:
    name = engine_of(container)
    if not name or "fronts" not in _ENGINES[name]:
        return bool(name)
    has_key = "off" in _ENGINES[name] or not container.environment.keys().isdisjoint(
        _ENGINES[name].get("variables", ())
    )
    return not has_key or any(True for _ in switches_off(container, name))


@once
def engine_containers(pod: PodTemplate) -> tuple[Container, ...]:
    """The containers with accelerators, and those that run an engine."""
    return tuple(each for each in pod.running if each.accelerated or _is_engine(each))


def closed_ports(pod: PodTemplate) -> set[int]:
    """The ports of administration of the engines of a pod. Raises FieldError."""
    names = {engine_of(each) for each in pod.running} - {""}
    return {port for name in names for port in _ENGINES[name].get("closed", ())}


@once
def model_of(container: Container) -> str:
    """The model on the command line of a server, "" if there is none."""
    kserve = container.at("modelFormat", "name").text() == "huggingface"
    image = container.image
    if not kserve and not any(
        re.search(_TABLE["servers"], text) for text in (image.name, *container.words)
    ):
        return ""
    model = container.option(*_TABLE["options"])
    if model is not None:
        return model
    model = _set_by_variable(container, "variables")
    if model is not None:
        return model
    name = engine_of(container)
    return _positional(container, _ENGINES[name]) if "switches" in _ENGINES.get(name, ()) else ""


def revision_of(container: Container) -> str:
    """The revision of a server's model, from the command line or a variable; "" if neither has it."""
    option = container.option(*_TABLE["revisionOptions"])
    return (_set_by_variable(container, "revisions") or "") if option is None else option


def _set_by_variable(container: Container, names: str) -> str | None:
    """The value of the variable that the table `names` lists for the container's image."""
    image, environment = container.image, container.environment
    return next(
        (
            environment[variable].at("value").text()
            for part, variable in _TABLE[names].items()
            if part in image.base and variable in environment
        ),
        None,
    )


def _positional(container: Container, engine: Mapping[str, Any]) -> str:
    """The first argument of the engine's `serve` that is not an option or the value of one."""
    words = list(container.arguments)
    texts = [each.text.rpartition("/")[2] for each in words]
    start = next(
        (place for place, text in enumerate(texts) if re.fullmatch(engine["program"], text)), None
    )
    if start is not None:
        words = words[start + 1 :]
    elif not container.at("command").absent:
        # Another program starts the server and chooses the model.
        return ""
    if words and words[0].text == "serve":
        words = words[1:]
    value_follows = False
    for word in words:
        if word.ends_command:
            return ""
        option = word.text.startswith("-")
        if not option and not value_follows:
            return word.text
        value_follows = (
            option
            and "=" not in word.text
            and not re.match(engine["switches"], word.text.replace("_", "-"))
        )
    return ""


def folder_of(container: Container) -> str:
    """The folder or file of the model on the command line of a server, "" if there is none."""
    model = model_of(container) or container.option(*_TABLE["folders"]) or ""
    return model if model.startswith("/") else ""


def server_keys(pod: PodTemplate) -> Iterator[Field]:
    """The fields with the names of the Secrets that hold the pod's own key. Raises FieldError."""
    entries = (
        entry
        for container in engine_containers(pod)
        for entry in container.variables(_TABLE["keys"])
    )
    yield from (
        name for entry in entries if (name := entry.at("valueFrom", "secretKeyRef", "name")).text()
    )
