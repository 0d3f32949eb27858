"""Calls a Triton server over gRPC, in the environment of the server's own client: `python
grpc_client.py URL CALLS [METADATA...]`.

CALLS is JSON, a list of [model, {input: [type, values]}, streamed]; for each, the list of
text_output of every answer is printed. METADATA is JSON, what goes with every call; with several,
all calls are made with each.
"""

import contextlib
import json
import queue
import sys

import numpy as np
import tritonclient.grpc as triton

TYPES = {"BYTES": np.object_, "INT32": np.int32, "FP32": np.float32, "BOOL": np.bool_}


def main(url, calls, *metadata):
    """Prints a JSON list: for each call the outputs of each answer, or the error."""
    answers = []
    for each in metadata or [None]:
        with triton.InferenceServerClient(url) as client:
            answers += [
                (_stream if streamed else _infer)(client, model, inputs, each)
                for model, inputs, streamed in calls
            ]
    print(json.dumps(answers))


def _inputs(given):
    made = []
    for name, (kind, values) in given.items():
        plain = [value.encode() for value in values] if kind == "BYTES" else values
        array = np.array(plain, dtype=TYPES[kind]).reshape(-1, 1)
        tensor = triton.InferInput(name, list(array.shape), kind)
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def _texts(result):
    name = result.get_response().outputs[0].name
    return [
        each.decode() if isinstance(each, bytes) else each.item()
        for each in result.as_numpy(name).reshape(-1)
    ]


def _infer(client, model, inputs, metadata):
    try:
        return [_texts(client.infer(model, _inputs(inputs), headers=metadata))]
    except triton.InferenceServerException as fault:
        return fault.message()


def _stream(client, model, inputs, metadata):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers=metadata)
    # A stream that was refused at once takes no request any more; the answers say why.
    with contextlib.suppress(triton.InferenceServerException):
        client.async_stream_infer(model, _inputs(inputs), enable_empty_final_response=True)
    texts = []
    while True:
        result, error = answers.get(timeout=240)
        if error is not None:
            texts = error.message()
            break
        if result.get_response().outputs:
            texts.append(_texts(result))
        if result.get_response().parameters["triton_final_response"].bool_param:
            break
    client.stop_stream()
    return texts


if __name__ == "__main__":
    main(sys.argv[1], *map(json.loads, sys.argv[2:]))
