"""smg itself between the sides of a split model: each call meets both, and a lost side is noticed."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.components.serving.vllm.nixl import ANNOTATIONS
from tests.dataplane.serving.router_stand import RouterProcess, router
from tests.dataplane.serving.split_stand import TRANSFER, Pods, side
from tests.dataplane.serving.test_router import ask
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS

KEY = "sk-server"
LABELS = {"prefill": {"name": "chat-prefill"}, "decode": {"name": "chat"}}
BOOTSTRAP = SglangSpec.bootstrap_port


class Split:
    """A router in front of two servers of each side, whose pods come and go."""

    def __init__(self, stack: ExitStack, engine: str, environment, directory) -> None:
        self.engine, self.bodies, self.ports = engine, {}, {}
        for name in ("prefill", "prefill-2", "decode", "decode-2"):
            self.ports[name], self.bodies[name] = stack.enter_context(side(engine, name))
        self.pods = Pods(directory)
        stack.enter_context(self.pods.serving())
        self.router: RouterProcess = stack.enter_context(
            router(
                environment,
                directory,
                [self.ports["decode"]],
                KEY,
                finding=(self.pods.kubeconfig, "inference"),
                prefill=LABELS["prefill"],
            )
        )

    def add(self, name: str) -> None:
        which = name.removesuffix("-2")
        announced = {"sglang.ai/bootstrap-port": str(BOOTSTRAP)} if which == "prefill" else {}
        own = ANNOTATIONS if self.engine == "vllm" else announced
        port = {"smg.ai/worker-ports": str(self.ports[name])}
        self.pods.add(name, LABELS[which], {**own, **port})

    def await_status(self, wanted: int) -> None:
        ends = time.monotonic() + PATIENCE_SECONDS
        while self.router.status("/readiness") != wanted:
            assert self.router.process.poll() is None, self.router.log.read_text()
            assert time.monotonic() < ends, self.router.log.read_text()[-3000:]
            time.sleep(0.1)  # a probe has to be asked; nobody tells

    def call(self, model: str = "chat", **more: object) -> int:
        return ask(self.router, "one two", KEY, model, stream=False, **more)[0]


@pytest.fixture
def split(request, router_environment, tmp_path):
    with ExitStack() as stack:
        yield Split(stack, request.param, router_environment, tmp_path)


@pytest.mark.parametrize("split", ["sglang", *in_full("vllm")], indirect=True)
def test_a_call_meets_both_sides_and_the_decode_server_learns_where_the_cache_is(split):
    split.add("prefill")
    split.add("decode")
    split.await_status(200)
    assert split.call(max_completion_tokens=40, top_k=3) == 200
    [prompt], [answer] = split.bodies["prefill"], split.bodies["decode"]
    assert (prompt["messages"], prompt["top_k"]) == (answer["messages"], answer["top_k"])
    assert answer["max_completion_tokens"] == 40
    if split.engine == "vllm":
        # One token is enough for the KV cache of the prompt.
        assert prompt["max_completion_tokens"] == 1
        assert prompt["kv_transfer_params"]["do_remote_decode"] is True
        assert answer["kv_transfer_params"] == TRANSFER
    else:
        assert prompt["bootstrap_port"] == answer["bootstrap_port"] == BOOTSTRAP
        assert prompt["bootstrap_room"] == answer["bootstrap_room"]
    assert split.call(model="other") == 404


@pytest.mark.parametrize(
    ("split", "lost"),
    [
        ("vllm", "prefill"),
        *in_full(("vllm", "decode"), ("sglang", "prefill"), ("sglang", "decode")),
    ],
    indirect=["split"],
)
def test_a_router_without_one_side_is_not_ready_until_another_server_of_it_is(split, lost):
    split.add("prefill")
    assert split.router.status("/readiness") != 200
    split.add("decode")
    split.await_status(200)
    split.pods.remove(lost)
    split.await_status(503)
    # The gateway, which no longer finds a ready router, calls the model's Service.
    assert split.call() == 503
    split.add(f"{lost}-2")
    split.await_status(200)
    assert split.call() == 200
    assert len(split.bodies[f"{lost}-2"]) == 1
