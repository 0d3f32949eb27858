"""Random sequences of changes under load: weights, rollbacks, key rotation, and the death and
return of a server lose no request of a route.
"""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass, field

import pytest

from inferplan.components.gateway.route_spec import RouteSpec
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec, wait_for
from tests.lanes import in_full
from tests.ports import free_port

SAMPLE = 15
HEADERS = {"Content-Type": "application/json"}


@dataclass
class Load:
    """A client that calls again after `pause` seconds, with the newest key that it has been given."""

    proxy: Proxy
    name: str
    who: str
    pause: float
    version: int = 1
    answers: list[tuple[int, str]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        body = json.dumps({"model": self.name}).encode()
        while not self.stopped.wait(self.pause):
            answer = self.proxy.call(
                "POST", "/v1/completions", self.proxy.key(self.who, self.version), body, HEADERS
            )
            host = dict(json.loads(answer.body)["headers"])["host"] if answer.status == 200 else ""
            self.answers.append((answer.status, host.rpartition(":")[2]))

    def after(self, calls: int) -> None:
        """Waits until that many further calls have ended, so that a change has met some."""
        until = len(self.answers) + calls
        wait_for(lambda: len(self.answers) >= until, "the clients go on")


@pytest.mark.parametrize("steps", [SAMPLE, *in_full(200)])
def test_no_request_of_a_route_is_lost_by_changes(tmp_path, steps):
    chance = random.Random(7)  # noqa: S311 - the same sequence each time is wanted
    ports = {"stable": free_port(), "next": free_port(), "closed": free_port()}
    backends = {name: Backend(port=port).start() for name, port in ports.items()}
    weights, keys = {"stable": 90, "next": 10}, [1]
    proxy = Proxy(tmp_path)

    def setting() -> tuple[list, dict]:
        route = {"backends": weights, "fallback": "stable", "consumers": ["chat"]}
        proxy.public_routes = {"chat-large": RouteSpec.model_validate(route)}
        endpoints = [
            endpoint(name, port, ("owner",) if name == "closed" else ())
            for name, port in ports.items()
        ]
        return endpoints, {"chat": consumer(keys=keys), "owner": consumer(keys=[1])}

    proxy.run(spec(), *setting())
    # The long sequence calls without a pause, and takes all the processor time that there is.
    pause = 0.01 if steps == SAMPLE else 0.0
    route, stranger = Load(proxy, "chat-large", "chat", pause), Load(proxy, "closed", "chat", pause)
    threads = [threading.Thread(target=each.run) for each in (route, stranger)]
    for each in threads:
        each.start()
    try:
        for _ in range(steps):
            step = chance.choice(("weights", "rollback", "rotate", "death"))
            if step == "death" and "next" in backends:
                # All requests move away first: what a server had taken dies with it.
                before, weights = weights, {"stable": 1, "next": 0}
                proxy.reload(spec(), *setting())
                route.after(3)
                backends.pop("next").stop()
                weights = before
            elif step == "death":
                backends["next"] = Backend(port=ports["next"]).start()
            elif step == "rotate":
                keys = [route.version + 1, route.version]
                proxy.reload(spec(), *setting())
                route.version = stranger.version = keys[0]
                # Both have ended their calls with the old key.
                stranger.after(3)
                route.after(3)
                keys = keys[:1]
            else:
                share = 0 if step == "rollback" else chance.randint(1, 100)
                weights = {"stable": 100 - share, "next": share}
            proxy.reload(spec(), *setting())
            route.after(5)
    finally:
        for load in (route, stranger):
            load.stopped.set()
        for thread in threads:
            thread.join()
        proxy.stop()
        for backend in backends.values():
            backend.stop()
    assert {status for status, _ in route.answers} == {200}
    assert {port for _, port in route.answers} == {str(ports["stable"]), str(ports["next"])}
    assert {status for status, _ in stranger.answers} == {404}
