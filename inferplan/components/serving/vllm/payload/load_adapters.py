"""Starts vLLM so that it takes adapters from a file that changes while it runs: `python3 vllm serve OPTIONS`.

ADAPTERS names the file, which has the directory of each adapter by its name. vLLM loads an adapter when a request first names it, and again when its
directory has changed. Its own ways, two routes and resolvers, need VLLM_ALLOW_RUNTIME_LORA_UPDATING, with which each holder of the server's key loads
any directory (vLLM 0.32, entrypoints/serve/lora).
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

# Programs of the same folder that count tokens, if the model has them.
for _program in ("count_tokens", "usage_log"):
    with suppress(ModuleNotFoundError):
        import_module(_program)

try:
    from vllm.entrypoints.openai.models.serving import OpenAIServingModels
    from vllm.entrypoints.pooling.base.serving import PoolingBaseServing
    from vllm.entrypoints.serve.engine.serving import BaseServing
    from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest
except ImportError as error:
    raise SystemExit(f"adapters: this vLLM has no {error.name}. Remove loraLoading from the model.") from None


class Adapters:
    """The adapters in the file, and which of them the server has loaded."""

    def __init__(self, file):
        self._file, self._read, self._paths = Path(file), (0, 0), {}
        self._loaded = set()
        self._lock = asyncio.Lock()

    def paths(self):
        """The directories by adapter; the previous ones while the file is replaced."""
        with suppress(OSError, ValueError):
            state = self._file.stat()
            if (state.st_ino, state.st_mtime_ns) != self._read:
                self._paths = json.loads(self._file.read_text("utf-8"))
                self._read = (state.st_ino, state.st_mtime_ns)
        return self._paths

    async def follow(self, models, name):
        """Load the adapter `name` into the server if the file has another directory for it, and forget it if the file has none."""
        if self._is_current(models, name):
            return
        async with self._lock:
            path = self.paths().get(name)
            if path is None:
                self._loaded.discard(name)
                models.lora_requests.pop(name, None)
            elif not self._is_current(models, name):
                again = name in models.lora_requests
                request = LoadLoRAAdapterRequest(lora_name=name, lora_path=path, load_inplace=again)
                answer = await models.load_lora_adapter(request)
                if isinstance(answer, str):
                    self._loaded.add(name)
                else:
                    print(f"adapters: {name} was not loaded from {path}: {answer.error.message}", file=sys.stderr, flush=True)

    def _is_current(self, models, name):
        path, loaded = self.paths().get(name), models.lora_requests.get(name)
        if path is None:
            return name not in self._loaded
        return loaded is not None and loaded.lora_path == path


def follow_before_checks(serving, adapters):
    """Make every server of the class `serving` follow the file before it checks the model of a request."""
    check = serving._check_model  # noqa: SLF001 - vLLM has no public place that sees each request's model

    async def _check_model(self, request):
        if isinstance(self.models, OpenAIServingModels) and request.model:
            await adapters.follow(self.models, request.model)
        return await check(self, request)

    serving._check_model = _check_model  # noqa: SLF001 - as above


if "ADAPTERS" in os.environ:
    _adapters = Adapters(os.environ["ADAPTERS"])
    for _serving in (BaseServing, PoolingBaseServing):
        follow_before_checks(_serving, _adapters)

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
