"""The steps of a TensorRT-LLM ensemble called one after another, so that a streamed answer is decoded as a whole and never in halves.

A token may be less than a character, and a word's first piece decides whether a space stands before it: each piece sent here is what
the text of all tokens so far adds to the text of those before.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import triton_python_backend_utils as pb_utils

TOKENIZE = {
    "text_input": "QUERY",
    "max_tokens": "REQUEST_OUTPUT_LEN",
    "bad_words": "BAD_WORDS_DICT",
    "stop_words": "STOP_WORDS_DICT",
    "end_id": "END_ID",
    "pad_id": "PAD_ID",
}
TOKENIZED = {
    "INPUT_ID": "input_ids",
    "REQUEST_INPUT_LEN": "input_lengths",
    "OUTPUT_LEN": "request_output_len",
    "OUT_END_ID": "end_id",
    "OUT_PAD_ID": "pad_id",
    "BAD_WORDS_IDS": "bad_words_list",
    "STOP_WORDS_IDS": "stop_words_list",
}
SAMPLING = {
    "temperature": "temperature",
    "top_k": "runtime_top_k",
    "top_p": "runtime_top_p",
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "stream": "streaming",
}
HALF = "�"


class TritonPythonModel:
    """Calls the other models of its repository; it holds no tokenizer and no engine."""

    def initialize(self, args):
        """Remembers whether the engine's model answers in pieces."""
        config = json.loads(args["model_config"])
        self.streams = config.get("model_transaction_policy", {}).get("decoupled", False)
        self.engine = config["parameters"]["tensorrt_llm_model_name"]["string_value"]
        self.workers = ThreadPoolExecutor(max_workers=max(1, config["max_batch_size"]))

    def execute(self, requests):
        """Answers `requests`, each in a thread of its own."""
        if not self.streams:
            return list(self.workers.map(self._whole, requests))
        for request in requests:
            self.workers.submit(self._streamed, request, request.get_response_sender())
        return None

    def finalize(self):
        """Waits for running requests."""
        self.workers.shutdown(wait=True)

    def _whole(self, request):
        try:
            return _response(["", *self._texts(request)][-1])
        except Exception as fault:  # noqa: BLE001 - whatever a step raises is the answer, and the instance stays
            return _refusal(fault)

    def _streamed(self, request, sender):
        try:
            sent = ""
            for text in self._texts(request):
                # The end of the text may be half a character, which the next token completes.
                whole = text.rstrip(HALF)
                if whole[len(sent) :]:
                    sender.send(_response(whole[len(sent) :]))
                    sent = whole
        except Exception as fault:  # noqa: BLE001 - as above
            # In one: after an error that is not the last answer, Triton 2.51 never counts an ensemble's request as done, nor ends.
            sender.send(_refusal(fault), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        else:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _texts(self, request):
        """The text of all tokens so far, after each answer of the engine."""
        given = {tensor.name(): tensor for tensor in request.inputs()}
        if given["text_input"].as_numpy().size != 1:
            raise ValueError("text_input holds more than one prompt; send one in a request, or call ensemble")
        tokenized = _call("preprocessing", _renamed(request, TOKENIZE), list(TOKENIZED))
        inputs = [_as(tokenized[name], called) for name, called in TOKENIZED.items()] + _renamed(request, SAMPLING)
        asked = pb_utils.InferenceRequest(model_name=self.engine, inputs=inputs, requested_output_names=["output_ids", "sequence_length"])
        made = []
        for answer in asked.exec(decoupled=True) if self.streams else [asked.exec()]:
            if answer.has_error():
                raise RuntimeError(answer.error().message())
            if not answer.output_tensors():
                continue
            if request.is_cancelled():
                return
            given = {tensor.name(): tensor.as_numpy() for tensor in answer.output_tensors()}
            made += given["output_ids"].reshape(-1)[: int(given["sequence_length"].reshape(-1)[0])].tolist()
            tokens = [
                pb_utils.Tensor("TOKENS_BATCH", np.array(made, dtype=np.int32).reshape(1, 1, -1)),
                pb_utils.Tensor("SEQUENCE_LENGTH", np.array([[len(made)]], dtype=np.int32)),
            ]
            yield _call("postprocessing", tokens, ["OUTPUT"])["OUTPUT"].as_numpy().reshape(-1)[0].decode("utf-8", "replace")


def _call(model, inputs, outputs):
    answer = pb_utils.InferenceRequest(model_name=model, inputs=inputs, requested_output_names=outputs).exec()
    if answer.has_error():
        raise RuntimeError(answer.error().message())
    return {tensor.name(): tensor for tensor in answer.output_tensors()}


def _renamed(request, names):
    given = {tensor.name(): tensor for tensor in request.inputs()}
    return [_as(given[name], called) for name, called in names.items() if name in given]


def _as(tensor, name):
    return pb_utils.Tensor(name, tensor.as_numpy())


def _response(text):
    return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("text_output", np.array([[text.encode("utf-8")]], dtype=np.object_))])


def _refusal(fault):
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(fault) or type(fault).__name__))
