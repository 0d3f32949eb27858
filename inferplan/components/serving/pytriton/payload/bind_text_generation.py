"""Binds text generation to Triton through PyTriton, and serves it until it is told to end: `python3 bind_text_generation.py SETTINGS`.

SETTINGS is a JSON file. What generates is the class Generator of the file that it names. Prompts are kept nowhere and
logged nowhere.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from pytriton.exceptions import PyTritonUnrecoverableError
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

MOST_TOKENS = 1_000_000


def main(path):
    """Serves the settings' model; ends with status 0 on SIGTERM, after the requests that run."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the image's Python may be older than this project's
        settings = json.load(file)
    generator = _load(settings["generator"])(settings["weights"], settings["device"], {**settings["parameters"], **settings})
    running = _Running()
    answer = _stream(generator, settings, running) if settings["streaming"] else _whole(generator, settings, running)
    # Without the variable it serves nothing, instead of serving every client.
    guard = TritonSecurityConfig(access_token=os.environ[settings["key_variable"]], restricted_endpoints=settings["guarded"])
    triton = Triton(config=TritonConfig(**settings["server"]), security_config=guard)
    triton.bind(
        model_name=settings["name"],
        infer_func=answer,
        inputs=[
            Tensor(name="text_input", dtype=bytes, shape=(1,)),
            Tensor(name="max_tokens", dtype=np.int32, shape=(1,), optional=True),
            Tensor(name="temperature", dtype=np.float32, shape=(1,), optional=True),
        ],
        outputs=[Tensor(name="text_output", dtype=bytes, shape=(1,))],
        config=ModelConfig(
            max_batch_size=settings["max_batch_size"], decoupled=settings["streaming"], batcher=DynamicBatcher(**settings["batcher"])
        ),
        strict=True,
    )
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGINT, lambda *_: ending.set())
    triton.run()
    # PyTriton's own serve() knows no SIGTERM, and its stop() kills the server after 30 s (0.7.0), however long an answer takes.
    while not ending.wait(timeout=5):
        if not triton.is_alive():
            raise PyTritonUnrecoverableError("the server or its connection to this process ended")
    running.wait(settings["drain_seconds"])
    triton.stop()
    if hasattr(generator, "close"):
        generator.close()


class _Running:
    """Counts the requests that run, so that the end can wait for them."""

    def __init__(self):
        self.count = 0
        self.changed = threading.Condition()

    def __enter__(self):
        with self.changed:
            self.count += 1

    def __exit__(self, *_):
        with self.changed:
            self.count -= 1
            self.changed.notify_all()

    def wait(self, seconds):
        """Waits until nothing runs, `seconds` at most."""
        with self.changed:
            self.changed.wait_for(lambda: self.count == 0, timeout=seconds)


def _whole(generator, settings, running):
    def answer(requests):
        with running:
            rows = [_rows(request, settings) for request in requests]
            texts = iter(generator.generate([row for each in rows for row in each]))
            return [{"text_output": _column([next(texts) for _ in each])} for each in rows]

    return answer


def _stream(generator, settings, running):
    threads = ThreadPoolExecutor(max_workers=settings["streams"])

    # Asynchronous, so that PyTriton takes the next request while this one waits for its next piece.
    async def answer(requests):
        with running:
            [request] = requests
            [row] = _rows(request, settings)
            pieces = generator.stream(row, lambda: False)
            loop = asyncio.get_running_loop()
            while (piece := await loop.run_in_executor(threads, next, pieces, None)) is not None:
                yield [{"text_output": _column([piece])}]

    return answer


def _rows(request, settings):
    prompts = [each.decode("utf-8", "replace") for each in request["text_input"].reshape(-1)]
    tokens = [int(each) for each in _values(request, "max_tokens", len(prompts), settings["max_tokens"])]
    temperatures = [float(each) for each in _values(request, "temperature", len(prompts), 0.0)]
    for count in tokens:
        if not 1 <= count <= MOST_TOKENS:
            raise ValueError(f"max_tokens is {count}; write 1 to {MOST_TOKENS}")
    for temperature in temperatures:
        if not 0 <= temperature <= 100:
            raise ValueError(f"temperature is {temperature}; write 0 (greedy) to 100")
    return list(zip(prompts, tokens, temperatures, strict=True))


def _values(request, name, count, default):
    """One value for each of the request's `count` prompts."""
    return request[name].reshape(-1) if name in request else [default] * count


def _column(texts):
    return np.array([each.encode("utf-8") for each in texts], dtype=np.object_).reshape(-1, 1)


def _load(path):
    scope: dict[str, Any] = {"__name__": "generator", "__file__": path}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the image's Python may be older than this project's
        exec(compile(file.read(), path, "exec"), scope)  # noqa: S102 - running the user's generator is what this program is for
    return scope["Generator"]


if __name__ == "__main__":
    main(sys.argv[1])
