"""Code that one container of a pod fetches into a volume, and that another container runs: no digest
pins it.
"""

import re
from collections.abc import Iterator

from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.rule import Violations, violation
from inferplan.policies.subjects.packages import installs
from inferplan.policies.subjects.pods import Container
from inferplan.tables import table


def fetched_code(container: Container) -> Violations:
    """The volumes of a container with files that it fetches and other containers run. Raises
    FieldError.
    """
    rows = table("policies/rules/connections.toml")["fetched"]
    text = " ".join(container.words)
    if container.at("command").absent:
        text = f"{container.image.base} {text}"
    installed = installs(text)
    if not (installed or re.search(rows["fetch"], text)) or re.search(rows["pinned"], text):
        return
    for mount in _written(container, text):
        for other in container.pod.containers:
            if other.field.path != container.field.path and any(
                installed or _runs(other, path) for path in _paths(other, mount)
            ):
                yield violation(
                    mount, "contains code that the container downloads and another runs"
                )
                break


def _written(container: Container, text: str) -> Iterator[Field]:
    """The writable mounts of volumes that a command or a variable names, or that it works in."""
    values = [text, *(each.text() for each in container.select("env", "*", "value"))]
    values.append(container.at("workingDir").text())
    for mount in container.at("volumeMounts").each():
        place = re.escape(mount.at("mountPath").text().rstrip("/"))
        if mount.at("readOnly").flag() is not True and any(
            re.search(rf"(?<![\w/.-]){place}(?![\w.-])", value) for value in values
        ):
            yield mount


def _paths(container: Container, mount: Field) -> list[str]:
    return [
        each.at("mountPath").text().rstrip("/")
        for each in container.at("volumeMounts").each()
        if each.at("name").text() == mount.at("name").text()
    ]


def _runs(container: Container, folder: str) -> bool:
    """True if a container runs or loads code from a folder."""
    rows = table("policies/rules/connections.toml")["fetched"]
    place = re.escape(folder)
    here = re.compile(rf"(\A|:){place}(/|:|\Z)")
    return (
        re.search(rf"{rows['run']}{place}/", " ".join(container.words)) is not None
        or re.search(rows["folders"], folder) is not None
        or here.search(container.at("workingDir").text()) is not None
        or any(here.search(each.at("value").text()) for each in container.variables(rows["paths"]))
    )
