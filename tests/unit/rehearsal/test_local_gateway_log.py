"""The access log of the local gateway, which a client load of hours must not let grow without
bound.
"""

from __future__ import annotations

from inferplan.client.local_gateway import nginx


def test_a_long_log_keeps_its_end_and_the_writer_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(nginx, "_LOG_BYTES", 1600)
    log = tmp_path / "access.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 1590 + b"last line\n")
        nginx._trim(log)
        assert log.stat().st_size == 1600
        writer.write(b"y" * 40 + b"newest line\n")
        nginx._trim(log)
        writer.write(b"after\n")
    assert log.read_bytes() == b"after\n"
    assert (
        tmp_path / "access.log.1"
    ).read_bytes() == b"x" * 38 + b"last line\n" + b"y" * 40 + b"newest line\n"
    nginx._trim(tmp_path / "missing.log")
