"""Generates text with Hugging Face transformers from files on disk; it downloads nothing, and runs reviewed code of the model only."""

import os
import threading

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    StoppingCriteria,
    StoppingCriteriaList,
    TextIteratorStreamer,
)


class Generator:
    """One causal language model on one device (`cpu`, `cuda:<n>` or `hpu`)."""

    def __init__(self, weights, device, parameters):  # noqa: ARG002 - every generator gets the model's parameters
        if device == "hpu":
            import habana_frameworks.torch.core  # noqa: F401 - registers the device with torch
            from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi

            adapt_transformers_to_gaudi()
        trusted = os.environ.get("TRUST_REMOTE_CODE") == "1"
        self.tokenizer = AutoTokenizer.from_pretrained(weights, local_files_only=True, padding_side="left", trust_remote_code=trusted)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.turn = threading.Lock()
        model = AutoModelForCausalLM.from_pretrained(weights, local_files_only=True, torch_dtype="auto", trust_remote_code=trusted)
        self.model = model.to(device).eval()

    def generate(self, rows):
        """The answer to each (prompt, tokens, temperature) of `rows`, in order; rows of one temperature run as one batch."""
        texts = [""] * len(rows)
        for temperature in sorted({row[2] for row in rows}):
            chosen = [index for index, row in enumerate(rows) if row[2] == temperature]
            prompts = self._encoded([rows[index][0] for index in chosen])
            with torch.inference_mode():
                made = self.model.generate(**prompts, **self._sampling(max(rows[index][1] for index in chosen), temperature))
            start = prompts["input_ids"].shape[1]
            for index, tokens in zip(chosen, made, strict=True):
                texts[index] = self.tokenizer.decode(tokens[start : start + rows[index][1]], skip_special_tokens=True)
        return texts

    def stream(self, row, cancelled):
        """Yields the answer to one row in pieces, until it ends or `cancelled()` says so."""
        prompt, tokens, temperature = row
        streamer = TextIteratorStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        stop = StoppingCriteriaList([_Cancelled(cancelled)])
        faults = []

        def run():
            try:
                with torch.inference_mode():
                    self.model.generate(
                        **self._encoded([prompt]), **self._sampling(tokens, temperature), streamer=streamer, stopping_criteria=stop
                    )
            except Exception as fault:  # noqa: BLE001 - raised again below, in the thread that answers
                faults.append(fault)
                streamer.end()

        thread = threading.Thread(target=run)
        thread.start()
        yield from (piece for piece in streamer if piece)
        thread.join()
        if faults:
            raise faults[0]

    def _encoded(self, prompts):
        # A fast tokenizer refuses a second thread while it changes its padding ("Already borrowed").
        with self.turn:
            return self.tokenizer(prompts, return_tensors="pt", padding=True).to(self.model.device)

    def _sampling(self, tokens, temperature):
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        return {"max_new_tokens": tokens, "pad_token_id": self.tokenizer.pad_token_id, **sampling}


class _Cancelled(StoppingCriteria):
    def __init__(self, cancelled):
        self.cancelled = cancelled

    def __call__(self, input_ids, scores, **kwargs):  # noqa: ARG002 - transformers calls it like this
        return torch.full((input_ids.shape[0],), self.cancelled(), dtype=torch.bool, device=input_ids.device)
