"""Karpenter's own scheduler in a rehearsal of `prod`: which machines it buys for the pools of EKS
Auto Mode, and that it ends them.
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from inferplan.errors import ToolchainError
from inferplan.hardware.prices import price_list
from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.cluster.karpenter import Purchase
from inferplan.rehearsal.toolchain.build import ensure_source
from inferplan.rehearsal.toolchain.pins import KARPENTER
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.buying import bought_pools, instance_types, purchase_lines
from inferplan.workspace.simulated_nodes import nodes_wanted
from tests.rehearsal.commands import ROOT, inferplan

LINE = re.compile(
    r"^Karpenter bought (\d+) x (\S+) \((\S+)\) for (\S+): (\S+) USD per hour$", re.MULTILINE
)


@pytest.fixture(scope="module")
def settings():
    return validate(read_stack(ROOT / "stacks" / "Pulumi.prod.yaml"))


def test_instance_types_have_the_resources_and_the_list_price_of_their_machine(settings):
    types = {each["name"]: each for each in instance_types(["us-east-1a", "us-east-1b"])}
    machine = types["g6e.12xlarge"]
    assert machine["resources"]["nvidia.com/gpu"] == "4"
    offers = {
        tuple(
            value["values"][0] for value in each["Requirements"] if "eks" not in value["key"]
        ): each["Price"]
        for each in machine["offerings"]
    }
    price = float(price_list().machines["g6e.12xlarge"].usd_per_hour or 0)
    assert {pair: offer for pair, offer in offers.items() if pair[0] == "on-demand"} == {
        ("on-demand", "us-east-1a"): price,
        ("on-demand", "us-east-1b"): price,
    }
    assert all(settings.node_pools[name].node_type in types for name in bought_pools(settings))


def test_purchases_are_listed_with_their_cost_and_the_date_of_the_prices():
    bought = [
        Purchase("l40s-auto", "g6e.4xlarge", "spot", 3, Decimal("0.300424")),
        Purchase("system-static", "m7i.2xlarge", "on-demand", 2, Decimal("0.4032")),
    ]
    first, second, total = purchase_lines(bought)
    assert first == "Karpenter bought 3 x g6e.4xlarge (spot) for l40s-auto: 0.90 USD per hour"
    assert (
        second
        == "Karpenter bought 2 x m7i.2xlarge (on-demand) for system-static: 0.81 USD per hour"
    )
    assert total.startswith(f"together 1.71 USD per hour, list prices of {price_list().date}")
    assert list(purchase_lines([])) == []
    assert list(purchase_lines(bought, "us-east-1")) == [first, second, total]
    assert (
        list(purchase_lines(bought, "eu-central-1"))[-1]
        == "the stack is in eu-central-1, whose prices differ"
    )


def test_karpenter_is_for_rehearsals_only(tmp_path):
    done = inferplan(tmp_path, "up", "prod", "--engine", "pulumi", "--karpenter")
    assert done.returncode == 2
    assert (
        "--karpenter is for rehearsals. Add --engine rehearsal, or remove --karpenter"
        in done.stderr
    )


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    directory = tmp_path_factory.mktemp("karpenter")
    yield directory
    inferplan(directory, "down", "prod", "--engine", "rehearsal", "--cluster")


@pytest.fixture(scope="module")
def output(state):
    try:
        ensure_source(KARPENTER)
    except ToolchainError as error:
        if "could not be fetched" not in str(error):
            raise
        pytest.skip(str(error))
    done = inferplan(state, "up", "prod", "--engine", "rehearsal", "--karpenter")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr + done.stdout


def nodes(state: Path, monkeypatch) -> list[dict[str, dict[str, str]]]:
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(state))
    return start("prod").get("/api/v1/nodes")["items"]


@pytest.mark.cluster
@pytest.mark.full
@pytest.mark.timeout(3600)  # the first build takes minutes, or more on a busy machine
def test_up_lists_the_machines_that_karpenter_buys_and_their_price(
    output, settings, state, monkeypatch
):
    bought = [
        (int(count), kind, capacity, pool, Decimal(price))
        for count, kind, capacity, pool, price in LINE.findall(output)
    ]
    assert bought, output
    counts: Counter[str] = Counter()
    for count, kind, capacity, node_pool, price in bought:
        name = node_pool.removesuffix("-auto").removesuffix("-static")
        counts[name] += count
        listed = count * (price_list().machines[kind].usd_per_hour or Decimal(0))
        assert kind in settings.node_pools[name].machines
        assert price == round(listed, 2) if capacity == "on-demand" else price < listed
    # Karpenter buys what the plan expects.
    wanted = nodes_wanted(settings)
    assert counts == {name: wanted[name] for name in bought_pools(settings)}
    live = [
        each
        for each in nodes(state, monkeypatch)
        if "karpenter.sh/nodepool" in each["metadata"]["labels"]
    ]
    assert len(live) == sum(each[0] for each in bought)


@pytest.mark.cluster
@pytest.mark.full
def test_down_ends_the_machines(output, state, monkeypatch):  # noqa: ARG001 - the stack must be up
    done = inferplan(state, "down", "prod", "--engine", "rehearsal")
    assert done.returncode == 0, done.stderr[-3000:]
    assert [
        each
        for each in nodes(state, monkeypatch)
        if "karpenter.sh/nodepool" in each["metadata"]["labels"]
    ] == []
