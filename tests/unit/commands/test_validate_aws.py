"""Mistakes in a stack on AWS, as `inferplan validate` tells them: with their line, before anything
is asked of AWS.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferplan.commands import main

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def validated(tmp_path, monkeypatch, capsys):
    """The exit code and the words for a copy of the stack `name` in which `old` stands as `new`."""
    (tmp_path / "inferplan" / "infra").mkdir(parents=True)
    (tmp_path / "stacks").mkdir()
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(name: str, old: str, new: str) -> tuple[int, str]:
        text = (PROJECT / "stacks" / f"Pulumi.{name}.yaml").read_text()
        assert text.count(old) == 1, old
        (tmp_path / "stacks" / f"Pulumi.{name}.yaml").write_text(text.replace(old, new))
        with pytest.raises(SystemExit) as caught:
            main.run(["validate", name])
        return int(caught.value.code or 0), capsys.readouterr().err

    return run


SYSTEM = "    system: {provider: eks, instanceTypes: [m7i.2xlarge], size: {min: 2, max: 4}}\n"


@pytest.mark.parametrize(
    ("stack", "old", "new", "said"),
    [
        ("prod", SYSTEM, SYSTEM + SYSTEM, "nodePools.system: Duplicate key 'system', first on line"),
        ("prod", "region: us-east-1", "region: us-eat-1", "cluster.region: 'us-eat-1' is not a known region. Did you mean 'us-east-1'?"),
        ("prod", "bucket: acme-inference-prod-weights", "bucket: Acme_Weights", "storage.weights.bucket: 'Acme_Weights' is not a valid bucket name"),
        ("prod", "bucket: acme-inference-prod-weights", "bucket: 10.0.0.1", "storage.weights.bucket: '10.0.0.1' is not a valid bucket name"),
        ("prod", 'admins: ["arn:aws:iam::111122223333:role/platform-engineers"]', "admins: []", "cluster.create.admins: An empty list is not valid. Expected at least 1 entry."),
        ("prod", "zones: [us-east-1a, us-east-1b, us-east-1c]", "zones: [us-east-1a]", "cluster.create.zones: A list of 1 is not valid. Expected at least 2 entries."),
        ("prod", "kubernetesVersion: \"1.35\"", "kubernetesVersion: \"1.29\"", "cluster.create.kubernetesVersion: Kubernetes version '1.29' is not in the range"),
        ("prod", "instanceTypes: [p5.48xlarge]", "instanceTypes: [p5.49xlarge]", "nodePools.h100.instanceTypes[0]: 'p5.49xlarge' is not a known"),
        ("prod", "zone: us-east-1b}", "zone: us-east-1f}", "nodePools.h100.capacityReservation.zone: The cluster has no subnet in 'us-east-1f'."),
        ("dev", "capacityTypes: [SPOT]", "capacityTypes: [SPOTTY]", "nodePools.l4.capacityTypes[0]: 'SPOTTY' is not valid. Expected ON_DEMAND"),
    ],
)  # fmt: skip
def test_a_validation_error_has_its_line_and_the_remedy(validated, stack, old, new, said):
    code, words = validated(stack, old, new)
    assert code == 2
    assert said in words, words
    assert f"stacks/Pulumi.{stack}.yaml:" in words
    assert "Traceback" not in words


def test_an_unknown_type_in_the_cpu_pool_is_the_only_error(validated):
    """Without the pool, no pool is free of taints; that is not what the user has to mend."""
    code, words = validated("prod", "instanceTypes: [m7i.2xlarge]", "instanceTypes: [m6x.large]")
    assert code == 2
    assert "nodePools.system.instanceTypes[0]: 'm6x.large' is not a known instance type" in words
    assert "1 error in stacks/Pulumi.prod.yaml" in words


def test_a_type_of_the_cpu_table_is_judged_by_its_size(validated):
    code, words = validated("prod", "instanceTypes: [m7i.2xlarge]", "instanceTypes: [m6i.large]")
    assert code == 2
    assert "nodePools" not in words
    assert (
        "The preheat Job requests 2000m of cpu, but nodes without taints have at most 1930m"
        in words
    )
