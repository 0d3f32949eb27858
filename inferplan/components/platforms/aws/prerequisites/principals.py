"""The prerequisites of what an account admits: callers to a cluster, and images to EC2 (`rows.toml`)."""

import json
import shlex
from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
)
from inferplan.components.platforms.aws.prerequisites.world import World

# The alias and the account of the images that EKS publishes.
_EKS_IMAGES = {"amazon", "602401143452"}


@prerequisite("access-entry")
def _(world: World) -> Iterator[Values | str]:
    """Only the mode API has no second list, aws-auth in the cluster, that may name the caller."""
    mode = (world.existing or {}).get("accessConfig", {}).get("authenticationMode")
    caller = _caller(world) if mode == "API" else None
    if caller is None:
        return
    call = {"clusterName": world.cluster.name, "principalArn": caller}
    entry = world.find("eks", "describe_access_entry", **call)
    yield EXAMINED
    groups = (entry or {}).get("accessEntry", {}).get("kubernetesGroups")
    policies = entry and world.ask("eks", "list_associated_access_policies", **call)
    if groups or (policies or {}).get("associatedAccessPolicies"):
        return
    start = f"--region {world.cluster.region} --cluster-name {world.cluster.name}"
    create = (
        f"aws eks create-access-entry {start} --principal-arn {caller} && " if not entry else ""
    )
    yield {
        "caller": caller,
        "state": "an access entry without rights" if entry else "no access entry",
        "commands": (
            f"{create}aws eks associate-access-policy {start} --principal-arn {caller} --policy-arn"
            " arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy --access-scope"
            " type=cluster"
        ),
    }


def _caller(world: World) -> str | None:
    """Return the role or user that EKS knows, None for another kind of identity."""
    arn = str(world.ask("sts", "get_caller_identity")["Arn"])
    kind, _, name = arn.rpartition(":")[2].partition("/")
    if kind != "assumed-role":
        return arn if kind == "user" else None
    answer = world.find("iam", "get_role", RoleName=name.partition("/")[0])
    return None if answer is None else str(answer["Role"]["Arn"])


@prerequisite("allowed-images")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """Images of the account itself are always allowed; a pool with `amiId` names one."""
    if all(pool.ami_id is not None for pool in world.pools.values()):
        return
    live = world.ask("ec2", "get_allowed_images_settings")
    yield EXAMINED
    criteria = live.get("ImageCriteria", [])
    fitting = [
        {*each} - {"ImageProviders"}
        for each in criteria
        if _EKS_IMAGES & {*each.get("ImageProviders", _EKS_IMAGES)}
    ]
    if live.get("State") != "enabled" or set() in fitting:
        return
    if fitting:
        yield Unchecked("Allowed AMIs of the account have criteria that only an image shows")
        return
    managed = live.get("ManagedBy") == "declarative-policy"
    wanted = shlex.quote(json.dumps([*criteria, {"ImageProviders": ["amazon"]}]))
    yield {"criteria": None if managed else wanted}
