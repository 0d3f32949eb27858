"""The program of the benchmark's Job with the real aiperf: two services behind the real gateway,
one table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from inferplan.components.benchmark.benchmark_job import plan_of
from inferplan.components.benchmark.payload import compare
from inferplan.components.benchmark.spec import BenchmarkSpec
from inferplan.components.gateway import keys
from inferplan.components.handles import SecretRef
from inferplan.components.serving.triton.service import endpoint as triton_endpoint
from inferplan.components.serving.triton.service import key_args
from tests.dataplane.gateway.stand import SEED, Proxy, consumer, endpoint, spec
from tests.dataplane.serving.environment import IN_A_TEST_SECONDS, Unavailable, environment
from tests.dataplane.serving.openai_double import OpenAiDouble
from tests.dataplane.serving.test_triton_serves import GENERATOR
from tests.dataplane.serving.triton_models import ECHO, TEXT
from tests.dataplane.serving.triton_stand import generated, running, spec_of
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.full

# A tokenizer of bytes: it needs no download, and every text has as many tokens as bytes.
TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
made = Tokenizer(models.BPE(vocab={each: number for number, each in enumerate(["<end>", *letters])}, merges=[]))
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", bos_token="<end>", pad_token="<end>").save_pretrained(sys.argv[1])
open(sys.argv[1] + "/config.json", "w").write('{"model_type": "gpt2"}')
"""


@pytest.fixture(scope="module")
def aiperf():
    try:
        return environment("full/aiperf", IN_A_TEST_SECONDS)
    except Unavailable as reason:
        pytest.skip(f"the environment full/aiperf cannot be built: {reason}")


@pytest.fixture
def writer(tritonserver, tmp_path):
    """Two text models of a real tritonserver that checks its own key: one answers in pieces, one
    requires `max_tokens` and answers at once.
    """
    pieces = {
        "kind": "textGeneration",
        "maxBatchSize": 8,
        "streaming": True,
        "generator": GENERATOR,
    }
    inputs = {"text_input": TEXT, "max_tokens": {"dataType": "TYPE_UINT32", "dims": [1]}}
    whole = {
        "kind": "python",
        "input": inputs,
        "output": {"text_output": TEXT},
        "code": ECHO.format("text_input", "text_output", "given"),
    }
    spec_ = spec_of({"pieces": pieces, "python": whole}, consumers=["team"])
    files = generated(spec_, tmp_path)
    with running(
        tritonserver,
        spec_,
        files,
        tmp_path / "repository",
        *key_args(keys.server_key(SEED, "writer")),
    ):
        yield replace(
            triton_endpoint("writer", spec_, SecretRef(name="writer-server-key", key="api-key")),
            host="127.0.0.1",
        )


@pytest.mark.timeout(1200)
def test_the_real_tool_measures_services_of_two_engines_and_the_table_has_a_line_for_each(
    aiperf, writer, tmp_path
):
    tokenizer = tmp_path / "tokenizer"
    subprocess.run(
        [str(aiperf.python), "-c", TOKENIZER, str(tokenizer)],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    doubles = [OpenAiDouble(), OpenAiDouble()]
    endpoints = {
        name: endpoint(name, double.port, ("team",))
        for name, double in zip(("one", "two"), doubles, strict=True)
    }
    endpoints["writer"] = writer
    (tmp_path / "gateway").mkdir()
    proxy = Proxy(tmp_path / "gateway").run(
        spec(), list(endpoints.values()), {"team": consumer(keys=[1])}
    )
    written = {
        "models": ["one", "two", "writer/pieces", "writer/python"],
        "consumer": "team",
        "tokenizer": "one",
        "promptTokens": [20],
        "outputTokens": 4,
    }
    plan = plan_of(
        BenchmarkSpec.model_validate(
            {**written, "concurrency": [2], "requests": 6, "waitSeconds": 0}
        ),
        endpoints,
    )
    here = json.dumps({**plan, "tokenizer": str(tokenizer)}).replace(
        "http://gateway", f"http://127.0.0.1:{proxy.port}"
    )
    path = os.pathsep.join([str(aiperf.root / "bin"), os.environ["PATH"]])
    environ = {
        **os.environ,
        "PATH": path,
        "BENCHMARK": here,
        "API_KEY": proxy.key("team"),
        "ARTIFACTS": str(tmp_path / "out"),
    }
    try:
        done = subprocess.run(
            [sys.executable, str(Path(compare.__file__))],
            env=environ,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    finally:
        proxy.stop()
        for double in doubles:
            double.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()[2:6]]
    assert [line[:5] for line in lines] == [
        [name, "20", "2", "6", "0"] for name in ("one", "two", "writer/pieces", "writer/python")
    ]
    # Tokens a second, and the three percentiles of the first token's time: measured for every
    # service.
    assert all(float(figure) > 0 for line in lines for figure in line[5:9])
    # The same prompts went to both.
    prompts = [
        sorted(json.dumps(body["messages"]) for body in double.bodies if body.get("messages"))
        for double in doubles
    ]
    assert prompts[0] == prompts[1]
    assert proxy.key("team") not in done.stdout + done.stderr
