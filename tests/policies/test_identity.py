"""The identity of the pack: the same for the same files in any folder, another one as soon as a
rule is moved, added or changed.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from inferplan.planning.violation_formats import packs
from inferplan.policies.engine.identity import identity_in, is_source, own_identity
from inferplan.policies.engine.registry import all_rules
from inferplan.policies.engine.report import check_stack
from inferplan.policies.engine.resource import Stack
from inferplan.policies.engine.settings import Settings

ROOM = Path(__file__).resolve().parents[2] / "inferplan"


def identity(pack):
    return identity_in(pack.parent)


@pytest.fixture
def copied(tmp_path):
    """The folder of a pack in a copy of all that it reads."""
    for each in ROOM.rglob("*"):
        if each.is_file() and is_source(name := each.relative_to(ROOM).as_posix()):
            (tmp_path / "elsewhere" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, tmp_path / "elsewhere" / name)
    (tmp_path / "elsewhere" / "policies" / "stacks").mkdir()
    return tmp_path / "elsewhere" / "policies"


def test_it_states_version_rules_and_hash_in_any_folder(copied):
    assert own_identity().startswith(f"0.1.0, {len(all_rules())} rules, sha256:")
    assert identity(copied) == identity_in(ROOM) == own_identity()
    assert packs(check_stack(Stack("test", ()), Settings(today="2026-11-28"))) == {
        "inferplan": f"{own_identity()}, 0 resources judged"
    }


def test_settings_of_stacks_and_compiled_files_do_not_count(copied):
    (copied / "stacks" / "other.json").write_text("{}")
    (copied / "rules" / "__pycache__").mkdir(exist_ok=True)
    (copied / "rules" / "__pycache__" / "x.py").write_text("x")
    assert identity(copied) == own_identity()


@pytest.mark.parametrize(
    "edit",
    [
        lambda pack: (pack / "rules" / "pod_security.py").rename(pack / "pod_security.bak"),
        lambda pack: (pack / "rules" / "pod_security.py").rename(pack / "rules" / "z.py"),
        lambda pack: (pack / "rules" / "rbac.py").write_text(""),
        lambda pack: (pack / "rules" / "rbac.py").write_bytes(
            (pack / "rules" / "rbac.py").read_bytes().swapcase()
        ),
        lambda pack: (pack / "subjects" / "pods.py").write_bytes(
            (pack / "subjects" / "pods.py").read_bytes().swapcase()
        ),
        lambda pack: (pack / "engine" / "evaluate.py").write_text(
            "def evaluate_stack(*_): return []\n"
        ),
        lambda pack: (pack / "rules" / "unseen_kinds.toml").unlink(),
        lambda pack: (pack / "subjects" / "extra.py").write_text("import os\n"),
        lambda pack: (pack.parent / "planning" / "policy_check.py").write_text(
            "def stack_of(recording): return []\n"
        ),
        lambda pack: (pack.parent / "pulumi_engine" / "values.py").write_text(
            "def reveal(value): return {}\n"
        ),
        lambda pack: (pack.parent / "commands" / "check" / "command.py").write_text(
            "def command(): pass\n"
        ),
        lambda pack: (pack.parent / "kube" / "quantity.py").write_text(
            "def amount(*_): return 0\n"
        ),
        lambda pack: (pack.parent / "hardware" / "ec2.csv").write_text(""),
    ],
)
def test_every_other_pack_has_another_identity(copied, edit):
    edit(copied)
    assert identity(copied) != own_identity()


def test_a_missing_rule_shows_in_the_count(copied):
    (copied / "rules" / "pod_security.py").unlink()
    assert f" {len(all_rules())} rules" not in identity(copied)


def test_all_that_the_pack_imports_belongs_to_its_identity():
    modules = {
        ".".join(("inferplan", *each.relative_to(ROOM).with_suffix("").parts)): each
        for each in ROOM.rglob("*.py")
    }
    waiting, seen = [name for name in modules if name.startswith("inferplan.policies.")], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [each for each in _imports(modules[name]) if each in modules]
    files = {modules[name].relative_to(ROOM).as_posix() for name in seen}
    assert {name for name in files if not is_source(name)} == set()
    assert any(name.startswith("capacity/") for name in files)


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_a_pack_without_one_of_its_rules_blocks_every_stack(monkeypatch):
    from inferplan.commands.check.command import render
    from inferplan.planning import policy_check
    from inferplan.planning.violation_formats import policy_events
    from inferplan.policies.engine import registry, report
    from inferplan.policies.engine.settings import Settings
    from tests.policies.cases import changed

    left = {name: rule for name, rule in all_rules().items() if name != "pod-require-non-root"}
    for module in (registry, report):
        monkeypatch.setattr(module, "all_rules", lambda: left)
    # What is cached here would be missing in later tests.
    for name in ("_structures", "_rules"):
        monkeypatch.setattr(registry, name, getattr(registry, name).__wrapped__)
    result = report.check_stack(
        policy_check.stack_of(changed("", {})), Settings(today="2026-11-21")
    )
    assert result.missing == ("pod-require-non-root",)
    assert result.blocked
    assert all("pod-require-non-root" in render([result], form) for form in ("table", "sarif"))
    (event,) = policy_events(result)
    assert event["policyEvent"]["enforcementLevel"] == "mandatory"
