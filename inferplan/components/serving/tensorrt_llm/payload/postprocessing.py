"""The last step of a TensorRT-LLM ensemble: token ids of each beam in, text out."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils
from transformers import AutoTokenizer


class TritonPythonModel:
    """One tokenizer, from the directory that the parameter `tokenizer_dir` names; it downloads nothing and runs no code of the model's."""

    def initialize(self, args):
        """Loads the tokenizer. Whatever it raises keeps the model from becoming ready."""
        parameters = json.loads(args["model_config"])["parameters"]
        self.tokenizer = AutoTokenizer.from_pretrained(parameters["tokenizer_dir"]["string_value"], local_files_only=True)

    def execute(self, requests):
        """Answers `requests`, one response each; a fault is the answer of its own request only."""
        responses = []
        for request in requests:
            try:
                texts = self._texts(_given(request, "TOKENS_BATCH"), _given(request, "SEQUENCE_LENGTH"))
                responses.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT", texts)]))
            except Exception as fault:  # noqa: BLE001 - whatever the tokenizer raises is the answer, and the instance stays
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(fault))))
        return responses

    def _texts(self, rows, lengths):
        """The text of each beam of each row; tokens after a beam's length are padding."""
        texts = [
            [
                self.tokenizer.decode(beam[:length], skip_special_tokens=True).encode("utf-8")
                for beam, length in zip(beams, ends, strict=True)
            ]
            for beams, ends in zip(rows, lengths, strict=True)
        ]
        return np.array(texts, dtype=np.object_)


def _given(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()
