"""Accounts whose quotas, offerings, reservations, keys, buckets or administrators a stack does not
fit, each with one fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inferplan.components.platforms.aws.credentials import AwsError
from inferplan.errors import DeniedError
from tests.unit.doctor.aws_account import ACCOUNT, ROLE
from tests.unit.doctor.worlds import Shared

Break = Callable[[Shared], Any]
STANDARD, SPOT = (
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
)
SSO = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_1f9ff11932198c00"
ELSEWHERE = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Admin_1f9ff11932198c00"


def quota(name: str, value: int) -> Break:
    return lambda world: world.quotas.update({name: value})


def fresh(*changes: Break, **fields: Any) -> Break:
    """A stack that creates its cluster in the existing subnets; with `zones`, in a VPC of its own."""

    def change(world: Shared) -> None:
        world.created()
        if "zones" in fields:
            world.config["cluster"].pop("subnets")
        world.config["cluster"]["create"] |= fields
        for each in changes:
            each(world)

    return change


def pool(**fields: Any) -> Break:
    return lambda world: world.config["nodePools"]["system"].update(fields)


def offered(**zones: list[str]) -> Break:
    """Instance types of m7i by their sizes. `_2xlarge` is a size."""
    return lambda world: world.offered.update(
        {f"m7i.{size.strip('_')}": where for size, where in zones.items()}
    )


def both(*changes: Break) -> Break:
    return lambda world: [each(world) for each in changes]


def block(**live: Any) -> Break:
    def change(world: Shared) -> None:
        reservation = {"id": world.reservation["CapacityReservationId"], "zone": "us-east-1b"}
        world.config["nodePools"]["h100"] = {
            "provider": "eks", "accelerator": "nvidia-h100", "instanceTypes": ["p5.48xlarge"], "capacityTypes": ["CAPACITY_BLOCK"],
            "capacityReservation": reservation, "size": {"max": 2},
        }  # fmt: skip
        world.offered |= {"p5.4xlarge": ["us-east-1b"]}
        world.reservation |= live

    return change


def bucket(name: str, *, create: bool = True, **fields: Any) -> Break:
    store = {
        "kind": "s3",
        "bucket": name,
        "prefix": "llm",
        **({"create": fields} if create else fields),
    }
    return lambda world: world.config["storage"].update(weights=store)


def of_another_account(world: Shared) -> None:
    def head(Bucket: str) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        if Bucket == "acme-weights":
            raise DeniedError("AWS denies it", permission="s3:ListBucket", remedy="")
        raise AwsError("no bucket", "404")

    world.answers["head_bucket"] = head
    world.answers["list_buckets"] = {"Buckets": []}
    bucket("acme-weights")(world)


def logs_elsewhere(world: Shared) -> None:
    def place(Bucket: str) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        return {"LocationConstraint": "eu-central-1"} if Bucket == "acme-access-logs" else {}

    world.answers["get_bucket_location"] = place
    bucket("acme-new", accessLogs={"bucket": "acme-access-logs"})(world)


def key(operation: str) -> Break:
    def change(world: Shared) -> None:
        metadata = world.ask("kms", "create_key")["KeyMetadata"]
        world.ask("kms", operation, KeyId=metadata["KeyId"])
        world.config["storage"]["weights"]["kmsKeyArn"] = metadata["Arn"]

    return change


def image(world: Shared) -> None:
    pool(amiType="CUSTOM", amiId="ami-0123456789abcdef0")(world)


def admins(*arns: str) -> Break:
    """`SSO` and `ROLE` exist, and the caller is ROLE."""

    def get_role(RoleName: str) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        arn = next((each for each in (SSO, ROLE) if each.rpartition("/")[2] == RoleName), None)
        if arn is None:
            raise AwsError("no role", "NoSuchEntity")
        return {
            "Role": {
                "Arn": arn,
                "Path": "/",
                "RoleName": RoleName,
                "RoleId": "AROA0123456789ABCDEF",
                "CreateDate": 0,
            }
        }

    return fresh(lambda world: world.answers.update(get_role=get_role), admins=list(arns))


_A, _B, _C = "us-east-1a", "us-east-1b", "us-east-1c"
SPOT_POOL = pool(
    instanceTypes=["m7i.2xlarge"], capacityTypes=["SPOT", "ON_DEMAND"], acceptScarcity=True
)
ACCOUNT_WORLDS: dict[str, tuple[str, Break, str]] = {
    "vCPUs for the start": ("vcpu-quotas", quota(STANDARD, 8), "8 vCPUs allowed, 0 in use by others; the stack needs"),
    "vCPUs for the maximum": ("vcpu-quotas", both(quota(STANDARD, 16), pool(instanceTypes=["m7i.2xlarge"])), "the stack needs 16 to start and 24 at its maximum"),
    "vCPUs of spot instances": ("vcpu-quotas", both(quota(SPOT, 4), SPOT_POOL), "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests: 4 vCPUs allowed"),
    "clusters": ("other-quotas", fresh(quota("Clusters", 0)), "Clusters: 0 allowed"),
    "VPCs": ("other-quotas", fresh(quota("VPCs per Region", 2), zones=[_A, _B]), "VPCs per Region: 2 allowed, 2 in use by others"),
    "internet gateways": ("other-quotas", fresh(quota("Internet gateways per Region", 1), zones=[_A, _B]), "Internet gateways per Region: 1 allowed, 1 in use"),
    "Elastic IPs": ("other-quotas", fresh(quota("EC2-VPC Elastic IPs", 2), zones=[_A, _B]), "EC2-VPC Elastic IPs: 2 allowed, 1 in use by others; the stack needs 2"),
    "NAT gateways in a zone": ("other-quotas", fresh(quota("NAT gateways per Availability Zone", 1), zones=[_A, _B]), "NAT gateways per Availability Zone: 1 allowed, 1 in use"),
    "file systems": ("other-quotas", both(quota("File systems per account", 1), lambda w: [w.config["storage"]["shared"].pop(each) for each in ("fileSystemId", "accessPointId")]), "File systems per account: 1 allowed, 1 in use"),
    "type in some zones": ("offerings", both(offered(_2xlarge=[_A, _B]), pool(instanceTypes=["m7i.2xlarge"])), "not in us-east-1c; no node of that type starts there"),
    "type in other zones of the cluster": ("offerings", both(offered(_2xlarge=[_A]), pool(instanceTypes=["m7i.2xlarge"], zones=[_B, _C])), "in us-east-1a, and not in the pool's zones us-east-1b, us-east-1c"),
    "one type of two nowhere": ("offerings", both(offered(_2xlarge=[]), pool(instanceTypes=["m7i.2xlarge", "m7i.4xlarge"])), "AWS offers m7i.2xlarge nowhere in us-east-1"),
    "the only type nowhere": ("offerings", both(offered(_2xlarge=[]), pool(instanceTypes=["m7i.2xlarge"])), "AWS offers m7i.2xlarge nowhere in us-east-1"),
    "name of a cluster that exists": ("AWS cluster", fresh(lambda w: w.config["cluster"].update(name="shared")), "cluster shared exists in us-east-1, and this stack did not create it"),
    "bucket that exists in the account": ("AWS buckets", bucket("acme-weights"), "acme-weights exists already in your account"),
    "bucket of another account": ("AWS buckets", of_another_account, "belongs to another account"),
    "bucket that does not exist": ("AWS buckets", bucket("acme-missing", create=False), "bucket acme-missing does not exist"),
    "access-log bucket that does not exist": ("AWS buckets", bucket("acme-new", accessLogs={"bucket": "acme-no-logs"}), "access-log bucket acme-no-logs does not exist"),
    "access-log bucket without a policy": ("AWS buckets", both(bucket("acme-new", accessLogs={"bucket": "acme-access-logs"}), lambda w: w.ask("s3", "delete_bucket_policy", Bucket="acme-access-logs")), "does not let logging.s3.amazonaws.com write"),
    "access-log bucket of another region": ("AWS buckets", logs_elsewhere, "access-log bucket acme-access-logs is in eu-central-1"),
    "disabled key": ("AWS keys", key("disable_key"), "is Disabled"),
    "key that is to be deleted": ("AWS keys", key("schedule_key_deletion"), "is PendingDeletion"),
    "reservation in another zone": ("AWS reservations", block(AvailabilityZone=_A), "is in us-east-1a, and the stack file says us-east-1b"),
    "reservation of another type": ("AWS reservations", block(InstanceType="p5.4xlarge"), "is for p5.4xlarge, and the pool has p5.48xlarge"),
    "reservation with fewer instances": ("AWS reservations", block(TotalInstanceCount=1), "has 1 instances, and size.max is 2"),
    "image that does not exist": ("AWS images", image, "image ami-0123456789abcdef0 is not available"),
    "caller who is no administrator": ("AWS account", admins(SSO), f"{ROLE} is not in cluster.create.admins"),
    "administrator who does not exist": ("AWS account", admins(ROLE, f"arn:aws:iam::{ACCOUNT}:role/gone"), "role/gone, which does not exist"),
    "administrator of another account": ("AWS account", admins(ROLE, "arn:aws:iam::999988887777:role/ci"), "which is not in account"),
    "role of IAM Identity Center with another path": ("AWS account", admins(ROLE, ELSEWHERE), "the role with that name has another path"),
}  # fmt: skip
# Without a command: what a person, AWS or time has to do.
NOT_EXECUTABLE = {
    "credentials of another account": "the user logs in with other credentials",
    "reservation that has ended, is scheduled or does not exist": (
        "capacity is bought, or begins by the calendar"
    ),
    "certificate that is missing, pending or for another host": (
        "the owner of the domain adds the DNS records of ACM"
    ),
    "key that does not exist": "weights that it encrypts cannot be read without it",
    "image for Gaudi that does not exist": "EKS has none; a person builds one",
    "VPC without two subnets for a load balancer": "networks are chosen by a person",
    "accelerators that no zone offers": "another region, or another accelerator",
    "control plane's zones without two that have control planes": "another region",
}
