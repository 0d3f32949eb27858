from __future__ import annotations

import ast
import sys
from pathlib import Path

from inferplan import review

MODULES = sorted(Path(review.__path__[0]).rglob("*.py"))
ALLOWED = {
    "inferplan.capacity",
    "inferplan.documents",
    "inferplan.hardware",
    "inferplan.pulumi_engine",
    "inferplan.kube",
    "inferplan.review",
    "inferplan.garbage",
    "inferplan.tables",
    "pydantic",
    "jinja2",
    "markupsafe",
}


def package(name: str) -> str:
    """`pydantic` of `pydantic.main`, `inferplan.kube` of `inferplan.kube.paths`."""
    return ".".join(name.split(".")[: 2 if name.startswith("inferplan.") else 1])


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {package(each.name) for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(package(node.module or ""))
    return names - set(sys.stdlib_module_names)


def test_review_knows_neither_our_components_nor_pulumis_packages():
    strange = {path.name: imported(path) - ALLOWED for path in MODULES}
    assert not {name: names for name, names in strange.items() if names}
    assert len(MODULES) > 20
