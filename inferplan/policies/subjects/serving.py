"""Engines and models of containers, from their images and command lines."""

import re
from collections.abc import Iterator, Mapping

from inferplan.policies.engine.fields import Field
from inferplan.policies.subjects.pods import Container, PodTemplate
from inferplan.policies.subjects.programs import image_of
from inferplan.tables import table

_TABLE = table("policies/subjects/serving.toml")
_ENGINES = {name: row for name, row in _TABLE.items() if isinstance(row, dict) and "program" in row}


def engine_of(container: Container) -> str:
    """The engine that the command names, or that the image is one of unless the container only pulls it; "" if none is known."""
    return next((name for name in _ENGINES if _is(name, container)), "")


def _is(name: str, container: Container) -> bool:
    if _names(name, container) or not re.match(_ENGINES[name]["image"], image_of(container.at("image")).base):
        return _names(name, container)
    # A container without accelerators that runs another command only pulls the image.
    command = [each.text() for each in container.at("command").each()]
    return not command or any(_ENGINES[name]["program"] in word for word in container.words) or container.accelerated


def started_engine(container: Container) -> str:
    """The engine that the container starts. A follower only joins an engine that another pod starts."""
    name = engine_of(container)
    return name if name and (container.at("command").absent or _names(name, container)) else ""


def _names(name: str, container: Container) -> bool:
    program = _ENGINES[name]["program"]
    return any(word.rpartition("/")[2] == program or word.startswith(f"{program}.") for word in container.words)


def engine_containers(pod: PodTemplate) -> tuple[Container, ...]:
    """The containers with accelerators, and those that run an engine."""
    return tuple(each for each in pod.running if each.accelerated or engine_of(each))


def model_of(container: Container) -> str:
    """The model on the command line of a server, "" if there is none."""
    kserve = container.at("modelFormat", "name").text() == "huggingface"
    image = image_of(container.at("image"))
    if not kserve and not any(re.search(_TABLE["servers"], text) for text in (image.name, *container.words)):
        return ""
    model = container.option(*_TABLE["options"])
    if model is not None:
        return model
    for part, variable in _TABLE["variables"].items():
        if part in image.base and variable in container.environment():
            return container.environment()[variable].at("value").text()
    return _positional(container, _ENGINES[name]) if (name := engine_of(container)) else ""


def _positional(container: Container, engine: Mapping[str, str]) -> str:
    """The first argument of the engine's `serve` that is not an option or the value of one."""
    words = list(container.arguments)
    texts = [each.text.rpartition("/")[2] for each in words]
    if engine["program"] in texts:
        words = words[texts.index(engine["program"]) + 1 :]
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
        value_follows = option and "=" not in word.text and not re.match(engine["switches"], word.text.replace("_", "-"))
    return ""


def server_keys(pod: PodTemplate) -> Iterator[Field]:
    """The fields with the names of the Secrets that hold the pod's own key. Raises FieldError."""
    entries = (entry for container in engine_containers(pod) for entry in container.variables(_TABLE["keys"]))
    yield from (name for entry in entries if (name := entry.at("valueFrom", "secretKeyRef", "name")).text())
