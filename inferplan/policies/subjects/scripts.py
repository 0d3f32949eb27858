"""Stacks whose containers name the commands of the scripts and option files that they run, so that
rules on commands judge those too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferplan.policies.engine.resource import Spelled, Stack
from inferplan.policies.subjects.mounted import File, files_of, options_in, variables_of
from inferplan.policies.subjects.pods import PODS, Container, PodTemplate
from inferplan.policies.subjects.programs import SHELLS, split_script
from inferplan.policies.subjects.python_code import commands_called

# Places that the entrypoints of images run without a command of the pod.
_RUN_BY_IMAGES = re.compile(r"/(.*/)?(docker-)?entrypoint[^/]*(/.*)?|/etc/(profile|\w+-init)\.d/.*")
_RUNS = rf"(?<![\w./-])({'|'.join(sorted(SHELLS))}|source|exec|\.)\s+(-\S+\s+)*[\"']?\S*"


def spelled_out(stack: Stack) -> Mapping[str, Spelled]:
    """The resources of a stack that run scripts of its objects, by URN. Scripts that cannot be read
    are left out: pod-restrict-mounted-files reports them.
    """
    spelled: dict[str, Spelled] = {}
    for resource in stack:
        if resource.kind not in PODS.kinds and not PODS.also(resource):
            continue
        with stack.for_rule().unreadable:
            inputs, names = resource.inputs, []
            for pod in resource.parts(PODS):
                for container, words, files in _scripts(stack, pod):
                    keys = (*container.field.keys, "args")
                    given = container.at("args").value or []
                    inputs = _changed(inputs, keys, [*given, *words])
                    names += files
            if names:
                spelled[resource.urn] = Spelled(
                    replace(resource, inputs=inputs), tuple(dict.fromkeys(names))
                )
    return spelled


def _scripts(stack: Stack, pod: PodTemplate) -> Iterator[tuple[Container, list[str], list[str]]]:
    """Each container that runs scripts, with their words and names."""
    of_pod = [*files_of(stack, pod)]
    for container in pod.containers:
        of_container = [each for each in of_pod if each.container is container]
        words: list[str] = []
        names: list[str] = []
        line = " ".join(container.words)
        texts = [(each.path, each.content) for each in _run(container, of_container)]
        texts += [
            (f"${name}", text)
            for name, text, _ in variables_of(stack, container)
            if text is not None and re.search(rf"\$[({{]?{re.escape(name)}\b", line)
        ]
        for name, content in texts:
            split = split_script(content.field, content.text, container.environment)
            words += ["\n", *(each.text for each in split)]
            names.append(name)
        for file in of_container:
            if file.name in line and file.language == "python":
                called = commands_called(file.text)
                words += called
                names += [file.path] if called else []
        for file in of_container:
            if not file.closed and (options := options_in(file)):
                words += options
                names.append(file.path)
        if words:
            yield container, words, names


def _run(container: Container, files: Sequence[File]) -> list[File]:
    """The scripts of a shell that a container runs, and those that they run."""
    texts = [" ".join(container.words), *(each.text() for each in container.hooks)]
    bare, run = not container.words, []
    waiting = [each for each in files if each.language in ("", "shell")]
    while texts:
        text = texts.pop()
        for file in [*waiting]:
            name = rf"{re.escape(file.name)}(?![\w.-])"
            called = re.search(rf"(?<![\w.-]){name}", text) and (
                file.language == "shell" or re.search(_RUNS + name, text)
            )
            if called or (bare and _RUN_BY_IMAGES.fullmatch(file.path)):
                waiting.remove(file)
                run.append(file)
                texts.append(file.text)
    return run


def _changed(value: Any, keys: Sequence[str | int], new: Any) -> Any:
    """Plain data with `new` at the place `keys`."""
    if not keys:
        return new
    first, *rest = keys
    if isinstance(value, list):
        return [
            _changed(each, rest, new) if place == first else each
            for place, each in enumerate(value)
        ]
    parts = value or {}
    return {**parts, first: _changed(parts.get(first), rest, new)}
