"""Files by strangers: told from weights by name and by bytes, in little memory, however they are
made.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from random import Random

import pytest

from inferplan.components.preheat.payload.errors import Exit, PreheatError
from inferplan.components.preheat.payload.file_checks import check_file, check_index, refuse_names
from inferplan.components.preheat.payload.pickles import runs_code

KIB, MIB = 1 << 10, 1 << 20
PROGRAM = """
import re, sys
from pathlib import Path
from inferplan.components.preheat.payload.file_checks import check_file, check_index
path = Path(sys.argv[1])
try:
    check_file(path, path.name, ()) if path.name.endswith("safetensors") else check_index(path.parent, [path.name])
except Exception as error:
    print(type(error).__name__)
print(int(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) << 10)
"""


def weights(path, header, size=0):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with path.open("r+b") as stream:
        stream.truncate(8 + len(text) + size)
    return path


def tensor(begin, end):
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


def refusal(path):
    with pytest.raises(PreheatError) as caught:
        check_file(path, path.name, ())
    assert caught.value.code is Exit.REFUSED
    return str(caught.value)


def test_tensors_that_follow_each_other_in_any_order_are_taken(tmp_path):
    header = {
        "b": tensor(10, 30),
        "__metadata__": {"format": "pt", "data_offsets": "[0, 5]"},
        "a": tensor(0, 10),
        "none": tensor(30, 30),
    }
    check_file(weights(tmp_path / "m.safetensors", header, 30), "m.safetensors", ())


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"a": tensor(0, 10), "b": tensor(5, 30)}, id="overlapping"),
        pytest.param({"a": tensor(0, 10), "b": tensor(20, 30)}, id="with a gap"),
        pytest.param({"a": tensor(0, 30), "b": tensor(0, 30)}, id="twice the same"),
        pytest.param(
            {"a": {"dtype": "U8", "shape": [30], "data_offsets": [30, 0]}}, id="backwards"
        ),
        pytest.param(
            {"a": {"dtype": "U8", "shape": [30], "data_offsets": [-1, 30]}}, id="negative"
        ),
        pytest.param({"a": {"dtype": "U8", "shape": [30], "data_offsets": ["0", 30]}}, id="text"),
        pytest.param(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep"),
        pytest.param(b'{"a": {"data_offsets": [0, 30]}} {"b": 1}', id="two values"),
        pytest.param(b'{"a": {"data_offsets": [0, 30]}', id="unfinished"),
        pytest.param(b'["data_offsets", 0, 30]', id="a list"),
    ],
)
def test_a_header_that_no_library_would_load_is_refused(tmp_path, header):
    assert "cut off or damaged" in refusal(weights(tmp_path / "m.safetensors", header, 30))


def test_a_deep_index_is_refused(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_bytes(
        b'{"weight_map": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    )
    with pytest.raises(PreheatError, match="nested more than"):
        check_index(tmp_path, ["model.safetensors.index.json"])


@pytest.mark.parametrize(
    "index",
    [
        "model.safetensors.index.json",
        "pytorch_model.bin.index.json",
        "unet/model.fp16.safetensors.index.json",
    ],
)
def test_a_shard_that_an_index_names_is_missed(tmp_path, index):
    (tmp_path / index).parent.mkdir(exist_ok=True)
    (tmp_path / index).write_text(json.dumps({"weight_map": {"a": "one.bin", "b": "two.bin"}}))
    folder = index.rpartition("/")[0]
    one, two = (f"{folder}/{name}".lstrip("/") for name in ("one.bin", "two.bin"))
    check_index(tmp_path, [index, one, two])
    with pytest.raises(PreheatError, match=f"{two}: a shard"):
        check_index(tmp_path, [index, one])


@pytest.mark.parametrize("kind", ["many tensors", "empty lists", "index of empty lists"])
def test_a_header_of_80_mib_is_read_in_little_memory(tmp_path, kind):
    match kind:
        case "many tensors":
            # Long names make it large, so that the test spends its time on memory.
            entries = (
                f'"{n:0{8 * KIB}}": {{"dtype":"U8","shape":[1],"data_offsets":[{n},{n + 1}]}}'
                for n in range(10 * KIB)
            )
            path = weights(
                tmp_path / "m.safetensors", b"{" + ",".join(entries).encode() + b"}", 10 * KIB
            )
        case "empty lists":
            path = weights(
                tmp_path / "m.safetensors", b'{"a":[' + b"[]," * (80 * MIB // 3) + b"[]]}"
            )
        case _:
            path = tmp_path / "model.safetensors.index.json"
            path.write_bytes(b'{"weight_map":{"a":[' + b"[]," * (20 * MIB // 3) + b"[]]}}")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True
    )
    *problem, peak = done.stdout.split()
    assert problem == ([] if kind == "many tensors" else ["PreheatError"]), done.stdout
    assert int(peak) < 100 * MIB


@pytest.mark.parametrize(
    "name",
    [
        "m.pth.tar",
        "m.dill",
        "m.nemo",
        "m.mar",
        "m.npy",
        "m.cpkl",
        "m.pk",
        "m.distcp",
        "m.h5",
        "m.pt.gz",
        "M.PT.GZ",
        "m.th",
        "m.pdparams",
        "m.sav",
        "m.p",
        "m.torch",
        "a/m.ckpt.zip",
    ],
)
def test_a_pickle_is_known_by_any_of_its_names(name):
    with pytest.raises(PreheatError, match="runs code"):
        refuse_names([name], ())
    refuse_names([name], ["*"])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_known_by_its_bytes_whatever_its_name_is(tmp_path, protocol):
    path = tmp_path / "weights.dat"
    path.write_bytes(pickle.dumps({"a": [1, 2, 3]}, protocol))
    assert "allowPickle" in refusal(path)
    check_file(path, path.name, ["weights.*"])


def test_an_archive_of_torch_is_known_by_its_bytes(tmp_path):
    path = tmp_path / "weights.dat"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02.")
    assert "runs code" in refusal(path)


@pytest.mark.parametrize(
    "name", ["x" * 256, "\u00fc" * 128, "a/" + "b" * 300, "/".join(["directory"] * 500)]
)
def test_a_name_that_no_file_system_takes_is_refused_before_a_byte_moves(name):
    with pytest.raises(PreheatError, match="too long") as caught:
        refuse_names([name], ())
    assert caught.value.code is Exit.REFUSED


class _Attack:
    def __reduce__(self):
        return print, ("code of the file ran",)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("tail", [b"", b"x", b"\n" * 9])
@pytest.mark.parametrize("value", [{"a": 1}, _Attack(), ("x" * (2 * MIB), _Attack())], ids=type)
def test_a_pickle_of_any_protocol_and_with_any_end_is_known(tmp_path, protocol, tail, value):
    path = tmp_path / "weights.dat"
    path.write_bytes(pickle.dumps(value, protocol) + tail)
    assert "allowPickle" in refusal(path)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, bz2.compress, lzma.compress])
def test_a_compressed_pickle_is_known(tmp_path, pack):
    path = tmp_path / "weights.dat"
    path.write_bytes(pack(pickle.dumps(_Attack(), 0)))
    assert "runs code" in refusal(path)
    path.write_bytes(pack(b"the quick brown fox"))
    check_file(path, path.name, ())


@pytest.mark.parametrize("first", ["version", "a/b/c", "data.pkl"])
@pytest.mark.parametrize("prefix", [b"", b"#!/bin/sh\n"])
def test_an_archive_is_known_whatever_its_first_entry_is_called(tmp_path, first, prefix):
    path = tmp_path / "weights.dat"
    path.write_bytes(prefix)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(first, b"3")
        archive.writestr("x/data.pkl", b"\x80\x02.")
    assert "runs code" in refusal(path)


@pytest.mark.parametrize(
    "start", [b"\x93NUMPY\x01\x00", b"\x89HDF\r\n\x1a\n", b"a" * 257 + b"ustar\x00"]
)
def test_a_format_that_contains_pickles_is_known_by_its_bytes(tmp_path, start):
    path = tmp_path / "weights.dat"
    path.write_bytes(start + bytes(600))
    assert "runs code" in refusal(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[a]\nb = 1\n",
        b"cat\ndog\nRat\nbee\n",
        b"(c) 2026 Acme.\n",
        b"MIT License\n",
        b"Version 1.0\n.\n",
        b"0\n1\n2\n",
        b"I am a model.\n",
        b"GGUF\x03\x00\x00\x00" + bytes(64),
        b"\x08\x07\x12\x07pytorch" + bytes(64),
    ],
)
def test_texts_and_weights_are_no_pickles(tmp_path, text):
    (tmp_path / "f.txt").write_bytes(text)
    check_file(tmp_path / "f.txt", "f.txt", ())


def test_random_bytes_are_hardly_ever_a_pickle():
    random = Random(49)  # noqa: S311 - noise, nothing secret
    blocks = (random.randbytes(300) for _ in range(10_000))
    assert sum(runs_code(io.BytesIO(block), 300) for block in blocks) <= 1


@pytest.mark.parametrize(
    ("name", "content", "known"),
    [
        ("model.gguf", b"GGUF\x03" + bytes(20), True),
        ("tokenizer.model", b"\x0a\x0e\x0a\x05<unk>" + bytes(20), True),
        ("tokenizer.txt", "\u00fcber\n".encode(), True),
        ("cut.txt", b"a" * 65535 + "\u00fc".encode(), True),
        ("weights.dat", b"\x00\x01\x02" + bytes(20), False),
        ("notes.txt", b"\x1b[31mred", False),
        ("README", b"\xff\xfe\x00", False),
    ],
)
def test_a_strict_preheat_takes_only_known_kinds_of_files_and_listed_ones(
    tmp_path, name, content, known
):
    path = tmp_path / name
    path.write_bytes(content)
    check_file(path, name, ())
    check_file(path, name, [name], strict=True)
    if known:
        check_file(path, name, (), strict=True)
    else:
        with pytest.raises(PreheatError, match="known kind"):
            check_file(path, name, (), strict=True)


@pytest.mark.parametrize(
    ("header", "size"),
    [
        pytest.param({"a": {**tensor(0, 30), "shape": [29]}}, 30, id="another size"),
        pytest.param({"a": {**tensor(0, 30), "shape": [30, 0]}}, 30, id="no element"),
        pytest.param({"a": {**tensor(0, 30), "dtype": "F16"}}, 30, id="another type"),
        pytest.param({"a": {**tensor(0, 30), "dtype": "U9"}}, 30, id="unknown type"),
        pytest.param({"a": {**tensor(0, 30), "dtype": None}}, 30, id="no type"),
        pytest.param({"a": {"shape": [30], "data_offsets": [0, 30]}}, 30, id="missing type"),
        pytest.param({"a": {"dtype": "U8", "data_offsets": [0, 30]}}, 30, id="missing shape"),
        pytest.param({"a": {"dtype": "U8", "data_offsets": [0, 1]}}, 1, id="missing shape of one"),
        pytest.param({"a": {"dtype": "U8", "shape": [30]}}, 30, id="missing offsets"),
        pytest.param({"a": {**tensor(0, 30), "shape": [-5, -6]}}, 30, id="negative shape"),
        pytest.param({"a": {**tensor(0, 30), "shape": [30.0]}}, 30, id="shape of floats"),
        pytest.param({"a": {**tensor(0, 1), "shape": [True]}}, 1, id="shape of booleans"),
        pytest.param({"a": {**tensor(0, 30), "data_offsets": [0, 10, 30]}}, 30, id="three offsets"),
        pytest.param({"a": {}}, 0, id="empty tensor"),
        pytest.param({"a": 5}, 0, id="number"),
        pytest.param(b'{"a": %s, "a": %s}', 2, id="duplicate name"),
        pytest.param(b'{"a": %s, "b": {}, "a": %s}', 2, id="duplicate name apart"),
        pytest.param({"__metadata__": {"a": 5}}, 0, id="metadata of a number"),
        pytest.param(b" {}", 0, id="leading space"),
    ],
)
def test_a_header_whose_tensors_contradict_themselves_is_refused(tmp_path, header, size):
    if isinstance(header, bytes) and b"%s" in header:
        header = header % tuple(json.dumps(tensor(n, n + 1)).encode() for n in range(2))
    assert "cut off or damaged" in refusal(weights(tmp_path / "m.safetensors", header, size))


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [("F4", [3, 2], 3), ("F32", [], 4), ("C64", [2], 16), ("BF16", [0, 7], 0), ("BOOL", [5], 5)],
)
def test_every_type_and_shape_of_the_library_is_taken(tmp_path, dtype, shape, size):
    header = {"__metadata__": {}, "a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    check_file(weights(tmp_path / "m.safetensors", header, size), "m.safetensors", ())
