"""Divides a configuration that is too large for one ConfigMap among several."""

import re
from collections.abc import Mapping

from inferplan.components.size_limit import DATA_BYTES

# Bytes reserved for the names, labels and keys of an object.
_ROOM = 4096
_MAP = re.compile(r"^    map .*\{\n(?:        .*\n)+    \}\n", re.MULTILINE)


def divided(
    files: Mapping[str, str], folder: str, most: int = DATA_BYTES - _ROOM
) -> list[dict[str, str]]:
    """The files of each ConfigMap, which pods read in `folder`: all in one if they fit, else the
    largest maps of nginx.conf get one ConfigMap each, and nginx.conf includes them.
    """
    text = files["nginx.conf"]
    excess = sum(len(each.encode()) for each in files.values()) - most
    parts: list[dict[str, str]] = []
    blocks = sorted((each.group() for each in _MAP.finditer(text)), key=len, reverse=True)
    for block in blocks if excess > 0 else ():
        name = f"map-{len(parts) + 1}.conf"
        line = f"    include {folder}/{name};\n"
        text = text.replace(block, line)
        parts.append({name: block})
        excess -= len(block.encode()) - len(line)
        if excess <= 0:
            break
    return [{**files, "nginx.conf": text}, *parts]
