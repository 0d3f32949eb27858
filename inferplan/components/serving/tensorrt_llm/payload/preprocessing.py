"""The first step of a TensorRT-LLM ensemble: text and limits in, token ids in the layout that the engine reads out."""

import json
from itertools import accumulate

import numpy as np
import triton_python_backend_utils as pb_utils
from transformers import AutoTokenizer

MOST_TOKENS = 1_000_000


class TritonPythonModel:
    """One tokenizer, from the directory that the parameter `tokenizer_dir` names; it downloads nothing and runs no code of the model's."""

    def initialize(self, args):
        """Loads the tokenizer. Whatever it raises keeps the model from becoming ready."""
        parameters = {key: each["string_value"] for key, each in json.loads(args["model_config"])["parameters"].items()}
        self.tokenizer = AutoTokenizer.from_pretrained(parameters["tokenizer_dir"], local_files_only=True, padding_side="left")
        self.default_tokens = int(parameters["max_tokens"])
        self.end = self.tokenizer.eos_token_id
        self.pad = self.end if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id

    def execute(self, requests):
        """Answers `requests`, one response each; a fault is the answer of its own request only."""
        responses = []
        for request in requests:
            try:
                responses.append(self._answer(request))
            except Exception as fault:  # noqa: BLE001 - whatever the tokenizer raises is the answer, and the instance stays
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(fault))))
        return responses

    def _answer(self, request):
        rows = [self.tokenizer.encode(each.decode("utf-8", "replace")) for each in _given(request, "QUERY").reshape(-1)]
        count = len(rows)
        lengths = np.array([len(row) for row in rows], dtype=np.int32)
        ends = _rows(request, "END_ID", count, -1 if self.end is None else self.end)
        pads = _rows(request, "PAD_ID", count, -1 if self.pad is None else self.pad)
        tokens = _rows(request, "REQUEST_OUTPUT_LEN", count, self.default_tokens)
        if tokens.min() < 1 or tokens.max() > MOST_TOKENS:
            raise ValueError(f"max_tokens is {tokens.min()}; write 1 to {MOST_TOKENS}")
        ids = np.full((count, lengths.max()), max(0, int(pads[0, 0])), dtype=np.int32)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
        given = {
            "INPUT_ID": ids,
            "REQUEST_INPUT_LEN": lengths.reshape(-1, 1),
            "OUTPUT_LEN": tokens,
            "OUT_END_ID": ends,
            "OUT_PAD_ID": pads,
            "BAD_WORDS_IDS": self._words(request, "BAD_WORDS_DICT", count),
            "STOP_WORDS_IDS": self._words(request, "STOP_WORDS_DICT", count),
        }
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(name, value) for name, value in given.items()])

    def _words(self, request, name, count):
        """For each row: the ids of all its words in a line, and below it where each word ends; padded with 0 and -1."""
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        lists = [[] for _ in range(count)] if tensor is None else tensor.as_numpy().reshape(count, -1)
        coded = [[self.tokenizer.encode(word.decode("utf-8", "replace"), add_special_tokens=False) for word in words] for words in lists]
        coded = [[word for word in words if word] for words in coded]
        width = max(1, *(sum(map(len, words)) for words in coded))
        made = np.stack([np.zeros((count, width), dtype=np.int32), np.full((count, width), -1, dtype=np.int32)], axis=1)
        for row, words in enumerate(coded):
            line = [token for word in words for token in word]
            made[row, 0, : len(line)] = line
            made[row, 1, : len(words)] = list(accumulate(map(len, words)))
        return made


def _given(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


def _rows(request, name, count, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        return np.full((count, 1), default, dtype=np.int32)
    return tensor.as_numpy().astype(np.int32).reshape(count, 1)
