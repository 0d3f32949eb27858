"""The program that follows a file of adapters, on a double of vLLM's servers; the real vLLM is asked
in `tests/dataplane/serving/test_runtime_adapters.py`.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PROGRAM = files("inferplan.components.serving.vllm") / "payload" / "load_adapters.py"


class Models:
    """The models of a server, with what `OpenAIServingModels` has of adapters."""

    def __init__(self) -> None:
        self.lora_requests: dict[str, Any] = {}
        self.loads: list[tuple[str, str, bool]] = []

    async def load_lora_adapter(self, request: Any) -> Any:
        self.loads.append((request.lora_name, request.lora_path, request.load_inplace))
        await asyncio.sleep(0)
        if request.lora_path == "/broken":
            return SimpleNamespace(error=SimpleNamespace(message="no such adapter"))
        self.lora_requests[request.lora_name] = SimpleNamespace(lora_path=request.lora_path)
        return "Success"


class Serving:
    """A server that knows the adapters of its models."""

    def __init__(self) -> None:
        self.models = Models()

    async def _check_model(self, request: Any) -> bool:
        return request.model in self.models.lora_requests


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "adapters.json"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, file: Path) -> Serving:
    """A server of a class that the program has changed."""
    own = type("Own", (Serving,), {"_check_model": Serving._check_model})
    names = {
        "vllm.entrypoints.openai.models.serving": {"OpenAIServingModels": Models},
        "vllm.entrypoints.pooling.base.serving": {"PoolingBaseServing": type("P", (Serving,), {})},
        "vllm.entrypoints.serve.engine.serving": {"BaseServing": own},
        "vllm.entrypoints.serve.lora.protocol": {"LoadLoRAAdapterRequest": SimpleNamespace},
    }
    for name, members in names.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
        vars(sys.modules[name]).update(members)
    monkeypatch.setenv("ADAPTERS", str(file))
    runpy.run_path(str(PROGRAM), run_name="program")
    return own()


def write(file: Path, adapters: dict[str, str]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(adapters))
    new.replace(file)


async def _knows(server: Serving, name: str, calls: int) -> list[bool]:
    request = SimpleNamespace(model=name)
    return await asyncio.gather(*(server._check_model(request) for _ in range(calls)))


def knows(server: Serving, name: str, calls: int = 1) -> set[bool]:
    return set(asyncio.run(_knows(server, name, calls)))


def test_an_adapter_is_loaded_once_for_its_first_calls_and_forgotten_with_its_line(server, file):
    assert knows(server, "sql") == {False}
    write(file, {"sql": "/share/sql/1"})
    assert knows(server, "sql", calls=8) == {True}
    assert server.models.loads == [("sql", "/share/sql/1", False)]
    write(file, {})
    assert knows(server, "sql") == {False}


def test_another_directory_is_loaded_in_place_of_the_old_one(server, file):
    for directory in ("/share/sql/1", "/share/sql/2"):
        write(file, {"sql": directory})
        assert knows(server, "sql") == {True}
    assert server.models.loads[1:] == [("sql", "/share/sql/2", True)]


def test_a_directory_that_cannot_be_loaded_is_printed(server, file, capsys):
    write(file, {"sql": "/broken"})
    assert knows(server, "sql") == {False}
    assert "sql was not loaded from /broken: no such adapter" in capsys.readouterr().err


def test_a_file_that_is_cut_off_or_gone_changes_nothing(server, file):
    write(file, {"sql": "/share/sql/1"})
    assert knows(server, "sql") == {True}
    file.write_text('{"sql":')
    assert knows(server, "sql") == {True}
    file.unlink()
    assert knows(server, "sql") == {True}


def test_adapters_that_the_server_started_with_stay(server, file):
    server.models.lora_requests["terse"] = SimpleNamespace(lora_path="/models/terse")
    write(file, {})
    assert knows(server, "terse") == {True}
    assert server.models.loads == []
