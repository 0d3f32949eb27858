from __future__ import annotations

import ast
import sys
from pathlib import Path

import review

MODULES = sorted(Path(review.__path__[0]).glob("*.py"))
ALLOWED = {"kube", "review", "pydantic", "jinja2", "markupsafe"}
# A script for a person, who has boto3.
ALSO = {"refresh_prices.py": {"boto3"}}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names - set(sys.stdlib_module_names)


def test_review_knows_neither_our_components_nor_pulumis_packages():
    strange = {path.name: imported(path) - ALLOWED - ALSO.get(path.name, set()) for path in MODULES}
    assert not {name: names for name, names in strange.items() if names}
    assert len(MODULES) > 20
