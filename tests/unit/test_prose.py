from __future__ import annotations

import subprocess

import pytest

from tests.prose import check

WORDS = {
    "exempt": ["tests/"],
    "pattern": [{"match": r"\bfor ever\b", "use": "forever", "left": {"old": 1}}],
}
MODULE = '''"""A pod
waits for ever."""

for_ever = f"{wait.for_ever} 'for_ever'"  # {comment}
'''


@pytest.fixture
def project(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # noqa: S607 - git of the developer

    def add(file: str, text: str) -> list[str]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)  # noqa: S607 - git of the developer
        return check(tmp_path, WORDS)

    return add


def test_a_pattern_in_a_docstring_and_a_comment_is_reported_with_its_line_and_the_words_to_use(
    project,
):
    found = project("new/a.py", MODULE.replace("{comment}", "lasts For Ever"))
    assert found == ["new/a.py:2: 'for ever': use forever", "new/a.py:4: 'For Ever': use forever"]


def test_code_in_markdown_and_tests_are_not_prose(project):
    assert project("docs/a.md", "`for ever`\n\n```\nfor ever\n```\n") == []
    assert project("tests/a.py", MODULE) == []
    assert project("docs/b.md", "It waits\nfor ever.\n") == ["docs/b.md:2: 'for ever': use forever"]


def test_a_folder_keeps_the_uses_that_are_left_and_gets_no_new_ones(project):
    assert project("old/a.py", '"""It waits for ever."""\n') == []
    assert project("old/b.py", '"""It hangs for ever."""\n')[-1] == "old: 2 uses, 1 allowed"
