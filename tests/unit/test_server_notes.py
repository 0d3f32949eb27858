"""What a plan says of servers that check no key, and of responses that outlast a server."""

from __future__ import annotations

from inferplan.operations.planning.plan import notes_before
from inferplan.operations.workspace import open_workspace


def test_a_plan_names_servers_that_check_no_key_and_how_long_responses_last():
    said = list(notes_before(open_workspace("docs/engines/Pulumi.tensorrt-llm.yaml")))
    [no_key] = [each for each in said if each.startswith("servers that check no key: ")]
    assert "A NetworkPolicy admits only the gateway's pods to them" in no_key
    [drain] = [each for each in said if "after its drainSeconds" in each]
    assert " 60 s" in drain
    assert "gateway.drainSeconds (600 s)" in drain
