"""How the message of a full store names it: its kind, what is mounted, what it has free and what is
needed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferplan.components.preheat.payload import target
from inferplan.components.preheat.payload.request import Request

ROOT = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw"
NFS = "90 22 0:51 / /target rw,relatime master:7 - nfs4 10.9.0.1:/models rw,vers=4.2"
PART = r"91 22 0:51 /team\040a /target rw - nfs4 10.9.0.1:/models rw"
DISK = "92 22 259:1 /models /target rw - xfs /dev/nvme1n1 rw"
OTHER = "93 22 0:60 / /target-of-another rw - tmpfs tmpfs rw"


@pytest.mark.parametrize(
    ("mounts", "place"),
    [
        ([ROOT, NFS, OTHER], "/target: nfs4 10.9.0.1:/models"),
        ([ROOT, PART], "/target: nfs4 10.9.0.1:/models, directory /team a"),
        # The last of two mounts hides the first.
        ([ROOT, NFS, DISK], "/target: xfs /dev/nvme1n1, directory /models"),
        ([ROOT, OTHER], "/target: ext4 /dev/vda"),
        ([], "/target"),
    ],
)
@pytest.mark.parametrize("node", [None, "gpu-1"])
def test_a_full_store_is_named_with_its_place_and_a_remedy_of_its_kind(
    tmp_path, monkeypatch, mounts, place, node
):
    (tmp_path / "mountinfo").write_text("".join(f"{each}\n" for each in mounts))
    monkeypatch.setattr(target, "_MOUNTS", tmp_path / "mountinfo")
    usage = shutil.disk_usage(tmp_path)._replace(free=8 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.delenv("NODE_NAME", raising=False)
    if node:
        monkeypatch.setenv("NODE_NAME", node)
    request = Request(
        kind="remote",
        root="weights:models/tiny",
        target=Path("/target"),
        directory="tiny/0-r0",
        job="tiny",
    )
    text = str(target.full(request, 11 << 20))
    kind = "the disk of node gpu-1" if node else "the share"
    remedy = "use nodes with a larger disk" if node else "use a larger share"
    assert f"{kind} ({place}) is full: expected 11.0 MiB free, found 8.0 MiB free; " in text
    assert f"free some: remove old models or lower preheat.keep, or {remedy}." in text
