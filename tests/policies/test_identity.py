"""The identity of the pack: the same for the same files in any folder, another one as soon as a rule is moved, added or changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferplan.operations.reporting.violation_formats import packs
from inferplan.policies.engine.identity import identity_of, is_source, own_identity
from inferplan.policies.engine.registry import all_rules

PACK = Path(__file__).resolve().parents[2] / "inferplan" / "policies"


def identity(folder):
    files = {each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    return identity_of({name: content for name, content in files.items() if is_source(name)})


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(PACK, tmp_path / "elsewhere" / "rules-of-acme")
    return tmp_path / "elsewhere" / "rules-of-acme"


def test_it_states_version_rules_and_hash_in_any_folder(copied):
    assert own_identity().startswith(f"0.1.0, {len(all_rules())} rules, sha256:")
    assert identity(copied) == identity(PACK) == own_identity()
    assert packs() == {"inferplan": own_identity()}


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
        lambda pack: (pack / "rules" / "rbac.py").write_bytes((pack / "rules" / "rbac.py").read_bytes().swapcase()),
        lambda pack: (pack / "subjects" / "pods.py").write_bytes((pack / "subjects" / "pods.py").read_bytes().swapcase()),
        lambda pack: (pack / "engine" / "evaluate.py").write_text("def evaluate_stack(*_): return []\n"),
        lambda pack: (pack / "rules" / "unseen_kinds.toml").unlink(),
        lambda pack: (pack / "subjects" / "extra.py").write_text("import os\n"),
    ],
)
def test_every_other_pack_has_another_identity(copied, edit):
    edit(copied)
    assert identity(copied) != own_identity()


def test_a_missing_rule_shows_in_the_count(copied):
    (copied / "rules" / "pod_security.py").unlink()
    assert f" {len(all_rules())} rules" not in identity(copied)
