from __future__ import annotations

import pytest

from inferplan.errors import RehearsalError
from inferplan.rehearsal.node import registry


@pytest.mark.parametrize("content", [b'[host."http://127.0.0.1"', b"\xff\xfe"])
def test_a_file_of_mirrors_that_cannot_be_read_is_named(content, tmp_path, monkeypatch):
    file = tmp_path / "registry.test" / "hosts.toml"
    file.parent.mkdir()
    file.write_bytes(content)
    monkeypatch.setattr(registry, "HOSTS", tmp_path)
    with pytest.raises(RehearsalError) as raised:
        registry.reaches("registry.test/team/pause:3")
    assert str(file) in raised.value.message
    assert "Repair the file" in raised.value.remedy
