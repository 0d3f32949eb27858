"""Packages are named by name and version, never by a registry's address."""

from __future__ import annotations

import re

from tests.checkouts import ROOT, git

REGISTRIES = re.compile(
    r"(?:\bpypi\.org|pythonhosted\.org|proxy\.golang\.org|sum\.golang\.org|registry\.npmjs\.org"
    r"|registry\.yarnpkg\.com|crates\.io/|rubygems\.org)"
)
# Rules that recognize connections to these hosts, the words that are public, and tests of both.
KEPT = (
    *("inferplan/stackfile/checks/egress.py", "inferplan/stackfile/checks/outgoing.toml"),
    *("inferplan/policies/rules/connections.toml", "inferplan/kube/disclosure/words.txt"),
    *("tests/policies/", "tests/unit/test_registries.py"),
)


def test_no_file_names_the_address_of_a_registry():
    names = git(ROOT, "ls-files", "-z").split("\0")
    found = [
        f"{name}:{number}"
        for name in names
        if name and not name.startswith(KEPT) and (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_bytes().splitlines(), start=1)
        if REGISTRIES.search(line.decode(errors="replace"))
    ]
    assert not found
