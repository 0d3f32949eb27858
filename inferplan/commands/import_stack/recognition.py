"""Recognizes model servers: the engine, and the container that runs it."""

from typing import Any

from inferplan.commands.import_stack.commands import program_of
from inferplan.commands.import_stack.fields import items_at
from inferplan.kube.names import vendor_of
from inferplan.kube.paths import leaves
from inferplan.tables import table

_TABLE = table("commands/import_stack/servers.toml")


def is_server(kind: str, body: dict[str, Any]) -> bool:
    """True if an object may be a model server or its autoscaler: a Deployment if it names an engine
    or requests accelerators.
    """
    names = " ".join(str(each) for _, each in leaves(body))
    accelerated = any(vendor_of(str(key)) for path, _ in leaves(body) for key in path)
    return kind != "Deployment" or accelerated or bool(_TABLE["engines"].get(engine_in(names)))


def engine_in(*texts: str) -> str:
    """The word of the table that names an engine, in the first text that has one."""
    return next((each for text in texts for each in _TABLE["engines"] if each in text.lower()), "")


def texts_of(words: list[str], image: str) -> tuple[str, str, str]:
    """What can name the engine, the surest first: the program, the image, every word of the command.
    A value such as that of `--attention-backend TRITON_ATTN` has the name of another engine.
    """
    return program_of(words), image, " ".join(words)


def container_of(body: dict[str, Any], row: dict[str, Any]) -> int:
    """The index of the container that runs the server: by its image and command, else by the name
    that KServe gives it.
    """
    containers = items_at(body, row.get("containers", ""))
    texts = [
        texts_of(
            [
                str(word)
                for key in ("command", "args")
                if isinstance(each.get(key), list)
                for word in each[key]
            ],
            str(each.get("image", "")),
        )
        for each in containers
    ]
    engines = (
        index
        for same in zip(*texts, strict=True)
        for index, text in enumerate(same)
        if _TABLE["engines"].get(engine_in(text))
    )
    names = (
        index for index, each in enumerate(containers) if each.get("name") in _TABLE["containers"]
    )
    return next(engines, next(names, 0))
