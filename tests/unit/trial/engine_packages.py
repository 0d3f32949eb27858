"""Modules of engines for images of the stub of docker: the names that the trials look for, and the
errors that the engines raise.
"""

from __future__ import annotations

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
        "import json, pathlib\n"
        "from vllm.platforms import current_platform\n"
        "class AsyncEngineArgs:\n"
        "    @classmethod\n"
        "    def from_cli_args(cls, parsed):\n"
        "        made = cls(); made.parsed = parsed; return made\n"
        "    def create_engine_config(self):\n"
        "        if not current_platform.device_type:\n"
        "            raise RuntimeError('Failed to infer device type')\n"
        "        path = pathlib.Path(self.parsed.model) / 'config.json'\n"
        "        limit = json.loads(path.read_text())['max_position_embeddings']\n"
        "        length = self.parsed.max_model_len\n"
        "        if length > limit:\n"
        "            said = f'max_model_len ({length}) is greater than the derived {limit}'\n"
        "            raise ValueError(said)\n"
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
