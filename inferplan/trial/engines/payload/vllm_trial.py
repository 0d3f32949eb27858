"""Runs in the interpreter of vLLM's CPU build, or in an image of vLLM: has vLLM judge all arguments of
a server, then starts the server with those that a CPU can take. An image for accelerators that are
not here judges the arguments and a chat prompt.

    python vllm_trial.py '{"judged": [...], "served": [...]}'
"""

import importlib
import json
import runpy
import sys
from typing import Any

# Prefixes of the lines that report vLLM's release, a rejection, acceptance, and the problem with a
# chat prompt if no server can start.
RELEASE, REJECTED, ACCEPTED = "trial: release ", "trial: rejected ", "trial: accepted"
CHAT = "trial: chat "


def can_start() -> bool:
    """False for an image without its accelerators. vLLM's classes then use its CPU platform:
    vLLM makes no configuration for an unknown device.
    """
    from vllm import platforms

    if platforms.current_platform.device_type:
        return True
    from vllm.platforms.cpu import CpuPlatform

    platforms._current_platform = CpuPlatform()  # noqa: SLF001 - vLLM has no option for it
    return False


def judge(arguments: list[str]) -> Any:
    """Read `arguments` as `vllm serve` does, and make the configuration of its engine."""
    import vllm
    from vllm.engine.arg_utils import AsyncEngineArgs

    # The modules with these names differ by release; this one has imported them since 0.9.
    from vllm.entrypoints.cli import serve

    print(RELEASE + vllm.__version__, flush=True)
    parser = serve.make_arg_parser(serve.FlexibleArgumentParser(prog="vllm serve"))
    parsed = parser.parse_args(arguments)
    parsed.model = parsed.model_tag
    serve.validate_parsed_serve_args(parsed)
    AsyncEngineArgs.from_cli_args(parsed).create_engine_config()
    return parsed


def check_parsers(parsed: Any) -> None:
    """Check the names of parsers, as the server does when it starts."""
    for name in ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.openai.api_server"):
        try:
            check = importlib.import_module(name).validate_api_server_args
        except (ImportError, AttributeError):
            continue
        check(parsed)
        return


def chat_problem(parsed: Any) -> str:
    """The problem with the prompt of a chat, "" if there is none."""
    from transformers import AutoTokenizer

    try:
        template = parsed.chat_template
        tokenizer = AutoTokenizer.from_pretrained(
            parsed.tokenizer or parsed.model, trust_remote_code=parsed.trust_remote_code
        )
        if parsed.runner != "pooling":
            messages = [{"role": "user", "content": "What is the answer?"}]
            tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True)
    except Exception as error:  # noqa: BLE001 - templates and tokenizers raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    plan = json.loads(sys.argv[1])
    try:
        starts = can_start()
        parsed = judge(plan["judged"])
        if not starts:
            check_parsers(parsed)
    except Exception as error:  # noqa: BLE001 - whatever vLLM raises ends its server
        print(REJECTED + json.dumps(f"{type(error).__name__}: {error}"), flush=True)
        sys.exit(1)
    if not starts:
        print(CHAT + json.dumps(chat_problem(parsed)), flush=True)
    print(ACCEPTED, flush=True)
    if not starts:
        return
    sys.argv = ["vllm", "serve", *plan["served"]]
    runpy.run_module("vllm.entrypoints.cli.main", run_name="__main__")


if __name__ == "__main__":
    main()
