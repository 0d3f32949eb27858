"""Starts vLLM so that it prints one line of JSON for each request that ends: `python3 vllm serve OPTIONS`.

The line has the id that the gateway gave the request, tokens, times and the adapter: no prompt, no answer, no key. vLLM's own request log has
no counts of tokens, and its spans leave out requests whose clients left (vLLM 0.32 and 0.33, OutputProcessor).
"""

import json
import os
import sys
import time

from vllm.v1.engine.output_processor import OutputProcessor

_SERVER = os.environ.get("HOSTNAME", "")


def line_of(state, clock, now):
    """The line of a request that ended at `now`, in seconds since 1970. `clock` is the same moment on the clock of the engine's processes."""
    began, counts = state.stats.scheduled_ts, state.detokenizer
    record = {
        "usage": 1,
        "requestId": state.external_req_id,
        "server": _SERVER,
        "adapter": state.lora_name or "",
        # A prompt counts once the engine has read all of it, which its first token shows.
        "tokensIn": 0 if state.is_prefilling else state.prompt_len,
        "tokensCached": state.num_cached_tokens,
        "tokensOut": 0 if counts is None else counts.num_output_tokens(),
        "start": round(now - (clock - began), 6) if began else now,
        "end": now,
    }
    return json.dumps(record, separators=(",", ":")) + "\n"


class Running(dict):
    """The requests that run, by id. vLLM takes each out once: when it has finished, and when its client has left."""

    def pop(self, *arguments):
        state = super().pop(*arguments)
        if state is not None:
            try:
                # One write, shorter than a pipe's atomic size, so that lines of several processes do not mix.
                os.write(1, line_of(state, time.monotonic(), round(time.time(), 6)).encode())
            except Exception as error:  # noqa: BLE001 - an answer matters more than its line
                print(f"usage: no line for {state.external_req_id}: {type(error).__name__}", file=sys.stderr, flush=True)
        return state


def count(processor):
    """Make every instance of the class `processor` print the requests that end."""
    build = processor.__init__

    def init(self, *arguments, **options):
        build(self, *arguments, **options)
        if type(self.request_states) is not dict:
            raise SystemExit("usage: this vLLM keeps its requests in another way. Remove usageLog from the model.")
        self.request_states = Running()

    processor.__init__ = init


# Each process of vLLM that answers clients reads this file.
count(OutputProcessor)

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
