"""A stack as a whole: what is accepted, and the message of every error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import simulated_kubeconfig, validate

STACKS = Path(__file__).parents[3] / "stacks"
SOUND = """\
config:
  inferplan:cluster: {provider: simulated}
  inferplan:nodePools:
    l40s: {provider: simulated, accelerator: nvidia-l40s, nodes: 2}
  inferplan:storage:
    weights: {kind: s3, bucket: acme-weights, prefix: llm}
  inferplan:models:
    chat:
      engine: vllm
      weights: {store: weights, path: chat, size: 16Gi}
      pool: l40s
  inferplan:apiKeySeed: {secure: v1:x:y}
"""


@pytest.fixture
def refuse(tmp_path):
    def lines(content: str) -> list[str]:
        path = tmp_path / "Pulumi.test.yaml"
        path.write_text(content)
        with pytest.raises(InvalidStack) as caught:
            validate(read_stack(path, shown_path="s.yaml"))
        return list(caught.value.lines)

    return lines


def changed(old: str, new: str) -> str:
    assert SOUND.count(old) == 1
    return SOUND.replace(old, new)


@pytest.mark.parametrize("path", sorted(STACKS.glob("Pulumi.*.yaml")), ids=lambda path: path.name)
def test_the_example_stacks_are_accepted(path):
    assert validate(read_stack(path)).models


def test_a_minimal_stack_has_the_documented_defaults(tmp_path):
    (tmp_path / "a.yaml").write_text(SOUND)
    settings = validate(read_stack(tmp_path / "a.yaml"))
    assert settings.namespace == "inference"
    assert settings.gateway is None
    assert settings.consumers == {}


def test_an_empty_gateway_is_no_gateway(tmp_path):
    (tmp_path / "a.yaml").write_text(SOUND + "  inferplan:gateway: {}\n")
    assert validate(read_stack(tmp_path / "a.yaml")).gateway is None


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("provider: simulated}\n  inf", "provider: simulate}\n  inf", "s.yaml:2:23: cluster.provider: Unsupported value 'simulate'. Did you mean 'simulated'? Supported values: "),
        ("{provider: simulated}\n", "{}\n", "s.yaml:2:3: cluster.provider: Missing required field. Supported values: "),
        ("{provider: simulated}\n", "here\n", "s.yaml:2:3: cluster: 'here' is not valid. Expected a mapping"),
        ("engine: vllm", "engin: vllm", "s.yaml:8:5: models.chat.engine: Missing required field. Supported values: "),
        ("engine: vllm", "engine: vlm", "s.yaml:9:7: models.chat.engine: Unsupported value 'vlm'. Did you mean 'vllm'? Supported values: "),
        ("pool: l40s", "pool: l40s\n      replica: 2", "s.yaml:12:7: models.chat.replica: Unknown field 'replica'. Did you mean 'replicas'? Allowed fields: accelerators, "),
        ("pool: l40s", "replicas: 1", "s.yaml:8:5: models.chat.pool: Missing required field. "),
        ("pool: l40s", "pool: l40", "s.yaml:11:7: models.chat.pool: Unknown pool 'l40'."),
        ("path: chat", "path: 1.20", "s.yaml:10:33: models.chat.weights.path: 1.20 is not valid. Expected text. Quote it: '1.20'"),
        ("path: chat", "path: no", "s.yaml:10:39: models.chat.weights.path: no is ambiguous: some YAML parsers read a boolean, others text."),
        ("nodes: 2", "nodes: '2'", "s.yaml:4:59: nodePools.l40s.nodes: '2' is not valid. Expected a whole number. Remove the quotes."),
        ("nodes: 2", "nodes: 0", "s.yaml:4:59: nodePools.l40s.nodes: 0 is not valid. Expected at least 1. Raise it to 1 or more."),
        ("nodes: 2", "nodes: two", "s.yaml:4:59: nodePools.l40s.nodes: 'two' is not valid. Expected a whole number."),
        ("    l40s:", "    L40S:", "s.yaml:4:5: nodePools.L40S: 'L40S' is not a valid name. Expected a Kubernetes name: "),
        ("pool: l40s", "pool: l40s\n      rollout: Surge", "s.yaml:12:7: models.chat.rollout: 'Surge' is not valid. Expected inPlace or surge. Did you mean 'surge'?"),
        ("pool: l40s", "pool: l40s\n      maxModelLen: many", "s.yaml:12:7: models.chat.maxModelLen: 'many' is not valid. Expected a whole number or auto."),
        ("pool: l40s", "pool: l40s\n      consumers: [a, 1]", "s.yaml:12:22: models.chat.consumers[1]: 1 is not valid. Expected text. Quote it: '1'"),
        ("size: 16Gi", "size: 16GB", "s.yaml:10:45: models.chat.weights.size: '16GB' is not valid. Expected a size, for example 16Gi (16 GiB)."),
        ("pool: l40s", "pool: l40s\n      image: vllm", "s.yaml:12:7: models.chat.image: 'vllm' has no tag, so it can change. "),
        ("  inferplan:models:", "  inferplan:model:", "s.yaml:7:3: model: Unknown field 'model'. Did you mean 'models'? Allowed fields: adoptNamespace, apiKeySeed, benchmark, budget, cluster, "),
        ("  inferplan:apiKeySeed: {secure: v1:x:y}\n", "", "s.yaml:1:1: apiKeySeed: "),
        ("  inferplan:cluster: {provider: simulated}\n", "", "s.yaml:1:1: cluster: Missing required field. The Kubernetes cluster"),
    ],
)  # fmt: skip
def test_an_error_has_position_path_value_and_allowed_values(refuse, old, new, line):
    found = refuse(changed(old, new))
    assert any(each.startswith(line) for each in found), found


def test_a_union_tag_never_shows_in_a_path_even_where_a_key_is_called_like_it(refuse):
    found = refuse(changed("pool: l40s", "pool: l40s\n      vllm: 1\n      replicas: x"))
    assert [line.split(": ")[1] for line in found] == ["models.chat.vllm", "models.chat.replicas"]


def test_forty_faults_are_forty_lines_in_the_order_of_the_file(refuse):
    pools = "".join(f"    p{n}: {{provider: simulated, nodes: 0}}\n" for n in range(40))
    found = refuse(changed("  inferplan:storage:", f"{pools}  inferplan:storage:"))
    assert len(found) == 40
    assert [int(line.split(":")[1]) for line in found] == list(range(5, 45))


def test_the_summary_has_the_number_of_errors_and_the_remedy(tmp_path):
    (tmp_path / "a.yaml").write_text(changed("nodes: 2", "nodes: 0"))
    with pytest.raises(
        InvalidStack,
        match=(
            r"1 error in .*a\.yaml\. Nothing was registered\. Fix it and run the command again\.$"
        ),
    ):
        validate(read_stack(tmp_path / "a.yaml"))


def test_notation_values_and_cross_checks_are_reported_together(refuse):
    content = changed(
        "pool: l40s",
        "pool: l41s\n    other:\n      engine: vllm\n      weights: {store: weights, path: o}\n    "
        "  pool: l40s\n      replicas: x",
    )
    found = refuse(content + "  inferplan:apiKeySeed: {secure: v1:a:b}\n")
    assert [re.sub(r"^s.yaml:(\d+):.*", r"\1", line) for line in found] == ["11", "16", "18"]


def test_parts_that_are_sound_are_judged_beside_parts_that_are_not(refuse):
    content = changed("    l40s:", "    bad: {provider: simulated, nodes: 0}\n    l40s:")
    lost = (
        "    lost:\n      engine: vllm\n      weights: {store: nowhere, path: a}\n      pool:"
        " l40s\n"
    )
    leaning = lost.replace("lost", "leaning").replace("l40s", "bad")
    near = lost.replace("lost", "near").replace("nowhere", "weights").replace("l40s", "bade")
    found = refuse(content.replace("    chat:\n", f"{lost}{leaning}{near}    chat:\n"))
    # Whatever number of nodes the pool gets, these names are unknown.
    others = [
        "models.lost.weights.store",
        "models.leaning.weights.store",
        "models.near.pool",
    ]
    assert [line.split(": ")[1] for line in found] == ["nodePools.bad.nodes", *others]


def test_nothing_is_judged_that_leans_on_a_section_of_which_nothing_is_known(refuse):
    assert [
        line.split(": ")[1]
        for line in refuse(changed("  inferplan:storage:", "  inferplan:store:"))
    ] == ["store"]


@pytest.mark.parametrize(
    "place",
    [
        "consumers:\n    chat: {keys: sk-hush}",
        "gateway: {host: a.b, apiToken: sk-hush}",
        "hfToken: sk-hush",
    ],
)
def test_a_value_that_may_be_secret_is_not_repeated(refuse, place):
    found = refuse(f"{SOUND}  inferplan:{place}\n")
    assert found
    assert "sk-hush" not in "\n".join(found)


def test_where_the_file_cannot_be_read_nothing_is_guessed_about_its_values(refuse):
    assert len(refuse("config:\n  inferplan:cluster: {provider: [}\n")) == 1


def test_the_simulated_clusters_kubeconfig_is_where_the_rehearsal_keeps_it(monkeypatch, tmp_path):
    from inferplan.rehearsal.cluster.record import cluster_directory

    monkeypatch.delenv("INFERPLAN_KUBECONFIG", raising=False)
    monkeypatch.delenv("INFERPLAN_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert simulated_kubeconfig("local") == str(cluster_directory("local") / "kubeconfig")
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "own"))
    assert simulated_kubeconfig("local") == str(cluster_directory("local") / "kubeconfig")
    monkeypatch.setenv("INFERPLAN_KUBECONFIG", "/elsewhere")
    assert simulated_kubeconfig("local") == "/elsewhere"
