"""Runs in an image of TensorRT-LLM: has its server read the arguments and the file of settings, and its
LLM API make its arguments of them. No model is loaded.

    python3 tensorrt_llm_trial.py ACCELERATORS serve MODEL OPTION...
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

# Prefixes of the lines that report the release, a rejection and acceptance.
RELEASE, REJECTED, ACCEPTED = "trial: release ", "trial: rejected ", "trial: accepted"
# The driver that the images carry for older hosts; without one the package cannot be imported.
DRIVERS = "cuda*/compat/**/libcuda.so.1"


def load_driver() -> None:
    for path in Path("/usr/local").glob(DRIVERS):
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return


def main(accelerators: int, arguments: list[str]) -> None:
    load_driver()
    import torch

    # The server counts the devices of its node before it reads its settings.
    torch.cuda.device_count = lambda: accelerators
    import tensorrt_llm
    from tensorrt_llm.commands import serve
    from tensorrt_llm.llmapi.llm_args import TorchLlmArgs

    print(RELEASE + tensorrt_llm.__version__, flush=True)

    def judge(_host: str, _port: int, llm_args: dict[str, Any], *_: Any, **__: Any) -> None:
        llm_args.pop("build_config", None)
        TorchLlmArgs.from_kwargs(**llm_args)
        print(ACCEPTED, flush=True)

    serve.launch_server = judge
    try:
        serve.main(arguments, prog_name="trtllm-serve", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - whatever TensorRT-LLM raises ends its server
        words = getattr(error, "format_message", error.__str__)()
        print(REJECTED + json.dumps(f"{type(error).__name__}: {words}"), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
