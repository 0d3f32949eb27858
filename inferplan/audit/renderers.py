"""Renders Helm charts and kustomizations with Helm's and kubectl's own code, without network, plugins or programs of the chart."""

import contextlib
import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from inferplan.audit.documents import content_of, manifests_in, values_in
from inferplan.audit.manifest import InputError, Manifest

KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_SECONDS: Final = 60
_MEMORY_BYTES: Final = 4 * 2**30
_OUTPUT_BYTES: Final = 64 * 2**20
_HOMES: Final = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HELM_PLUGINS")
_PROXIES: Final = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
_NOWHERE: Final = {"PATH": "", "KUBECONFIG": os.devnull, "GIT_ALLOW_PROTOCOL": "none", "GOMEMLIMIT": "3GiB", **_PROXIES}
_REMOTE: Final = re.compile(
    r"^\s*-?\s*(?:[\w-]+:\s*)?[\"']?((?:https?://|git@|ssh://|git::|oci://|github\.com/|[\w.-]+\.git\b)\S*)", re.MULTILINE
)
_RUNS: Final = re.compile(
    r"^\s*-?\s*(?:exec|starlark|helmCharts|helmChartInflationGenerator):|config\.kubernetes\.io/function", re.MULTILINE
)
_SOURCE: Final = re.compile(rb"^# Source: (\S+)", re.MULTILINE)
_PLACE: Final = re.compile(r"\(?([\w./-]+\.(?:ya?ml|tpl|txt):[0-9]+)(?::[0-9]+)?\)?")


def is_chart(path: Path) -> bool:
    return (path / "Chart.yaml").is_file() if path.is_dir() else path.suffix == ".tgz"


def is_kustomization(path: Path) -> bool:
    return path.is_dir() and any((path / name).is_file() for name in KUSTOMIZATIONS)


def render_chart(helm: Path, chart: Path, values: Sequence[Path], *, namespace: str, kubernetes: str) -> tuple[Manifest, ...]:
    """The objects of `chart` with `values`, hooks among them. Raises InputError with the template's file and line."""
    for each in values:
        values_in(content_of(each), str(each))
    _check_links(chart)
    options = [word for each in values for word in ("--values", str(each.resolve()))]
    name = re.sub(r"[^a-z0-9-]+", "-", chart.name.removesuffix(".tgz").lower()).strip("-")[:40] or "release"
    line = [str(helm), "template", name, str(chart.resolve()), "--namespace", namespace, "--include-crds", "--kube-version", kubernetes]
    text = _run([*line, *options], chart, "Helm")
    return _placed(text, str(chart))


def render_kustomization(kubectl: Path, folder: Path) -> tuple[Manifest, ...]:
    """The objects of the kustomization in `folder`. Raises InputError; one that needs the network or a program is rejected."""
    _check_links(folder)
    for file in (each for name in KUSTOMIZATIONS for each in folder.rglob(name)):
        text = file.read_text(errors="replace")
        for pattern, problem in ((_REMOTE, "needs the network"), (_RUNS, "runs a program")):
            if match := pattern.search(text):
                place = f"{file}:{text[: match.end()].count(chr(10)) + 1}"
                raise InputError([f"{place}: The kustomization {problem}: {match[0].strip()[:80]}. Copy what it names into the folder."])
    return _placed(_run([str(kubectl), "kustomize", str(folder.resolve())], folder, "kustomize"), str(folder))


def _check_links(root: Path) -> None:
    for each in sorted(root.rglob("*")) if root.is_dir() else ():
        leaves = each.is_symlink() and not each.resolve().is_relative_to(root.resolve().parent)
        if leaves or not (each.is_file() or each.is_dir()):
            raise InputError([f"{each}:1: {'The link leaves the folder' if leaves else 'This is not a file'}. Replace it with a file."])


def _placed(text: bytes, name: str) -> tuple[Manifest, ...]:
    """The objects in rendered text, each with the template that it comes from."""
    templates = [(text[: match.start()].count(b"\n") + 1, match[1].decode()) for match in _SOURCE.finditer(text)]
    placed = [(each, int(each.place.rpartition(":")[2])) for each in manifests_in(text, name)]
    sources = {line: next((template for start, template in reversed(templates) if start <= line), name) for _, line in placed}
    return tuple(replace(each, place=f"{sources[line]}, line {line} of the rendered text") for each, line in placed)


def _run(line: Sequence[str], source: Path, program: str) -> bytes:
    """The output of `line`, which has an empty folder as home, and an environment without PATH, credentials and network."""
    with tempfile.TemporaryDirectory(prefix="inferplan-") as folder, tempfile.TemporaryFile() as output:
        environment = _NOWHERE | dict.fromkeys(_HOMES, folder)
        process = subprocess.Popen(
            line, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, start_new_session=True
        )
        if hasattr(resource, "prlimit"):
            with contextlib.suppress(OSError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_OUTPUT_BYTES, _OUTPUT_BYTES))
        try:
            _, error = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired as late:
            process.kill()
            process.communicate()
            raise InputError([f"{source}:1: {program} has not finished after {_SECONDS} s. Simplify the templates."]) from late
        if process.returncode:
            raise InputError([_explained(error.decode(errors="replace"), source, program)])
        output.seek(0)
        return output.read()


def _explained(text: str, source: Path, program: str) -> str:
    """One line with the file and line that the program names, or the folder's first file."""
    message = " ".join(text.replace("Error: ", "").split())[:400] or "it ended without a message"
    place = _PLACE.search(message)
    remedy = "Run `helm dependency build` first." if "missing in charts/" in message else "Correct the chart or its values."
    main = "Chart.yaml" if program == "Helm" else "kustomization.yaml"
    # Helm names the chart first, which need not be the name of its folder.
    where = source / (place[1].partition("/")[2] or place[1]) if place else f"{source / main}:1"
    return f"{where}: {program} cannot render it: {message.rstrip('.')}. {remedy}"
