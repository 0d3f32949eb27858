from __future__ import annotations

import math

import pytest

from inferplan.hardware.machines import ec2_devices, machines
from inferplan.kube.names import vendor_of
from inferplan.policies.subjects.placement import _accelerators_of_types


@pytest.mark.parametrize("name", [each for each, of in machines().items() if of.provider == "ec2"])
def test_every_table_says_the_same_number_of_accelerators(name):
    machine = machines()[name]
    resource, count = ec2_devices()[name]
    assert count == machine.accelerator_count
    assert bool(vendor_of(resource)) == (machine.accelerator is not None)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["p3.2xlarge"], {"nvidia": 1}),
        (["g7e.12xlarge"], {"nvidia": 2}),
        (["dl1.24xlarge"], {"habana": 8}),
        (["trn1.32xlarge"], {"aws": 16}),
        (["p5.48xlarge", "p5.4xlarge"], {"nvidia": 1}),
        (["m7i.4xlarge"], {}),
        ([], {}),
    ],
)
def test_policies_read_the_accelerators_of_an_instance_type_from_the_table(types, expected):
    assert _accelerators_of_types(types) == expected


def test_a_type_that_no_table_lists_limits_nothing():
    assert set(_accelerators_of_types(["p9.48xlarge"]).values()) == {math.inf}
    assert _accelerators_of_types(["g9.xlarge"], nvidia=True) == {"nvidia": math.inf}
