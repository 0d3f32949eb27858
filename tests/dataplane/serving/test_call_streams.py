"""A call prints what a server has said while the server is still speaking, through a real gateway."""

from __future__ import annotations

from inferplan.client.connection import answer
from inferplan.client.target import Caller, target
from inferplan.workspace.contract import Contract
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.dataplane.serving.openai_double import OpenAiDouble
from tests.patience import PATIENCE_SECONDS


def test_the_first_words_are_there_while_the_server_waits_with_the_others(tmp_path):
    double = OpenAiDouble()
    double.go_on.clear()
    made = endpoint("chatty", double.port, ("team",))
    proxy = Proxy(tmp_path).run(spec(), [made], {"team": consumer(keys=[1])})
    try:
        exported = Contract(
            namespace="inference", gateway=None, grpc=None, endpoints={"chatty": made}
        )
        aim = target(
            exported,
            "chatty",
            protocol=None,
            gateway=f"http://127.0.0.1:{proxy.port}",
            path=None,
            stack="s",
        )
        who = Caller(consumer="team", key=proxy.key("team"))
        pieces = answer(
            aim, who, "a b c", max_tokens=9, silence_seconds=PATIENCE_SECONDS, stack="s"
        )
        assert next(pieces).text == "c"
        double.go_on.set()
        assert [each.text for each in pieces if each.kind == "answer"] == [" b", " a"]
    finally:
        double.go_on.set()
        proxy.stop()
        double.stop()
