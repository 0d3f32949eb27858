"""Reads the values and schemas of a Helm chart and its subcharts, packed ones too, before Helm
does.
"""

import contextlib
import io
import json
import operator
import re
import tarfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from inferplan.audit.documents import content_of, values_in
from inferplan.audit.manifest import InputError, Object
from inferplan.kube.names import label_of
from inferplan.kube.paths import leaves

_MAX_UNPACKED_BYTES: Final = 100 * 2**20
"""Helm rejects charts with larger files."""
_PACKED: Final = ".tgz"
_INSIDE: Final = re.compile(r"#|https?://json-schema\.org/")
_BRANCH: Final = re.compile(rb"\.Release\.Is(Install|Upgrade)")
_SECRET: Final = re.compile(r"(?i)pass|pwd|secret|token|key|cred|auth|cert|salt")
_LONG: Final = 16


def check_schemas(chart: Path) -> None:
    """Raise InputError for each reference of a values.schema.json to another file or to the
    network, which Helm would read.
    """
    errors = []
    for place, content in _files(chart, "values.schema.json"):
        try:
            values = [(str(path[-1]), value) for path, value in leaves(json.loads(content)) if path]
        except (ValueError, RecursionError) as error:
            raise InputError([f"{place}:1: The schema is not JSON. Correct it."]) from error
        for key, value in values:
            if (
                key in ("$ref", "$dynamicRef", "$schema")
                and isinstance(value, str)
                and not _INSIDE.match(value)
            ):
                line = content.count(b"\n", 0, max(content.find(value.encode()), 0)) + 1
                errors.append(
                    f"{place}:{line}: {key} leaves the schema. Copy what it names into $defs, and"
                    " refer to it with #/$defs/NAME."
                )
    if errors:
        raise InputError(errors)


def release_of(chart: Path) -> str:
    """The default name of a release of `chart`: the chart's own, wherever its folder is."""
    files = [(place.count("/"), content) for place, content in _files(chart, "Chart.yaml")]
    content = min(files, key=operator.itemgetter(0))[1] if files else b""
    with contextlib.suppress(InputError):
        return label_of(str(values_in(content, str(chart)).get("name", "")), 53) or "release"
    return "release"


def branches(chart: Path) -> bool:
    """True if a template of the chart asks whether it is rendered for an upgrade."""
    templates = ("*.yaml", "*.yml", "*.tpl", "*.txt")
    return any(_BRANCH.search(content) for each in templates for _, content in _files(chart, each))


def secret_texts(chart: Path, values: list[Object]) -> list[str]:
    """Values of the chart that a message must not show: secret by their name, or long."""
    for place, content in _files(chart, "values.yaml"):
        with contextlib.suppress(InputError):  # it may be empty, and Helm names other errors
            values = [*values, values_in(content, place)]
    return [
        str(value)
        for path, value in leaves(values)
        if _SECRET.search(str(path)) or len(str(value)) >= _LONG
    ]


def _files(chart: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """Place and content of each file called `name`. Raises InputError."""
    for each in sorted(chart.rglob("*")) if chart.is_dir() else [chart]:
        if fnmatchcase(each.name, name) or (each.suffix == _PACKED and each.is_file()):
            yield from _contents(content_of(each), str(each), name)


def _contents(content: bytes, place: str, name: str) -> Iterator[tuple[str, bytes]]:
    """The file at `place` itself, or the files called `name` in a packed chart."""
    if not place.endswith(_PACKED):
        yield place, content
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                if member.offset_data + member.size > _MAX_UNPACKED_BYTES:
                    raise InputError(
                        [f"{place}:1: The packed chart has more than 100 MiB. Remove large files."]
                    )
                *_, file = re.split(r"[/\\]", member.name)
                is_read = fnmatchcase(file, name) or file.endswith(_PACKED)
                if is_read and (stream := archive.extractfile(member)):
                    yield from _contents(stream.read(), f"{place}/{member.name}", name)
    except (tarfile.TarError, zlib.error, EOFError, OSError, RecursionError) as error:
        raise InputError(
            [f"{place}:1: The chart cannot be unpacked. Pack it with `helm package`."]
        ) from error
