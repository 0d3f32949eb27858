"""The test stand for TensorRT-LLM: what runs on cards is stood in for, everything around it is what
the component generates.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferplan.components.serving.tensorrt_llm.models import repository_files
from inferplan.components.serving.tensorrt_llm.service import command
from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from tests.dataplane.serving.environment import Environment
from tests.dataplane.serving.triton_stand import (
    GAUDI,
    PATIENT,
    START_SECONDS,
    Binary,
    Triton,
    write,
)
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

# One token a byte, so that a character may come in halves; the last token ends an answer.
TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(sys.argv[1])
"""

# In the place of the backend tensorrtllm, under the configuration that names it: says the prompt
# again, up to a stop word, a token an answer if asked to.
ECHO = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = config["model_transaction_policy"]["decoupled"]
        self.engines = config["parameters"]["gpt_model_path"]["string_value"]
        with open(os.path.join(self.engines, "rank" + os.environ.get("OMPI_COMM_WORLD_RANK", "-alone")), "w") as file:
            file.write(str(os.getpid()))
    def execute(self, requests):
        answers = [self.answer(request) for request in requests]
        return answers if any(answers) else None
    def answer(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        if given.get("temperature", np.zeros(1)).reshape(-1)[0] == 42:
            open(os.path.join(self.engines, "waiting"), "w").close()
            while not os.path.exists(os.path.join(self.engines, "go")):
                time.sleep(0.01)
        if given.get("temperature", np.zeros(1)).reshape(-1)[0] == 99:
            return self.send(request, [pb_utils.InferenceResponse(error=pb_utils.TritonError("too hot"))])
        length, most = int(given["input_lengths"].reshape(-1)[0]), int(given["request_output_len"].reshape(-1)[0])
        tokens = given["input_ids"].reshape(-1)[:length].tolist()[:most]
        words, ends = given["stop_words_list"].reshape(2, -1).tolist()
        starts = [0, *ends]
        stops = [words[start:end] for start, end in zip(starts, ends) if end > 0]
        for count in range(1, len(tokens) + 1):
            if any(tokens[:count][-len(stop):] == stop for stop in stops):
                tokens = tokens[:count]
                break
        pieces = [[token] for token in tokens] if bool(given.get("streaming", np.zeros(1)).reshape(-1)[0]) else [tokens]
        return self.send(request, [self.response(piece) for piece in pieces])
    def response(self, tokens):
        ids = np.array(tokens + [0, 0], dtype=np.int32).reshape(1, 1, -1)
        return pb_utils.InferenceResponse([pb_utils.Tensor("output_ids", ids),
            pb_utils.Tensor("sequence_length", np.array([[len(tokens)]], dtype=np.int32))])
    def send(self, request, answers):
        if not self.decoupled:
            return answers[0]
        sender = request.get_response_sender()
        for answer in answers[:-1]:
            sender.send(answer)
        sender.send(answers[-1], flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def spec_of(**fields: Any) -> TensorrtLlmSpec:
    """A TensorRT-LLM service on ports that are free now."""
    ports = {"http": free_port(), "grpc": free_port(), "metrics": free_port()}
    base = {
        "engine": "tensorrt-llm",
        "weights": {"store": "shared", "path": "llm"},
        "pool": "cards",
        "ports": ports,
        "drainSeconds": 60,
    }
    return TensorrtLlmSpec.model_validate({**base, "preheat": {"into": "shared"}, **fields})


def tokenizer(environment: Environment, directory: Path) -> None:
    """Saves a tokenizer of single bytes in `directory`, as a model's own directory holds one, and
    makes room for engines beside it.
    """
    (directory / "engines").mkdir()
    subprocess.run(
        [str(environment.python), "-c", TOKENIZER, str(directory)],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )


def with_backend(server: Binary, name: str, source: str, directory: Path) -> Binary:
    """`server` with one backend more, written in Python, so that configurations that name it are
    loaded as they are.
    """
    shutil.copytree(server.backends, directory)
    write({f"{name}/model.py": source}, directory)
    return replace(server, backends=directory)


def generated(spec: TensorrtLlmSpec, weights: Path) -> dict[str, str]:
    """The repository's files as the component makes them."""
    return repository_files(
        spec, weights=str(weights), engines=str(weights / "engines"), target=GAUDI
    )


@contextmanager
def ranks(
    server: Binary, spec: TensorrtLlmSpec, files: Mapping[str, str], directory: Path, *, key: str
) -> Iterator[Triton]:
    """The container's own command on `files`, with mpirun of the environment; ready, and stopped by
    its process id.
    """
    write({path: text for path, text in files.items() if not path.startswith("launch/")}, directory)
    launcher = directory.parent / "ranks.py"
    launcher.write_text(files["launch/ranks.py"])
    quiet = tuple(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics"))
    options = (
        f"--backend-directory={server.backends}",
        f"--cache-directory={server.home / 'caches'}",
        PATIENT,
        *quiet,
    )
    rights = dict.fromkeys(
        ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT"), "1"
    )
    # Open MPI 5 starts no more ranks than there are cores, and this machine may have one.
    rights |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    path = os.pathsep.join([str(server.home / "bin"), server.variables["PATH"]])
    variables = {**server.variables, **rights, "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PATH": path}
    whole = command(
        spec, key=key, repository=str(directory), launcher=str(launcher), options=options
    )
    log = directory.parent / f"{directory.name}.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            whole,
            env=variables,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    triton = Triton(server, spec, process)
    try:
        _await_ready(triton, log)
        yield triton
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _await_ready(triton: Triton, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert triton.process.poll() is None, log.read_text()
        try:
            if triton.ask("GET", "/v2/health/ready")[0] == 200:
                return
        except ConnectionRefusedError:
            pass
        time.sleep(0.1)
    raise AssertionError(log.read_text())
