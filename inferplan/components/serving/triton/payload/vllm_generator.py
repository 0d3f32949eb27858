"""Generates text with vLLM's engine from files on disk; vLLM batches whatever runs at a time. It downloads nothing, and runs reviewed code of the model only."""

import asyncio
import itertools
import json
import os
import queue
import threading

PATIENCE_SECONDS = 0.5


class Generator:
    """One engine on one device (`cpu`, `cuda:<n>` or `hpu`), in processes of its own; any number of threads may call it."""

    def __init__(self, weights, device, parameters):
        if device.startswith("cuda:"):
            # Before vLLM is imported: it takes the first device that it sees.
            seen = os.environ.get("CUDA_VISIBLE_DEVICES")
            chosen = int(device.removeprefix("cuda:"))
            os.environ["CUDA_VISIBLE_DEVICES"] = seen.split(",")[chosen] if seen else str(chosen)
        self.numbers = itertools.count()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="vllm", daemon=True).start()
        trusted = {"trust_remote_code": True} if os.environ.get("TRUST_REMOTE_CODE") == "1" else {}
        self.engine = self._wait(_engine({"model": weights, **trusted, **json.loads(parameters.get("engine_args", "{}"))}))

    def generate(self, rows):
        """The answer to each (prompt, tokens, temperature) of `rows`, in order."""
        return self._wait(self._whole(rows))

    def stream(self, row, cancelled):
        """Yields the answer to one row in pieces, until it ends or `cancelled()` says so."""
        pieces = queue.SimpleQueue()
        running = asyncio.run_coroutine_threadsafe(self._pieces(row, pieces), self.loop)
        try:
            while not cancelled():
                try:
                    piece = pieces.get(timeout=PATIENCE_SECONDS)
                except queue.Empty:
                    continue
                if piece is None:
                    running.result()
                    return
                if piece:
                    yield piece
        finally:
            # The engine forgets a request whose task is cancelled.
            running.cancel()

    def close(self):
        """Ends the engine and its processes."""
        self._wait(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def _end(self):
        # In the loop, which notices when the engine ends.
        engine, self.engine = self.engine, None
        engine.shutdown()

    async def _whole(self, rows):
        return await asyncio.gather(*(self._text(row) for row in rows))

    async def _text(self, row):
        return "".join([each async for each in self._answers(row)])

    async def _pieces(self, row, pieces):
        try:
            async for piece in self._answers(row):
                pieces.put(piece)
        finally:
            pieces.put(None)

    async def _answers(self, row):
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        prompt, tokens, temperature = row
        sampling = SamplingParams(max_tokens=tokens, temperature=temperature, output_kind=RequestOutputKind.DELTA)
        async for made in self.engine.generate(prompt, sampling, str(next(self.numbers))):
            yield made.outputs[0].text


async def _engine(arguments):
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
