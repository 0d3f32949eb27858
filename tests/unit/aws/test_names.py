"""Names that Pulumi makes of ours, and what AWS takes."""

from __future__ import annotations

from tests.unit.aws.rig import BUCKET, CREATED, L40S, SYSTEM, declared, model

# The most characters that AWS takes, of the resources whose names Pulumi makes: the name here, a
# hyphen and seven digits.
LONGEST_NAMES = {
    "aws:ec2/launchTemplate:LaunchTemplate": 128,
    "aws:ec2/placementGroup:PlacementGroup": 255,
    "aws:ec2/securityGroup:SecurityGroup": 255,
    "aws:eks/nodeGroup:NodeGroup": 63,
    "aws:iam/role:Role": 64,
    "aws:iam/rolePolicy:RolePolicy": 128,
}


def test_the_longest_names_that_a_stack_may_use_fit_what_aws_takes():
    pool, store, name = "p" * 63, "s" * 63, "m" * 46
    pools = {pool: {**L40S, "capacityTypes": ["SPOT", "ON_DEMAND"]}, "system": SYSTEM}
    models = {
        each: model(pool=pool, weights={"store": store, "path": "x"})
        for each in (name, name[:-1] + "n")
    }
    models["q" * 46] = model(
        pool=pool, weights={"store": store, "path": "x"}, preheat={"into": "shared"}
    )
    storage = {store: {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
    recording = declared(
        cluster={**CREATED, "name": "c" * 100}, nodePools=pools, storage=storage, models=models
    )
    named = [each for each in recording if each.type in LONGEST_NAMES and "name" not in each.inputs]
    assert len(named) > 15
    assert [each.urn for each in named if len(each.name) + 8 > LONGEST_NAMES[each.type]] == []
    unknown = {each.type for each in recording if each.type.startswith("aws:iam/")} - set(
        LONGEST_NAMES
    )
    assert unknown == {"aws:iam/rolePolicyAttachment:RolePolicyAttachment"}, (
        "a resource whose name has a limit too"
    )
