"""Runs in an interpreter with SGLang: has its parser judge the arguments of a server. No server
starts: the package has no kernels for CPUs.

    python sglang_trial.py OPTION...
"""

import json
import sys

# Prefixes of the lines that report the release, a rejection and acceptance.
RELEASE, REJECTED, ACCEPTED = "trial: release ", "trial: rejected ", "trial: accepted"


def main(arguments: list[str]) -> None:
    import sglang
    from sglang.srt.server_args import prepare_server_args

    print(RELEASE + sglang.__version__, flush=True)
    try:
        prepare_server_args(arguments)
    except Exception as error:  # noqa: BLE001 - whatever SGLang raises ends its server
        print(REJECTED + json.dumps(f"{type(error).__name__}: {error}"), flush=True)
        sys.exit(1)
    print(ACCEPTED, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
