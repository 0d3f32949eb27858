"""Instance types that a region or a zone does not offer, told before AWS is asked."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan.components.platforms.aws import aws_api, tables
from tests.unit.aws.rig import ADOPTED, L40S, settings


def pool_errors(region: str, pool: dict[str, Any]) -> list[tuple[Any, str]]:
    spec = settings(cluster={**ADOPTED, "region": region}, nodePools={"p": pool})
    return [(each.path, each.message) for each in spec.cluster.errors(spec)]


def test_a_type_that_the_region_lacks_is_rejected_with_the_regions_that_have_it():
    [(path, message), _] = pool_errors("eu-west-1", L40S)
    assert path == ("nodePools", "p", "instanceTypes", 0)
    assert message.startswith(
        "EC2 does not offer g6e.4xlarge in eu-west-1, the cluster's region, by the list of this"
        " release"
    )
    assert "eu-central-1" in message
    assert "acceptScarcity: true" in message, "the list may be older than the offer"
    assert (
        pool_errors("eu-west-1", {**L40S, "acceptScarcity": True})
        == pool_errors("eu-central-1", L40S)
        == []
    )


def test_the_default_type_of_an_accelerator_is_checked_at_the_accelerator():
    gaudi = {
        "provider": "eks",
        "accelerator": "gaudi-1",
        "amiId": "ami-0a1b2c3d",
        "size": {"max": 1},
    }
    [(path, message)] = pool_errors("eu-central-1", gaudi)
    assert (path, "us-east-1, us-west-2" in message) == (("nodePools", "p", "accelerator"), True)


@pytest.mark.parametrize("region", ["eu-isoe-west-1", "us-gov-west-1"])
def test_a_region_outside_the_table_says_nothing(region):
    assert aws_api.regions_instead("g6e.4xlarge", region) == ()
    assert list(aws_api.scarce_types(["g6e.4xlarge"], region, [f"{region}a"])) == []


def test_zones_that_may_all_lack_a_type_are_noted_with_the_command_that_asks():
    [sentence] = aws_api.scarce_types(["p5e.48xlarge"], "us-west-2", ["us-west-2a", "us-west-2b"])
    assert sentence.startswith(
        "of the 4 zones of us-west-2, whose names differ by account, EC2 offers p5e.48xlarge in 1."
    )
    assert "inferplan doctor asks whether us-west-2a, us-west-2b is among yours." in sentence
    assert (
        list(
            aws_api.scarce_types(
                ["g6e.4xlarge"], "us-east-1", ["us-east-1a", "us-east-1b", "us-east-1c"]
            )
        )
        == []
    ), "one of three has it"


@pytest.mark.full
def test_the_table_is_that_of_the_installed_moto():
    assert aws_api.OFFERINGS_FILE.read_text() == tables.offerings(), (
        "run: python -m inferplan.components.platforms.aws.tables"
    )
