"""What the image of the plan can judge on a computer without its accelerators, and what an image that
lacks something means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.errors import RequestError
from inferplan.trial.container import Container
from inferplan.trial.engines import ray_serve, tensorrt_llm, vllm
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding
from tests.unit.serving.models import container_of, declared
from tests.unit.serving.models import vllm as vllm_model
from tests.unit.serving.test_ray_serve import ray
from tests.unit.trial.docker import Docker, installed

IMAGE = "docker.io/acme/engine:1"

# The names that vLLM 0.33 has where the trial looks for them, and its error without a device.
VLLM = {
    "vllm/__init__.py": "__version__ = '0.33.0'",
    "vllm/platforms/__init__.py": (
        "class Unspecified:\n    device_type = ''\n"
        "_current_platform = Unspecified()\n"
        "def __getattr__(name):\n"
        "    if name == 'current_platform': return _current_platform\n"
        "    raise AttributeError(name)\n"
    ),
    "vllm/platforms/cpu.py": "class CpuPlatform:\n    device_type = 'cpu'\n",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": (
        "from vllm.platforms import current_platform\n"
        "class AsyncEngineArgs:\n"
        "    @classmethod\n"
        "    def from_cli_args(cls, parsed):\n"
        "        made = cls(); made.parsed = parsed; return made\n"
        "    def create_engine_config(self):\n"
        "        if not current_platform.device_type:\n"
        "            raise RuntimeError('Failed to infer device type')\n"
        "        if self.parsed.max_model_len > 8192:\n"
        "            raise ValueError('max_model_len (9000) is greater than the derived 8192')\n"
    ),
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/cli/__init__.py": "",
    "vllm/entrypoints/cli/serve.py": (
        "from argparse import ArgumentParser as FlexibleArgumentParser\n"
        "def make_arg_parser(parser):\n"
        "    parser.add_argument('model_tag')\n"
        "    parser.add_argument('--max-model-len', type=int, default=0)\n"
        "    for name in ('chat-template', 'tokenizer', 'tool-call-parser'):\n"
        "        parser.add_argument('--' + name)\n"
        "    parser.set_defaults(trust_remote_code=False, runner='auto')\n"
        "    known = parser.parse_known_args\n"
        "    parser.parse_args = lambda words: known(words)[0]\n"
        "    return parser\n"
        "def validate_parsed_serve_args(parsed): pass\n"
    ),
    "vllm/entrypoints/common/__init__.py": "",
    "vllm/entrypoints/common/cli_args.py": (
        "def validate_api_server_args(parsed):\n"
        "    if parsed.tool_call_parser not in (None, 'hermes'):\n"
        "        raise KeyError('invalid tool call parser: ' + parsed.tool_call_parser)\n"
    ),
    "transformers.py": (
        "import json, pathlib\n"
        "class AutoTokenizer:\n"
        "    @classmethod\n"
        "    def from_pretrained(cls, path, trust_remote_code):\n"
        "        made = cls()\n"
        "        made.path = pathlib.Path(path) / 'tokenizer_config.json'\n"
        "        return made\n"
        "    def apply_chat_template(self, messages, chat_template, tokenize):\n"
        "        if 'chat_template' not in json.loads(self.path.read_text()):\n"
        "            raise ValueError('tokenizer.chat_template is not set')\n"
    ),
}

TENSORRT_LLM = {
    "torch.py": "class cuda: pass",
    "tensorrt_llm/__init__.py": "__version__ = '1.2.0'",
    "tensorrt_llm/commands/__init__.py": "",
    "tensorrt_llm/commands/serve.py": (
        "import json, torch\n"
        "def launch_server(*_): raise SystemExit('a server starts')\n"
        "def main(words, prog_name, standalone_mode):\n"
        "    if torch.cuda.device_count() == 0: raise ValueError('No GPU devices found')\n"
        "    verb, model, *options = words\n"
        "    path = next(e for e in options if 'llm_api_options' in e).partition('=')[2]\n"
        "    path = path or options[options.index('--extra_llm_api_options') + 1]\n"
        "    with open(path) as file:\n"
        "        launch_server('h', 1, {'build_config': 1, 'model': model, **json.load(file)})\n"
    ),
    "tensorrt_llm/llmapi/__init__.py": "",
    "tensorrt_llm/llmapi/llm_args.py": (
        "class TorchLlmArgs:\n"
        "    @classmethod\n"
        "    def from_kwargs(cls, model, return_perf_metrics, enable_attention_dp=False, **more):\n"
        "        if more: raise ValueError(f'got invalid argument: {next(iter(more))}')\n"
    ),
}


@pytest.fixture
def docker(tmp_path, monkeypatch):
    return installed(tmp_path / "docker", monkeypatch)


@pytest.fixture
def weights(tmp_path):
    directory = tmp_path / "weights"
    directory.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 64,
        "max_position_embeddings": 8192,
    }
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    return directory


def subject(weights: Path, spec: Any, **more: Any) -> Subject:
    return Subject(
        name="chat",
        spec=spec,
        container=more.pop("container", None) or container_of(spec),
        weights=weights,
        place=Container(engine="docker", image=IMAGE, reads=(weights,)),
        **more,
    )


def by_vllm(docker: Docker, weights: Path, **fields: Any) -> list[Finding]:
    docker.image(IMAGE, VLLM)
    spec = vllm_model(image="docker.io/vllm/vllm-openai:v0.33.0", **fields)
    return list(vllm.run(subject(weights, spec), lambda _: None))


def test_an_image_without_its_accelerators_judges_arguments_and_the_prompt(docker, weights):
    findings = by_vllm(docker, weights, maxModelLen=8192)
    assert [(each.step, each.state) for each in findings] == [
        ("arguments", "works"),
        ("a chat prompt", "works"),
        ("start", "not judged"),
    ]
    # The pinned release itself has judged.
    assert findings[0].sentence == ""
    assert docker.containers == []


def test_the_classes_of_the_image_reject_a_value(docker, weights):
    (finding,) = by_vllm(docker, weights, maxModelLen=9000)
    assert (finding.step, finding.state) == ("arguments", "rejected")
    assert finding.path == ("models", "chat", "maxModelLen")
    assert "greater than the derived 8192" in finding.sentence


def test_a_parser_that_the_server_would_miss_is_rejected(docker, weights):
    (finding,) = by_vllm(docker, weights, extraArgs=["--tool-call-parser", "llama9"])
    assert (finding.step, finding.state) == ("arguments", "rejected")
    assert finding.path == ("models", "chat", "extraArgs", 0)


def test_a_missing_chat_template_is_rejected(docker, weights):
    (weights / "tokenizer_config.json").write_text("{}")
    findings = by_vllm(docker, weights, maxModelLen=8192)
    assert [(each.step, each.state) for each in findings][1] == ("a chat prompt", "rejected")


def test_an_image_without_the_engine_is_no_verdict(docker, weights):
    docker.image(IMAGE, {})
    with pytest.raises(RequestError) as raised:
        list(vllm.run(subject(weights, vllm_model()), lambda _: None))
    assert f"{IMAGE} has no vLLM for its python3. Name an image with vLLM" in str(raised.value)


def test_a_package_that_the_image_lacks_is_rejected(weights):
    app = {"kind": "custom", "importPath": "app:echo"}
    spec = ray(image=IMAGE, applications={"echo": app})
    line = {"application": "echo", "deployment": "", "step": "import", "missing": "torch"}
    sentence = "ModuleNotFoundError: No module named 'torch'"
    finding = ray_serve._finding(
        subject(weights, spec, container={"env": []}), {**line, "sentence": sentence}
    )
    assert finding.state == "rejected"


def by_tensorrt_llm(docker: Docker, weights: Path, **fields: Any) -> list[Finding]:
    docker.image(IMAGE, fields.pop("packages", TENSORRT_LLM))
    spec = TensorrtLlmSpec.model_validate(
        {
            "engine": "tensorrt-llm",
            "pool": "p",
            "weights": {"store": "weights", "path": "chat"},
            **fields,
        }
    )
    objects = {each.type: each.inputs for each in declared(spec)}
    return list(tensorrt_llm.run(subject(weights, spec, objects=objects), lambda _: None))


def test_the_argument_classes_of_tensorrt_llm_take_the_settings_of_the_plan(docker, weights):
    findings = by_tensorrt_llm(docker, weights, llmArgs={"enable_attention_dp": True})
    assert [(each.step, each.state) for each in findings] == [("arguments", "works")]


def test_an_argument_that_tensorrt_llm_lacks_is_at_its_line(docker, weights):
    (finding,) = by_tensorrt_llm(docker, weights, llmArgs={"enable_attention_dq": True})
    assert finding.state == "rejected"
    assert finding.sentence == "ValueError: got invalid argument: enable_attention_dq"
    assert finding.path == ("models", "chat", "llmArgs", "enable_attention_dq")


def test_a_package_that_needs_the_driver_is_not_judged(docker, weights):
    said = "libcuda.so.1: cannot open shared object file: No such file or directory"
    packages = {**TENSORRT_LLM, "tensorrt_llm/__init__.py": f"raise ImportError({said!r})"}
    (finding,) = by_tensorrt_llm(docker, weights, packages=packages)
    assert (finding.state, finding.sentence) == ("not judged", f"ImportError: {said}")


def test_engines_are_not_tried(docker, weights):
    with pytest.raises(RequestError, match="which only accelerators can build and load"):
        by_tensorrt_llm(docker, weights, build={"modelFamily": "llama"}, preheat={"into": "shared"})
