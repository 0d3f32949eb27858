"""Code for models of named tensors: what a user declares in the stack file is what the code sends,
in each language.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inferplan.client.target import Target, target
from inferplan.commands.main import run
from inferplan.commands.snippet.snippet import languages, snippet
from inferplan.components.handles import SecretRef
from inferplan.components.serving.pytriton.service import endpoint as pytriton_endpoint
from inferplan.components.serving.pytriton.spec import PyTritonSpec
from inferplan.components.serving.triton.service import endpoint as triton_endpoint
from inferplan.errors import RequestError
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE
from inferplan.workspace.contract import Contract
from tests.unit.serving.test_triton import triton

NODE, CXX = shutil.which("node") or "", shutil.which("g++") or ""
KEY = SecretRef(name="key", key="api-key")


def tensor(kind: str, *dims: int, **more: Any) -> dict[str, Any]:
    return {"dataType": f"TYPE_{kind}", "dims": list(dims), **more}


def python_model(
    inputs: dict[str, Any], outputs: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "kind": "python",
        "code": "pass",
        "input": inputs,
        "output": outputs or {"scores": tensor("FP32", 10)},
        **more,
    }


IMAGE = python_model(
    {
        "image": tensor("FP32", 3, -1, 32),
        "flag": tensor("BOOL", 1),
        "name": tensor("STRING", 2),
        "top": tensor("INT64", 1, optional=True),
    },
    maxBatchSize=8,
)


def way(spec: Any, **options: Any) -> Target:
    exported = (
        pytriton_endpoint("vision", spec, KEY)
        if isinstance(spec, PyTritonSpec)
        else triton_endpoint("vision", spec, KEY)
    )
    contract = Contract(
        namespace="inference",
        gateway="https://llm.acme.example",
        grpc="llm.acme.example:443",
        endpoints={"vision": exported},
    )
    none: dict[str, Any] = {"protocol": None, "gateway": None, "path": None, "stack": "prod"}
    return target(contract, "vision", **{**none, **options}, declared=spec.tensors)


def sent(code: str) -> dict[str, Any]:
    """The body that the curl command of `code` sends."""
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", f"curl() {{ cat; }}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_curl_sends_a_typed_sample_of_each_required_input():
    aim = way(triton({"resnet": IMAGE}))
    code = snippet(aim, "curl", 'it\'s a "test" $HOME `id` \\n', max_tokens=5)
    assert "https://llm.acme.example/vision/v2/models/resnet/infer" in code
    inputs = {each["name"]: each for each in sent(code)["inputs"]}
    assert set(inputs) == {"image", "flag", "name"}
    assert (inputs["image"]["datatype"], inputs["image"]["shape"], inputs["image"]["data"]) == (
        "FP32",
        [1, 3, 1, 32],
        [0.5] * 96,
    )
    assert (inputs["flag"]["datatype"], inputs["flag"]["shape"], inputs["flag"]["data"]) == (
        "BOOL",
        [1, 1],
        [True],
    )
    assert (inputs["name"]["datatype"], inputs["name"]["data"]) == (
        "BYTES",
        ['it\'s a "test" $HOME `id` \\n'] * 2,
    )
    assert "# Inputs that you may add: top (INT64 [1, 1])" in code


def test_a_model_that_does_not_batch_gets_its_dims_alone_and_one_that_requires_nothing_gets_everything():
    [only] = sent(
        snippet(
            way(triton({"m": python_model({"x": tensor("INT8", 2, optional=True)})})),
            "curl",
            "hi",
            max_tokens=5,
        )
    )["inputs"]
    assert (only["shape"], only["datatype"], only["data"]) == ([2], "INT8", [1, 1])


def test_the_model_option_selects_one_of_several_served_models():
    spec = triton({"resnet": IMAGE, "other": python_model({"x": tensor("UINT16", 4)})})
    assert "other/infer" in snippet(way(spec, served="other"), "curl", "hi", max_tokens=5)
    with pytest.raises(RequestError, match=r"Unknown served model 'othr'\. Did you mean 'other'"):
        way(spec, served="othr")


def test_16_bit_floats_have_code_only_where_the_body_is_binary():
    aim = way(triton({"half": python_model({"x": tensor("FP16", 4), "y": tensor("BF16", 2)})}))
    assert languages(aim) == ["python", "cpp"]
    with pytest.raises(
        RequestError,
        match=r"no 16-bit floats: x \(FP16\), y \(BF16\). Use --language python or cpp",
    ):
        snippet(aim, "curl", "hi", max_tokens=5)


def test_a_decoupled_model_is_called_by_a_stream():
    spec = triton({"many": python_model({"x": tensor("INT32", 4)}, decoupled=True)})
    assert (way(spec).kind, languages(way(spec))) == ("kserve-v2-grpc", ["python"])
    assert "start_stream" in snippet(way(spec), "python", "hi", max_tokens=5)
    with pytest.raises(RequestError, match="Use --protocol kserve-v2-grpc"):
        way(spec, protocol="kserve-v2-http")


SCRIPT = {
    "engine": "pytriton",
    "modelName": "linear",
    "script": "serve()",
    "pool": "gaudi",
    "consumers": ["chat"],
}


def test_a_pytriton_script_of_the_user_has_code_once_its_tensors_are_declared():
    declared = {"input": {"x": tensor("FP64", 3)}, "output": {"y": tensor("FP64", 1)}}
    [given] = sent(
        snippet(
            way(PyTritonSpec.model_validate({**SCRIPT, **declared})), "curl", "hi", max_tokens=5
        )
    )["inputs"]
    assert given == {"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [0.5] * 3}
    with pytest.raises(RequestError, match="add input and output to models"):
        way(PyTritonSpec.model_validate(SCRIPT))
    with pytest.raises(ValueError, match="Remove them, or add script"):
        PyTritonSpec.model_validate(
            {
                **SCRIPT,
                **declared,
                "script": None,
                "library": "vllm",
                "weights": {"store": "shared", "path": "llm"},
            }
        )
    with pytest.raises(ValueError, match="output is missing"):
        PyTritonSpec.model_validate({**SCRIPT, "input": declared["input"]})


ALL = {
    kind.lower(): tensor(kind, 2)
    for kind in ("BOOL", "UINT8", "INT16", "UINT32", "INT64", "FP32", "FP64", "STRING")
}


@pytest.mark.skipif(not NODE, reason="no node on PATH")
def test_javascript_of_every_type_parses(tmp_path):
    code = tmp_path / "call.mjs"
    code.write_text(
        snippet(
            way(triton({"all": python_model(ALL)})),
            "javascript",
            "a \"'\u00e9\u2028\n</script>",
            max_tokens=5,
        )
    )
    done = subprocess.run([NODE, "--check", str(code)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The part of http_client.h and common.h (triton-inference-server/client) that the code uses.
HEADER = """
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace triton { namespace client {
typedef std::map<std::string, std::string> Headers;
typedef std::map<std::string, std::string> Parameters;
class Error { public: const std::string& Message() const; bool IsOk() const; };
class InferOptions { public: explicit InferOptions(const std::string& model_name); };
class InferRequestedOutput;
class InferInput {
 public:
  static Error Create(InferInput**, const std::string& name, const std::vector<int64_t>& dims, const std::string& datatype);
  Error AppendRaw(const uint8_t* input, size_t input_byte_size);
  Error AppendFromString(const std::vector<std::string>& input);
};
class InferResult {
 public:
  virtual ~InferResult() = default;
  virtual Error RawData(const std::string& name, const uint8_t** buf, size_t* byte_size) const = 0;
  virtual Error StringData(const std::string& name, std::vector<std::string>* values) const = 0;
  virtual Error RequestStatus() const = 0;
};
struct HttpSslOptions {};
class InferenceServerHttpClient {
 public:
  static Error Create(
      std::unique_ptr<InferenceServerHttpClient>*, const std::string& server_url, bool verbose = false, const HttpSslOptions& = HttpSslOptions());
  Error Infer(
      InferResult**, const InferOptions&, const std::vector<InferInput*>&,
      const std::vector<const InferRequestedOutput*>& outputs = std::vector<const InferRequestedOutput*>(), const Headers& = Headers(),
      const Parameters& = Parameters());
};
}}
"""


@pytest.mark.full
@pytest.mark.skipif(not CXX, reason="no g++ on PATH")
def test_cpp_of_every_type_compiles_against_the_client(tmp_path):
    everything = python_model(
        {**ALL, "half": tensor("FP16", 2), "brain": tensor("BF16", 2)},
        {f"o{name}": each for name, each in ALL.items()},
    )
    (tmp_path / "http_client.h").write_text(HEADER)
    (tmp_path / "call.cc").write_text(
        snippet(way(triton({"all": everything})), "cpp", 'a "\\\u00e9\n?', max_tokens=5)
    )
    command = [
        CXX,
        "-std=c++17",
        "-Wall",
        "-Werror",
        "-fsyntax-only",
        "-I",
        str(tmp_path),
        str(tmp_path / "call.cc"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("language", ["curl", "python", "javascript"])
def test_an_application_whose_body_is_not_declared_gets_an_empty_one_and_the_code_says_so(
    language, capsys, monkeypatch
):
    root = Path(__file__).resolve().parents[3]
    monkeypatch.chdir(root)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
    with pytest.raises(SystemExit) as end:
        run(
            [
                "snippet",
                "rag",
                "--prompt",
                "a question of mine",
                "--stack",
                "docs/stories/Pulumi.rag.yaml",
                "--language",
                language,
            ]
        )
    assert not end.value.code
    code = capsys.readouterr().out
    assert (
        "The application defines its input, and the stack file does not declare it: put it into the"
        " empty body." in code
    )
    assert "/serve/answers" in code
    assert "a question of mine" not in code
    assert all(word not in code for word in ("messages", "prompt", "max_tokens", "text_input"))
    assert {"curl": "-d '{}'", "python": "body = {}", "javascript": "JSON.stringify({})"}[
        language
    ] in code
