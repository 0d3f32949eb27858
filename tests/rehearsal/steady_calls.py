"""usage: steady_calls.py PORT FILE: calls the small stack's model ten times in a second until SIGINT, and
writes how often each status was answered.
"""

from __future__ import annotations

import http.client
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tests.rehearsal.real_node import key

_SECONDS = 0.1


def main(port: int, target: Path) -> None:
    ended: list[bool] = []
    signal.signal(signal.SIGINT, lambda *_: ended.append(True))
    # One token: many short calls meet more moments of a change than few long ones.
    question = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    body = json.dumps(question)
    headers = {"Authorization": f"Bearer {key()}", "Content-Type": "application/json"}
    statuses: Counter[str] = Counter()
    begun = time.monotonic()
    while not ended:
        # A call takes the real engine 50 ms of a core. Without a pause the calls would take most of
        # the machine from the change that they watch.
        time.sleep(max(0.0, begun + _SECONDS * sum(statuses.values()) - time.monotonic()))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", "/v1/chat/completions", body=body, headers=headers)
            statuses[str(connection.getresponse().status)] += 1
        except (OSError, http.client.HTTPException) as failure:
            statuses[type(failure).__name__] += 1
        finally:
            connection.close()
        if sum(statuses.values()) == 1:
            target.write_text("{}")
    target.write_text(json.dumps(statuses))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
