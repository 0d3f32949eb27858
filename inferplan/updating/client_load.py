"""Clients of one revision of a stack, which call its models and routes through the local gateway
until SIGINT, and record what they meet.
"""

import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from inferplan.client.connection import answer
from inferplan.client.local_gateway.gateway import local_contract
from inferplan.client.messages import DenialError
from inferplan.client.target import Caller, Target, caller, target
from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.errors import OperationError
from inferplan.kube.durations import milliseconds_of
from inferplan.updating.rehearsal_run import Diary
from inferplan.workspace.workspace import Workspace, open_workspace

_CLIENTS = 2
"""Clients of each model; each sends a request as soon as it has the answer to the one before."""
_SILENCE_SECONDS = 30.0
_RETRY_SECONDS = 0.1
_DENIALS = (401, 404, 429)


def main(stack: str, path: Path) -> int:
    """Call the models of the stack of the current folder until SIGINT, and write the diary to
    `path`.
    """
    workspace, diary, done = open_workspace(stack), Diary(path), threading.Event()
    signal.signal(signal.SIGINT, lambda *_: done.set())
    calls = list(_calls(workspace, diary))
    sent: Counter[str] = Counter()
    threads = [
        threading.Thread(target=_call, args=(aim, who, workspace, diary, done, sent))
        for aim, who in calls
        for _ in range(_CLIENTS)
    ]
    for each in threads:
        each.start()
    print("calling", flush=True)
    done.wait()
    for each in threads:
        each.join()
    for aim, _ in calls:
        diary.write("client", model=aim.model, sent=sent[aim.model])
    return 0


def _calls(workspace: Workspace, diary: Diary) -> list[tuple[Target, Caller]]:
    """The models and routes that a client can call, each with its first consumer. The others are
    recorded with the reason.
    """
    contract, calls = local_contract(workspace), []
    if contract is None:
        diary.write("uncalled", model="", message="the local gateway did not answer")
        return []
    routed = {
        model for route in workspace.settings.public_routes.values() for model in route.backends
    }
    for model, endpoint in {**contract.endpoints, **contract.routes}.items():
        if model in routed and not endpoint.consumers:
            continue  # its consumers may call only the route
        try:
            aim = target(
                contract, model, protocol=None, gateway=None, path=None, stack=workspace.stack
            )
            calls.append((aim, caller(workspace, endpoint, None)))
        except OperationError as error:
            diary.write("uncalled", model=model, message=str(error))
    return calls


def _call(
    aim: Target,
    who: Caller,
    workspace: Workspace,
    diary: Diary,
    done: threading.Event,
    sent: Counter[str],
) -> None:
    objective = getattr(workspace.settings.models.get(aim.model), "slo", None)
    while not done.is_set():
        sent[aim.model] += 1
        began = time.monotonic()
        try:
            parts = answer(
                aim,
                who,
                "hello",
                max_tokens=256,
                silence_seconds=_SILENCE_SECONDS,
                stack=workspace.stack,
            )
            times = [time.monotonic() - began for _ in parts]
        except OperationError as error:
            denied = isinstance(error, DenialError) and error.status in _DENIALS
            diary.write(
                "request",
                model=aim.model,
                result="denied" if denied else "lost",
                message=str(error),
            )
            done.wait(_RETRY_SECONDS)
        else:
            if objective is not None and (missed := _missed(objective, times)):
                diary.write("request", model=aim.model, result="slow", message=missed)


def _missed(objective: SloSpec, times: list[float]) -> str:
    """The times of the objective that an answer with pieces after `times` seconds did not keep."""
    gaps = max(1, len(times) - 1)
    measured = {"ttft": times[0], "itl": (times[-1] - times[0]) / gaps}
    limits = {name: getattr(objective, name) for name in measured}
    return ", ".join(
        f"over {name} {text}"
        for name, text in limits.items()
        if text and measured[name] * 1000 > milliseconds_of(text)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
