"""The small edits that mutations are made of: each changes plain inputs in place, and says False
where it does not apply.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inferplan.pulumi_engine.values import Secret, reveal

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Mutation:
    """One kind of edit. `edit` changes a container, pod or resource in place and returns False
    where it does not apply.
    """

    name: str
    rules: tuple[str, ...]
    edit: Callable[[Any], bool | None]


def drop(*keys: str) -> Callable[[Inputs], bool]:
    def edit(here: Inputs) -> bool:
        for key in keys[:-1]:
            here = here.get(key) or {}
        return here.pop(keys[-1], None) is not None

    return edit


def put(value: Any, *keys: str) -> Callable[[Inputs], None]:
    def edit(here: Inputs) -> None:
        for key in keys[:-1]:
            here = here.setdefault(key, {})
        here[keys[-1]] = copy.deepcopy(value)

    return edit


def add(value: Any, *keys: str) -> Callable[[Inputs], None]:
    def edit(here: Inputs) -> None:
        for key in keys[:-1]:
            here = here.setdefault(key, {})
        here.setdefault(keys[-1], []).append(copy.deepcopy(value))

    return edit


def server(edit: Callable[[Inputs], bool | None]) -> Callable[[Inputs], bool | None]:
    return lambda container: edit(container) if container.get("ports") else False


def accelerated(edit: Callable[[Inputs, str], bool | None]) -> Callable[[Inputs], bool | None]:
    def wrapped(container: Inputs) -> bool | None:
        limits = container.get("resources", {}).get("limits", {})
        name = next(
            (each for each in limits if each in ("nvidia.com/gpu", "habana.ai/gaudi")), None
        )
        return False if name is None else edit(container, name)

    return wrapped


def served_by_vllm(edit: Callable[[Inputs], bool | None]) -> Callable[[Inputs], bool | None]:
    return accelerated(lambda container, _name: edit(container) if _is_vllm(container) else False)


def _is_vllm(container: Inputs) -> bool:
    return "vllm" in container["image"].partition(":")[0] and bool(container.get("args"))


def argument(value: str) -> Callable[[Inputs], bool | None]:
    return served_by_vllm(lambda container: container["args"].append(value))


def both_sides(value: str) -> Callable[[Inputs], bool | None]:
    def edit(container: Inputs, name: str) -> None:
        for side in container["resources"].values():
            side[name] = value

    return accelerated(edit)


def limit(value: str) -> Callable[[Inputs], bool | None]:
    return accelerated(
        lambda container, name: container["resources"]["limits"].update({name: value})
    )


def tag(change: Callable[[str], str]) -> Callable[[Inputs], bool | None]:
    def edit(container: Inputs) -> bool:
        before = container["image"]
        container["image"] = change(before)
        return container["image"] != before

    return edit


def image_of(part: str, instead: str) -> Callable[[Inputs], bool | None]:
    def edit(container: Inputs) -> bool | None:
        return False if part not in container["image"] else container.update(image=instead)

    return edit


def first(inputs: Inputs) -> Inputs:
    return inputs["spec"]["template"]["spec"]["containers"][0]


def is_engine(inputs: Inputs) -> bool:
    return accelerates(inputs["spec"]["template"]["spec"])


def accelerates(pod: Inputs) -> bool:
    limits = pod["containers"][0].get("resources", {}).get("limits", {})
    return "nvidia.com/gpu" in limits or "habana.ai/gaudi" in limits


def pods_in(inputs: Inputs) -> list[Inputs]:
    """The spec of every pod template in the inputs of an object, wherever controllers and operators
    keep them.
    """
    found: list[Inputs] = []

    def look(here: Any) -> None:
        if isinstance(here, list):
            for each in here:
                look(each)
        elif isinstance(here, dict):
            for key, value in here.items():
                spec = (
                    value.get("spec")
                    if isinstance(value, dict)
                    and key in ("template", "leaderTemplate", "workerTemplate")
                    else None
                )
                if isinstance(spec, dict) and "containers" in spec:
                    found.append(spec)
                else:
                    look(value)

    look(inputs.get("spec"))
    return found


def in_file(name: str, change: Callable[[str], str]) -> Callable[[Inputs], bool | None]:
    """Changes the text of one entry of a Secret, which stands there in base64 and marked secret."""

    def edit(secret: Inputs) -> bool | None:
        data = reveal(secret.get("data") or {})
        if name not in data or not isinstance(data[name], str):
            return False
        text = base64.b64decode(data[name]).decode()
        secret["data"] = Secret({**data, name: base64.b64encode(change(text).encode()).decode()})
        return change(text) != text

    return edit


def in_every_entry(called: str, change: Callable[[str], str]) -> Callable[[Inputs], bool | None]:
    """Changes every entry of the Secret of that name."""

    def edit(secret: Inputs) -> bool | None:
        if secret["metadata"]["name"] != called:
            return False
        for name in reveal(secret.get("data") or {}):
            in_file(name, change)(secret)
        return None

    return edit
