"""Files by strangers: told from weights by name and by bytes, in little memory, however they are
made.
"""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest

from inferplan.components.preheat.payload.errors import Exit, PreheatError
from inferplan.components.preheat.payload.file_checks import check_file, check_index, refuse_names

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
