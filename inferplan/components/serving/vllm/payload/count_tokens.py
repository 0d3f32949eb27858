"""Starts vLLM as usage_log.py does, and reports the tokens of consumers with a budget: `python3 vllm serve OPTIONS`.

Each process of vLLM sends the sums since its start, by day and consumer, so that a report that arrives twice or late changes nothing.
"""

import atexit
import json
import os
import re
import socket
import sys
import threading
import time
import urllib.request
import uuid

import usage_log

_SERVICE = os.environ["TOKEN_BUDGETS"]
_PROCESS = uuid.uuid4().hex
# The gateway puts the consumer in front of the id that it gives a request.
_CONSUMER = re.compile(r"\.([a-z0-9-]+)\.[0-9a-f]{16}-[0-9]+-[0-9]+")
_PAUSE_SECONDS = 2
_PROMPTS = 10_000


class Totals:
    def __init__(self):
        self._lock, self._changed, self._sends = threading.Lock(), threading.Event(), False
        self._sums, self._prompts = {}, {}

    def add(self, record):
        match = _CONSUMER.search(record["requestId"])
        if match is None:
            return
        tokens = record["tokensOut"]
        with self._lock:
            # The n answers to one prompt share it.
            if record["tokensIn"] and record["requestId"] not in self._prompts:
                self._prompts[record["requestId"]] = None
                tokens += record["tokensIn"]
                if len(self._prompts) > _PROMPTS:
                    del self._prompts[next(iter(self._prompts))]
            day = time.strftime("%Y-%m-%d", time.gmtime(record["end"]))
            key = (day, match[1])
            self._sums = {each: count for each, count in self._sums.items() if each[0] >= day} | {key: self._sums.get(key, 0) + tokens}
            # Not before the first request: vLLM starts its processes by then.
            if not self._sends:
                self._sends = True
                threading.Thread(target=self._send, daemon=True).start()
                atexit.register(self._post)
        self._changed.set()

    def _send(self):
        while True:
            self._changed.wait()
            self._changed.clear()
            if not self._post():
                self._changed.set()
            time.sleep(_PAUSE_SECONDS)

    def _post(self):
        """Send the sums to each gateway pod; True if all have them."""
        with self._lock:
            days = {}
            for (day, consumer), count in self._sums.items():
                days.setdefault(day, {}).setdefault(_PROCESS, {})[consumer] = count
        body, missed = json.dumps(days).encode(), False
        for place in _SERVICE.split(","):
            host, _, port = place.rpartition(":")
            try:
                found = socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)
            except OSError:
                found, missed = [], True
            for *_, (address, *_) in found:
                try:
                    with urllib.request.urlopen(f"http://{address}:{port}/", body, timeout=5):
                        pass
                except OSError:
                    missed = True
        return not missed


totals = Totals()
_line_of = usage_log.line_of


def line_of(state, clock, now):
    line = _line_of(state, clock, now)
    totals.add(json.loads(line))
    return line


usage_log.line_of = line_of

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
