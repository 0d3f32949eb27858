"""Renders Helm charts and kustomizations with Helm's and kubectl's own code, without network,
plugins or programs of the chart.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from inferplan.audit.charts import check_schemas, secret_texts
from inferplan.audit.documents import content_of, manifests_in, values_in
from inferplan.audit.manifest import InputError, Manifest, Object
from inferplan.audit.places import Resource, line_of_template, resource_files
from inferplan.audit.secrets import without_secrets
from inferplan.kube.paths import leaves
from inferplan.tables import table

KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_TABLE: Final = table("audit/renderers.toml")
_SECONDS: Final = 60
_REMOTE: Final = re.compile(
    r"(?:[\w.-]+=)?(?:[a-z][a-z+.-]*://|git@|git::|github\.com/|[\w.-]+\.git\b)"
)
_RUNS: Final = re.compile(
    r"^\s*-?\s*(?:exec|starlark|helmCharts|helmChartInflationGenerator):|config\.kubernetes\.io/function",
    re.MULTILINE,
)
# The value in a line of an inline patch.
_VALUE: Final = re.compile(r": *(\S{4,}.*)")
_SOURCE: Final = re.compile(rb"^# Source: (\S+)", re.MULTILINE)
_PLACE: Final = re.compile(r"\(?([\w./-]+\.(?:ya?ml|tpl|txt):[0-9]+)(?::[0-9]+)?\)?")


def is_chart(path: Path) -> bool:
    return (path / "Chart.yaml").is_file() if path.is_dir() else path.suffix == ".tgz"


def is_kustomization(path: Path) -> bool:
    return path.is_dir() and any((path / name).is_file() for name in KUSTOMIZATIONS)


def render_chart(
    helm: Path,
    chart: Path,
    values: Sequence[Path],
    *,
    namespace: str,
    kubernetes: str,
    release: str,
    upgrade: bool,
) -> tuple[Manifest, ...]:
    """The objects of `chart` with `values` as an installation of `release`, or as its `upgrade`,
    hooks among them. Raises InputError with the template's file and line.
    """
    documents = [values_in(content_of(each), str(each)) for each in values]
    _check_links(chart)
    check_schemas(chart)
    options = [word for each in values for word in ("--values", str(each.resolve()))]
    line = [
        str(helm),
        "template",
        release,
        str(chart.resolve()),
        "--namespace",
        namespace,
        "--include-crds",
        "--kube-version",
        kubernetes,
        *(["--is-upgrade"] if upgrade else []),
    ]
    return _placed(_run([*line, *options], chart, "Helm", secret_texts(chart, documents)), chart)


def render_kustomization(kubectl: Path, folder: Path) -> tuple[Manifest, ...]:
    """The objects of the kustomization in `folder`. Raises InputError; one that needs the network
    or a program is rejected.
    """
    _check_links(folder)
    visited: set[Path] = set()
    texts = [(path, str(value)) for path, value in leaves([*_kustomizations(folder, visited)])]
    secrets = [text for path, text in texts if "literals" in path]
    secrets += [value for _, text in texts if "\n" in text for value in _VALUE.findall(text)]
    rendered = _placed(
        _run([str(kubectl), "kustomize", str(folder.resolve())], folder, "kustomize", secrets),
        folder,
    )
    files = resource_files(sorted(visited))
    return tuple(_in_resource(each, folder, files) for each in rendered)


def _in_resource(manifest: Manifest, folder: Path, files: list[Resource]) -> Manifest:
    """`manifest` at the place of the resource from which the kustomization in `folder` makes it, if
    a file has a resource of its kind whose name it extends.
    """
    matches = [each for each in files if each[2] == manifest.kind and each[3] in manifest.name]
    longest = max((len(each[3]) for each in matches), default=0)
    matches = [each for each in matches if len(each[3]) == longest]
    if not matches:
        return manifest
    # A patch has the same name, and less text than the resource.
    file, line, *_ = max(matches, key=lambda each: each[4])
    lines = file.read_text(errors="replace").splitlines()
    shown = os.path.normpath(folder / os.path.relpath(file, folder.resolve()))
    return replace(manifest, place=f"{shown}:{line}", lines=lines)


def _kustomizations(folder: Path, visited: set[Path]) -> Iterator[Object]:
    """The kustomization in `folder` and those of the folders that it names. Raises InputError."""
    visited.add(folder.resolve())
    for file in (folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()):
        content = content_of(file)
        document, text = values_in(content, str(file)), content.decode(errors="replace")
        names = [
            str(each)
            for path, each in leaves(document)
            if not {*path[-2:]}.isdisjoint(_TABLE["files"])
        ]
        problems = [(text.find(each), "needs the network") for each in names if _REMOTE.match(each)]
        problems += [(match.start(), "runs a program") for match in _RUNS.finditer(text)]
        places = (
            (f"{file}:{text.count(chr(10), 0, max(at, 0)) + 1}", problem)
            for at, problem in problems
        )
        if errors := [
            f"{place}: The kustomization {problem} here. Copy what it names into the folder."
            for place, problem in places
        ]:
            raise InputError(dict.fromkeys(errors))
        yield document
        for each in (folder / name for name in names):
            if each.is_dir() and each.resolve() not in visited:
                yield from _kustomizations(each, visited)


def _check_links(root: Path) -> None:
    for each in sorted(root.rglob("*")) if root.is_dir() else ():
        leaves = each.is_symlink() and not each.resolve().is_relative_to(root.resolve().parent)
        problem = "The link points outside the folder" if leaves else "This is not a file"
        if leaves or not (each.is_file() or each.is_dir()):
            raise InputError([f"{each}:1: {problem}. Replace it with a file."])


def _placed(text: bytes, root: Path) -> tuple[Manifest, ...]:
    """The objects in rendered text, each at the place in the template that it comes from if that is
    a file, else in the text.
    """
    name = str(root)
    templates = [
        (text[: match.start()].count(b"\n") + 1, match[1].decode(errors="replace"))
        for match in _SOURCE.finditer(text)
    ]

    def source(line: int) -> tuple[int, str]:
        return next(
            ((start, template) for start, template in reversed(templates) if start <= line),
            (0, name),
        )

    def in_file(match: re.Match[str]) -> str:
        start, template = source(int(match[1]))
        return f"{name}/{template.partition('/')[2]}:{int(match[1]) - start}" if start else match[0]

    try:
        placed = [(each, int(each.place.rpartition(":")[2])) for each in manifests_in(text, name)]
    except InputError as error:
        raise InputError(
            [re.sub(rf"^{re.escape(name)}:([0-9]+)", in_file, each) for each in error.errors]
        ) from error
    counts: Counter[tuple[str, str]] = Counter()
    return tuple(_in_template(each, root, source(line)[1], line, counts) for each, line in placed)


def _in_template(
    manifest: Manifest, root: Path, template: str, line: int, counts: Counter[tuple[str, str]]
) -> Manifest:
    file = root / template.partition("/")[2]
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    first = line_of_template(lines, manifest.kind, counts[template, manifest.kind])
    counts[template, manifest.kind] += 1
    if first:
        return replace(manifest, place=f"{file}:{first}", lines=lines)
    return replace(manifest, place=f"{template}, line {line} of the rendered text", lines=())


@cache
def _without_network() -> tuple[str, ...]:
    """The command that runs another one without network interfaces, () if this machine has none."""
    program = shutil.which("unshare")
    line = (str(program), "--map-root-user", "--net", "--")
    return (
        line
        if program
        and not subprocess.run(
            [*line, program, "--version"], capture_output=True, check=False
        ).returncode
        else ()
    )


def _run(line: Sequence[str], source: Path, program: str, secrets: list[str]) -> bytes:
    """The output of `line`, which has an empty folder as home, and an environment without PATH,
    credentials and network.

    Raises InputError without the texts `secrets`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="inferplan-") as folder,
        tempfile.TemporaryFile() as output,
    ):
        try:
            process = subprocess.run(
                [*_without_network(), *_TABLE["limited"], *line],
                cwd=folder,
                env=_TABLE["environment"] | dict.fromkeys(_TABLE["homes"], folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                start_new_session=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise InputError(
                [
                    f"{source}:1: {program} has not finished after {_SECONDS} s. Simplify the templates."
                ]
            ) from late
        if process.returncode:
            text = without_secrets(
                process.stderr.decode(errors="replace"), {"kind": "Secret", "data": secrets}
            )
            raise InputError([_explained(text, source, program)])
        output.seek(0)
        return output.read()


def _explained(text: str, source: Path, program: str) -> str:
    """One line with the file and line that the program names, or the folder's first file."""
    for pattern, replacement in _TABLE["rewritten"]:
        text = re.sub(pattern, replacement, text)
    message, row = text[:400] or "it ended without a message", _TABLE["errors"][program]
    remedy = next(each for words, each in row["remedies"].items() if words in message)
    where = f"{source / row['file']}:1"
    if place := _PLACE.search(message):
        # Helm's paths start with the chart's name, which may differ from its folder's.
        where = str(
            source
            / (place[1].partition("/")[2] if program == "Helm" and "/" in place[1] else place[1])
        )
    return f"{where}: {program} cannot render it: {message.rstrip('.')}. {remedy}"
