"""Text generation as a Triton python model: `text_input` and sampling in, `text_output` out, whole or in pieces.

What generates is the class Generator of generator.py beside this file, or of the file that the parameter `generator_file`
names. It batches, checks, streams and cancels; it keeps no request and writes none to a log.
"""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

MOST_TOKENS = 1_000_000


class TritonPythonModel:
    """One instance, with a generator of its own."""

    def initialize(self, args):
        """Loads the generator onto this instance's device. Raises TritonModelException when there is none."""
        config = json.loads(args["model_config"])
        parameters = {key: each["string_value"] for key, each in config["parameters"].items()}
        self.default_tokens = int(parameters["max_tokens"])
        self.streams = config.get("model_transaction_policy", {}).get("decoupled", False)
        device = parameters["device"]
        if device == "cuda":
            device = f"cuda:{args['model_instance_device_id']}" if args["model_instance_kind"] == "GPU" else "cpu"
        beside = os.path.join(args["model_repository"], args["model_version"], "generator.py")  # noqa: PTH118 - the server's Python, not ours
        self.generator = _generator(parameters.get("generator_file", beside))(parameters["weights"], device, parameters)
        self.workers = ThreadPoolExecutor(max_workers=max(1, config["max_batch_size"])) if self.streams else None
        self.stopping = threading.Event()

    def execute(self, requests):
        """Answers `requests`: together where the model does not stream, each in its own thread where it does."""
        if self.workers is None:
            return self._together(requests)
        for request in requests:
            self.workers.submit(self._streamed, request, request.get_response_sender())
        return None

    def finalize(self):
        """Ends running streams, waits for them, and ends what the generator started."""
        self.stopping.set()
        if self.workers is not None:
            self.workers.shutdown(wait=True)
        if hasattr(self.generator, "close"):
            self.generator.close()

    def _together(self, requests):
        asked, responses = [], []
        for request in requests:
            try:
                asked.append(self._rows(request))
            except ValueError as fault:
                asked.append(fault)
        rows = [row for each in asked if not isinstance(each, ValueError) for row in each]
        try:
            texts = iter(self.generator.generate(rows) if rows else [])
            for each in asked:
                if isinstance(each, ValueError):
                    responses.append(_refusal(each))
                else:
                    responses.append(_response([next(texts) for _ in each]))
        except Exception as fault:  # noqa: BLE001 - whatever the generator raises is the answer, and the instance stays
            return [_refusal(each if isinstance(each, ValueError) else fault) for each in asked]
        return responses

    def _streamed(self, request, sender):
        try:
            rows = self._rows(request)
            if not _values(request, "stream", 1, False)[0]:
                sender.send(_response(self.generator.generate(rows)))
            elif len(rows) > 1:
                raise ValueError(f"a stream answers one prompt, and the request holds {len(rows)}; send one at a time")
            else:
                for piece in self.generator.stream(rows[0], lambda: self.stopping.is_set() or request.is_cancelled()):
                    sender.send(_response([piece]))
        except Exception as fault:  # noqa: BLE001 - whatever the generator raises is the answer, and the instance stays
            # In one: after an error that is not the last answer, Triton 2.51 never counts an ensemble's request as done, nor ends.
            sender.send(_refusal(fault), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        else:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _rows(self, request):
        prompts = [each.decode("utf-8", "replace") for each in _tensor(request, "text_input").reshape(-1)]
        tokens = [int(each) for each in _values(request, "max_tokens", len(prompts), self.default_tokens)]
        temperatures = [float(each) for each in _values(request, "temperature", len(prompts), 0.0)]
        for count in tokens:
            if not 1 <= count <= MOST_TOKENS:
                raise ValueError(f"max_tokens is {count}; write 1 to {MOST_TOKENS}")
        for temperature in temperatures:
            if not 0 <= temperature <= 100:
                raise ValueError(f"temperature is {temperature}; write 0 (greedy) to 100")
        return list(zip(prompts, tokens, temperatures, strict=True))


def _generator(path):
    scope: dict[str, Any] = {"__name__": "generator", "__file__": path}
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the server's own Python may be older than this project's
            exec(compile(file.read(), path, "exec"), scope)  # noqa: S102 - running the user's generator is what this model is for
    except (OSError, SyntaxError) as fault:
        raise pb_utils.TritonModelException(f"cannot load the generator: {fault}") from fault
    if "Generator" not in scope:
        raise pb_utils.TritonModelException(f"{path} holds no class Generator")
    return scope["Generator"]


def _tensor(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


def _values(request, name, count, default):
    """One value for each of the request's `count` prompts."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [default] * count if tensor is None else tensor.as_numpy().reshape(-1)


def _response(texts):
    values = np.array([each.encode("utf-8") for each in texts], dtype=np.object_).reshape(-1, 1)
    return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("text_output", values)])


def _refusal(fault):
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(fault) or type(fault).__name__))
