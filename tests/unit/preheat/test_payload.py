"""The payload's parts on their own: checksums, manifests, names, headers."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.components.preheat.payload.checksums import digest, other_part_sizes, part_sizes
from inferplan.components.preheat.payload.errors import Exit, PreheatError, scrubbed
from inferplan.components.preheat.payload.file_checks import (
    check_file,
    check_index,
    refuse_names,
    wanted,
)
from inferplan.components.preheat.payload.manifest import Entry, Manifest, check, loads, read
from inferplan.components.preheat.payload.progress import duration, size
from inferplan.components.preheat.payload.request import parse
from inferplan.components.preheat.payload.source import parse_sums
from inferplan.components.preheat.verify import ready_check

MIB = 1 << 20


@given(parts=st.integers(1, 40), part=st.sampled_from([5, 8, 16, 50, 64]), rest=st.integers(1, MIB))
def test_the_part_size_of_common_clients_is_always_among_the_candidates(parts, part, rest):
    length = (parts - 1) * part * MIB + min(rest, part * MIB)
    assert part * MIB in part_sizes(length, parts)


@given(parts=st.integers(2, 2000), part=st.integers(5, 600), rest=st.integers(1, MIB))
def test_any_part_size_of_whole_mebibytes_is_tried_where_that_is_affordable(parts, part, rest):
    length = (parts - 1) * part * MIB + rest
    rare = other_part_sizes(length, parts)
    assert len(rare) <= 33
    assert all(-(-length // each) == parts for each in rare)
    if length // (parts - 1) // MIB - length // parts // MIB < 30:
        assert part * MIB in (*part_sizes(length, parts), *rare)


def test_the_etag_of_a_multipart_upload_is_the_md5_of_its_parts_md5s(tmp_path):
    data = os.urandom(12 * MIB + 5)
    (tmp_path / "f").write_bytes(data)
    parts = [data[n : n + 8 * MIB] for n in range(0, len(data), 8 * MIB)]
    joined = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    expected = f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-2"
    found = digest(tmp_path / "f", md5=True, git_sha1=True, parts=part_sizes(len(data), 2))
    assert expected in found.etags
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert (
        found.git_sha1
        == hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()
    )


@pytest.fixture
def cache(tmp_path):
    files = {"config.json": b"{}", "sub/model.safetensors": os.urandom(1000)}
    entries = []
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
        stamp = (tmp_path / path).stat().st_mtime_ns
        entries.append(
            Entry(
                path=path,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                mtime_ns=stamp,
                evidence="md5",
                origin="o",
            )
        )
    manifest = Manifest(content="c", source="s", revision=None, entries=tuple(entries))
    (tmp_path / "READY").write_text(manifest.dumps())
    return tmp_path, manifest


def test_a_good_cache_has_no_findings_and_its_ready_file_reads_back(cache):
    directory, manifest = cache
    assert read(directory) == Manifest(
        content="c",
        source="s",
        revision=None,
        entries=tuple(sorted(manifest.entries, key=lambda e: e.path)),
    )
    assert check(directory, manifest, every_byte=True) == []


def test_a_quick_check_reads_only_what_was_touched_and_a_full_one_everything(cache):
    directory, manifest = cache
    path = directory / "sub" / "model.safetensors"
    stamp = path.stat().st_mtime_ns
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    assert [f.path for f in check(directory, manifest, every_byte=False)] == [
        "sub/model.safetensors"
    ]
    os.utime(path, ns=(stamp, stamp))
    assert check(directory, manifest, every_byte=False) == []
    assert [f.path for f in check(directory, manifest, every_byte=True)] == [
        "sub/model.safetensors"
    ]


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_a_damaged_ready_file_is_refused_and_never_a_traceback(data):
    with pytest.raises(PreheatError, match="not a READY file"):
        loads(data.decode(errors="replace"), "READY")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    )
)
def test_json_that_is_no_ready_file_is_refused_and_never_a_traceback(value):
    with pytest.raises(PreheatError, match="not a READY file"):
        loads(
            json.dumps(
                {
                    "format": "inferplan.dev/ready.v1",
                    "files": value,
                    "bytes": 1,
                    "source": "s",
                    "revision": None,
                }
            ),
            "READY",
        )


def test_globs_choose_files_and_exclude_wins():
    assert wanted("a/b.json", ["*.json"], [])
    assert not wanted("a/b.json", ["*.json"], ["a/*"])
    assert wanted("x", [], [])


@pytest.mark.parametrize("path", ["../x", "a//b", "/x", "a\nb", "READY", "READY.damaged", "."])
def test_a_name_that_could_escape_or_forge_ready_is_refused(path):
    with pytest.raises(PreheatError, match="stored safely"):
        refuse_names([path], [])


def test_a_file_that_is_also_a_directory_is_refused():
    with pytest.raises(PreheatError, match="a file and a directory"):
        refuse_names(["a", "a/b"], [])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 8,
        struct.pack("<Q", 1 << 40),
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 3) + b"{x}",
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path, data):
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(PreheatError, match="cut off or damaged"):
        check_file(tmp_path / "m.safetensors", "m.safetensors", ())


def test_an_index_that_is_no_index_is_refused(tmp_path):
    (tmp_path / "m.safetensors.index.json").write_text("[]")
    with pytest.raises(PreheatError, match="weight_map"):
        check_index(tmp_path, ["m.safetensors.index.json"])


def test_checksum_lists_are_read_as_sha256sum_writes_them():
    line = "a" * 64
    assert parse_sums(f"{line}  ./x y\n\n{line} *z\n") == {"x y": line, "z": line}


def test_a_credential_in_a_message_is_blanked(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-canary")
    assert scrubbed("key canary-canary was wrong") == "key <AWS_SECRET_ACCESS_KEY> was wrong"
    failure = PreheatError(Exit.SOURCE, "no", "try", found="canary-canary")
    assert "canary-canary" not in json.dumps(failure.record())


def test_a_header_is_scrubbed_whole_and_so_is_the_secret_in_it(monkeypatch):
    monkeypatch.setenv("HTTP_AUTHORIZATION", "Bearer canary-canary")
    assert scrubbed("header Bearer canary-canary") == "header <HTTP_AUTHORIZATION>"
    assert scrubbed("token canary-canary was wrong") == "token <HTTP_AUTHORIZATION> was wrong"


def test_figures_read_as_a_human_writes_them():
    assert [size(0), size(1023), size(1024), size(3 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "3.0 GiB",
    ]
    assert [duration(0.2), duration(61), duration(7260)] == ["1 s", "1 min 1 s", "2 h 1 min"]


def test_a_request_says_who_reads_the_directory():
    text = json.dumps(
        {
            "kind": "remote",
            "root": "source:b/m",
            "target": "/target",
            "directory": "m/0123-r4",
            "job": "llama",
        }
    )
    request = parse(text, "inference")
    assert (request.user, request.content) == ("inference.llama", "m.0123")


def gate(folder):
    return subprocess.run(ready_check(str(folder)), capture_output=True, text=True, check=False)


def test_a_server_refuses_a_directory_without_ready_and_says_what_to_do(tmp_path):
    refused = gate(tmp_path)
    assert refused.returncode == 1
    assert f"{tmp_path}/READY is missing" in refused.stderr
    assert "raise preheat.round" in refused.stderr


@pytest.mark.parametrize(
    "damage",
    ["none", "a shard deleted", "a shard cut off", "a file too many", "a file of an NFS client"],
)
def test_a_server_refuses_a_directory_in_which_a_file_is_missing_or_of_another_size(
    tmp_path, damage
):
    files = {"config.json": b"{}", "sub/it's a \u00fc.gguf": b"weights", "empty": b""}
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    entries = [
        Entry(path=path, size=len(data), sha256="", mtime_ns=0, evidence="md5", origin="")
        for path, data in files.items()
    ]
    manifest = Manifest(content="c", source="s", revision=None, entries=tuple(entries))
    (tmp_path / "READY").write_text(manifest.dumps())
    (tmp_path / "READY.sizes").write_text(manifest.sizes())
    shard = tmp_path / "sub" / "it's a \u00fc.gguf"
    match damage:
        case "a shard deleted":
            shard.unlink()
        case "a shard cut off":
            shard.write_bytes(b"weigh")
        case "a file too many":
            (tmp_path / "model-9.safetensors").write_bytes(b"?")
        case "a file of an NFS client":
            (tmp_path / ".nfs00000000005a4b3c00000001").write_bytes(b"?")
    outcome = gate(tmp_path)
    good = damage in ("none", "a file of an NFS client")
    assert outcome.returncode == (0 if good else 1), outcome.stderr
    assert good or "expected" in outcome.stderr
    assert good or str(shard) in outcome.stderr or damage == "a file too many"
