"""Differences between the stubs of operators and the operators, each with its reason."""

from __future__ import annotations

from tests.rehearsal.traces import LWS, RAY

_NOTHING_RUNS = "nothing runs in a fake pod"

REVIEWED = {
    LWS: {
        r"template-revision-hash$": (
            "the operator keeps a ControllerRevision; here a changed template is seen by the"
            " StatefulSets themselves"
        ),
        r"pod .*group-index$|pod .*worker-index$|leader pod .*group-key$": (
            "its webhook writes them into each pod as it is admitted"
        ),
        r"selector/matchLabels/.*group-key$": (
            "a group's number is enough to tell its pods from others"
        ),
        r"env/LWS_LEADER_ADDRESS|env/LWS_POD_NAME|env/LWS_WORKER_INDEX": (
            "its webhook writes values, a template can only refer to them"
        ),
        r"annotations/pulumi\.com/": "the rehearsal would wait for the StatefulSet as for the set",
        r"StatefulSet <name>-\d+: owners$": (
            "the set itself owns it, so that it goes with the set; no controller watches the leader"
        ),
    },
    RAY: {
        r"pod: spec/.*(env/|/args|/command|Probe/)": _NOTHING_RUNS,
        r"pod: annotations/ray\.io/": "KubeRay's notes to itself",
        r"owners$": "there is no RayCluster in between, the RayService owns all",
    },
}
"""By kind, what a differing path looks like and the reason why it may."""
