"""A failed update under Pulumi's engine reads as one paragraph: what, why, what next. The engine's
own text stands below.
"""

from __future__ import annotations

import pytest

from inferplan.updating.pulumi_cli import explain, failures_of

URN = "urn:pulumi:chat::inferplan::inferplan:gateway:Gateway$kubernetes:core/v1:ConfigMap::gateway-config"


def error(message: str, urn: str = URN) -> dict:
    return {
        "diagnosticEvent": {
            "urn": urn,
            "message": f"<{{%reset%}}>{message}<{{%reset%}}>\n",
            "severity": "error",
        }
    }


# The engine's words, of runs on a real API server (Pulumi 3.260, Kubernetes provider 4.32,
# 2026-11), and what a reader must find.
SAID = [
    ('configmaps "gateway-config-df3c75ef10" already exists', "inferplan recover chat"),
    (
        "the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end",
        "inferplan recover chat",
    ),
    ('no matches for kind "HTTPRoute" in version "gateway.networking.k8s.io/v1"', "install it"),
    (
        'deployments.apps is forbidden: User "ci" cannot create resource "deployments"',
        "ask for the right",
    ),
    (
        'pods "x" is forbidden: exceeded quota: accelerators, requested: nvidia.com/gpu=4',
        "make the pool larger",
    ),
    (
        'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale"',
        "inferplan recover chat takes the field back",
    ),
    (
        'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1',
        "because another program (kubectl, an autoscaler) owns",
    ),
    (
        'Apply failed with 1 conflict: conflict with "pulumi-kubernetes-9c41e0a7" using v1',
        "because an earlier run of inferplan or Pulumi owns",
    ),
    (
        'Apply failed with 2 conflicts: conflicts with "inferplan-rehearsal" using v1: .data.a',
        "because an earlier run of inferplan or Pulumi",
    ),
    (
        (
            '2 conflicts: conflicts with "pulumi-kubernetes-9c" using v1: .a, conflicts with'
            ' "helm": .b'
        ),
        "because another program",
    ),
    (
        (
            "resource inference/x was successfully created, but the Kubernetes API server reported"
            " that it failed to fully initialize or become live: timed out waiting to be Ready"
        ),
        "inferplan status chat",
    ),
    ("configured Kubernetes cluster is unreachable: connection refused", "check the kubeconfig"),
    ("something that no table foresees", "inferplan up chat"),
]


@pytest.mark.parametrize(("message", "remedy"), SAID)
def test_the_next_command_is_named_and_the_engines_text_quoted(message, remedy):
    told = explain(failures_of([error(message)]), verb="up", stack="chat")
    paragraph, _, below = told.partition("\n\n")
    assert "\n" not in paragraph
    assert paragraph.startswith("up of chat: ConfigMap gateway-config failed")
    assert remedy in paragraph
    assert message in below


def test_tracebacks_and_what_follows_from_the_cause_are_left_out():
    trace = (
        "Program failed with an unhandled exception:\nTraceback (most recent call last):\n  File x,"
        " line 3"
    )
    stack = "urn:pulumi:chat::inferplan::pulumi:pulumi:Stack::inferplan-chat"
    events = [
        error(trace, stack),
        error("update failed", ""),
        error('services "a" already exists'),
        error('services "a" already exists'),
    ]
    told = explain(failures_of(events), verb="up", stack="chat")
    assert "Traceback" not in told
    assert told.count('services "a" already exists') == 1
    assert "more below" not in told


def test_several_failures_are_all_quoted_and_counted():
    told = explain(
        failures_of([error("first"), error("second", f"{URN}-2")]), verb="down", stack="chat"
    )
    assert "(1 more below)" in told
    assert "second" in told


def test_an_engine_that_names_nothing_still_leads_on():
    assert "inferplan recover chat" in explain(failures_of([]), verb="up", stack="chat")
