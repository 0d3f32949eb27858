"""A Triton python model over TensorRT-LLM's LLM API: a prompt and sampling in, text out, whole or in pieces.

`model.yaml` beside this file holds the arguments of `tensorrt_llm.LLM`. The engine batches requests itself; no request is kept or logged.
"""

import asyncio
import json
import os
import threading
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from tensorrt_llm import LLM, SamplingParams

MOST_TOKENS = 1_000_000
# Input tensors that set a sampling parameter: the names of every text model of this project, then those of NVIDIA's LLM API model.
NUMBERS = {
    "max_tokens": ("max_tokens", int),
    "temperature": ("temperature", float),
    "sampling_param_max_tokens": ("max_tokens", int),
    "sampling_param_temperature": ("temperature", float),
    "sampling_param_top_k": ("top_k", int),
    "sampling_param_top_p": ("top_p", float),
    "sampling_param_seed": ("seed", int),
    "sampling_param_frequency_penalty": ("frequency_penalty", float),
    "sampling_param_presence_penalty": ("presence_penalty", float),
}


class TritonPythonModel:
    """The one engine of this server; its event loop runs in a thread of its own."""

    def initialize(self, args):
        """Starts the engine over all of its cards. Whatever it raises keeps the model from becoming ready."""
        path = os.path.join(args["model_repository"], args["model_version"], "model.yaml")  # noqa: PTH118 - the server's Python, not ours
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as above
            settings = json.load(file)
        self.streams = settings.pop("triton_config")["decoupled"]
        self.default_tokens = int(json.loads(args["model_config"])["parameters"]["max_tokens"]["string_value"])
        self.engine = LLM(**settings)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="engine")
        self.thread.start()

    def execute(self, requests):
        """Hands `requests` to the engine: at once where answers may come in pieces, else until all of them are there."""
        if self.streams:
            for request in requests:
                asyncio.run_coroutine_threadsafe(self._streamed(request, request.get_response_sender()), self.loop)
            return None
        running = [asyncio.run_coroutine_threadsafe(self._whole(request), self.loop) for request in requests]
        return [each.result() for each in running]

    def finalize(self):
        """Stops the loop and the engine; Triton calls it once no request runs any more."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.engine.shutdown()

    async def _whole(self, request):
        try:
            prompt, sampling, _ = self._asked(request)
            return await self._answer(prompt, sampling)
        except Exception as fault:  # noqa: BLE001 - whatever the engine raises is the answer, and the model stays
            return _refusal(fault)

    async def _streamed(self, request, sender):
        try:
            prompt, sampling, stream = self._asked(request)
            if not stream:
                sender.send(await self._answer(prompt, sampling))
            else:
                async for chosen in self._pieces(request, prompt, sampling):
                    sender.send(_response(chosen.text_diff, chosen.finish_reason))
        except Exception as fault:  # noqa: BLE001 - as above
            # In one: after an error that is not the last answer, Triton 2.51 never counts an ensemble's request as done, nor ends.
            sender.send(_refusal(fault), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        else:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def _pieces(self, request, prompt, sampling):
        output = self.engine.generate_async(prompt, sampling_params=sampling, streaming=True)
        async for made in output:
            if request.is_cancelled():
                output.abort()
                return
            if made.outputs[0].text_diff or made.outputs[0].finish_reason:
                yield made.outputs[0]

    async def _answer(self, prompt, sampling):
        text, reason = "", ""
        async for made in self.engine.generate_async(prompt, sampling_params=sampling, streaming=False):
            text, reason = made.outputs[0].text, made.outputs[0].finish_reason
        return _response(text, reason)

    def _asked(self, request):
        prompt = _tensor(request, "text_input").reshape(-1)[0].decode("utf-8", "replace")
        sampling: dict[str, Any] = {"max_tokens": self.default_tokens}
        for name, (parameter, kind) in NUMBERS.items():
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is not None:
                sampling[parameter] = kind(tensor.as_numpy().reshape(-1)[0])
        if not 1 <= sampling["max_tokens"] <= MOST_TOKENS:
            raise ValueError(f"max_tokens is {sampling['max_tokens']}; write 1 to {MOST_TOKENS}")
        if not 0 <= sampling.get("temperature", 0) <= 100:
            raise ValueError(f"temperature is {sampling['temperature']}; write 0 (greedy) to 100")
        stops = pb_utils.get_input_tensor_by_name(request, "sampling_param_stop")
        if stops is not None:
            sampling["stop"] = [each.decode("utf-8", "replace") for each in stops.as_numpy().reshape(-1)]
        return prompt, SamplingParams(**sampling), _flag(request, "stream") or _flag(request, "streaming")


def _tensor(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


def _flag(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return tensor is not None and bool(tensor.as_numpy().reshape(-1)[0])


def _response(text, reason):
    given = {"text_output": text or "", "finish_reason": reason or ""}
    tensors = [pb_utils.Tensor(name, np.array([value.encode("utf-8")], dtype=np.object_)) for name, value in given.items()]
    return pb_utils.InferenceResponse(output_tensors=tensors)


def _refusal(fault):
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(fault) or type(fault).__name__))
