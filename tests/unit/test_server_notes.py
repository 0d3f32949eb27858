"""What a plan says of servers that check no key, and of responses that outlast a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inferplan.planning.plan import notes_before
from inferplan.planning.policy_check import judge
from inferplan.workspace.workspace import open_workspace

ROOT = Path(__file__).resolve().parents[2]


def test_a_plan_names_servers_that_check_no_key_and_how_long_responses_last():
    said = list(notes_before(open_workspace("docs/engines/Pulumi.tensorrt-llm.yaml")))
    [no_key] = [each for each in said if each.startswith("servers that check no key: ")]
    assert "A NetworkPolicy admits only the gateway's pods to them" in no_key
    [drain] = [each for each in said if "after its drainSeconds" in each]
    assert " 60 s" in drain
    assert "gateway.drainSeconds (600 s)" in drain


@pytest.mark.parametrize("example", ["vllm", "ray-serve"])
def test_the_pack_accepts_scratch_volumes_at_another_path(example, tmp_path):
    """On a read-only root the images write to the moved path, because TMPDIR names it."""
    text = (ROOT / "docs" / "engines" / f"Pulumi.{example}.yaml").read_text()
    moved, count = re.subn(r"(      engine: [\w-]+\n)", r"\1      scratch: /var/scratch\n", text)
    assert count > 0
    path = tmp_path / f"Pulumi.{example}.yaml"
    path.write_text(moved)
    workspace = open_workspace(str(path))
    violations = judge(workspace.record(), ROOT).violations
    assert [
        (each.rule.id, each.resource)
        for each in violations
        if each.rule.id == "image-require-writable-paths"
    ] == []


def test_a_plan_tells_weights_without_a_revision_and_tokens_in_plain_text(tmp_path):
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    first, _, rest = text.partition("      weights: {store: weights, path: llama-3-8b, revision: ")
    changed = (
        f"{first}      env: {{UPSTREAM_TOKEN: hf_abcdefghijklmnopqrstuvwxyz}}\n      weights:"
        f" {{store: weights, path: llama-3-8b, {rest.partition(', ')[2]}"
    )
    path = tmp_path / "Pulumi.harbour.yaml"
    path.write_text(changed)
    said = "\n".join(each.message for each in open_workspace(str(path)).record().diagnostics)
    assert "models.llama-3-8b.weights.revision: Without a revision" in said
    assert "models.llama-3-8b.env.UPSTREAM_TOKEN: The value looks like a secret" in said
    assert "hf_abc" not in said
