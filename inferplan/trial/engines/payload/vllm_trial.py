"""Runs in the interpreter of vLLM's CPU build: has vLLM judge all arguments of a server, then starts
the server with those that a CPU can take.

    python vllm_trial.py '{"judged": [...], "served": [...]}'
"""

import json
import runpy
import sys

# The lines with the release of vLLM, with what it rejects, and that it rejects nothing.
RELEASE, REJECTED, ACCEPTED = "trial: release ", "trial: rejected ", "trial: accepted"


def judge(arguments: list[str]) -> None:
    """Read `arguments` as `vllm serve` does, and make the configuration of its engine."""
    import vllm
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    print(RELEASE + vllm.__version__, flush=True)
    parsed = make_arg_parser(FlexibleArgumentParser(prog="vllm serve")).parse_args(arguments)
    parsed.model = parsed.model_tag
    validate_parsed_serve_args(parsed)
    AsyncEngineArgs.from_cli_args(parsed).create_engine_config()


def main() -> None:
    plan = json.loads(sys.argv[1])
    try:
        judge(plan["judged"])
    except Exception as error:  # noqa: BLE001 - whatever vLLM raises ends its server
        print(REJECTED + json.dumps(f"{type(error).__name__}: {error}"), flush=True)
        sys.exit(1)
    print(ACCEPTED, flush=True)
    sys.argv = ["vllm", "serve", *plan["served"]]
    runpy.run_module("vllm.entrypoints.cli.main", run_name="__main__")


if __name__ == "__main__":
    main()
