"""A plan rejects an upgrade of a control plane by two minor versions, with the steps to take."""

from __future__ import annotations

import pytest

from inferplan.kube.facts import VERSION
from inferplan.planning.kubernetes_upgrade import skipped_versions


def outputs(version: str | None, target: str = "us-east-1/prod", facts: int = VERSION) -> dict:
    cluster = {"target": target, "kubernetesVersion": version}
    return {"facts": {"version": facts, "cluster": {"cluster": cluster}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1.34", "1.34"),
        ("1.34", "1.35"),
        ("1.35", "1.34"),  # a risk of its own
        (None, "1.36"),
        ("1.32", None),
    ],
)
def test_a_step_of_one_version_or_none_is_no_error(before, after):
    assert skipped_versions(outputs(before), outputs(after)) == ""


def test_the_error_names_every_step():
    text = skipped_versions(outputs("1.32"), outputs("1.35"))
    assert text.startswith("Kubernetes 1.32 to 1.35 skips a minor version")
    assert "cluster.create.kubernetesVersion: '1.33', then '1.34', then '1.35'" in text


def test_another_cluster_and_facts_of_another_release_are_not_compared():
    assert skipped_versions(outputs("1.32", "us-east-1/old"), outputs("1.36")) == ""
    assert skipped_versions(outputs("1.32", facts=VERSION + 1), outputs("1.36")) == ""
    assert skipped_versions({}, outputs("1.36")) == ""
