"""The prerequisites of KMS keys (`rows.toml`): those of buckets, and that of the disks of nodes."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.components.platforms.aws.prerequisites.resource_policy import (
    Request,
    denial,
    is_allowed,
    with_statement,
)
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
)
from inferplan.components.platforms.aws.prerequisites.weights import (
    Bucket,
    buckets,
    present_buckets,
    reader_request,
)
from inferplan.components.platforms.aws.prerequisites.world import World

_SCALER = "autoscaling.amazonaws.com"
_VOLUME_RIGHTS = ("kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext")
_GRANTED = (
    "Encrypt Decrypt ReEncryptFrom ReEncryptTo GenerateDataKey GenerateDataKeyWithoutPlaintext"
    " DescribeKey CreateGrant"
)


def bucket_key(world: World, bucket: Bucket) -> str | None:
    """Return the key of the bucket's default encryption, None for a key that AWS manages."""
    answer = world.find("s3", "get_bucket_encryption", Bucket=bucket.name)
    rules = (answer or {}).get("ServerSideEncryptionConfiguration", {}).get("Rules", ())
    defaults = [each.get("ApplyServerSideEncryptionByDefault", {}) for each in rules]
    key = next((each["KMSMasterKeyID"] for each in defaults if each.get("KMSMasterKeyID")), None)
    return None if key is None else customer_key(world, key)


def customer_key(world: World, key: str) -> str | None:
    """Return the ARN of `key` (an id, an alias or an ARN), None for a key that AWS manages."""
    if "alias/aws/" in key:
        return None
    answer = world.find("kms", "describe_key", KeyId=key)
    if answer is None:
        return key
    row = answer["KeyMetadata"]
    return None if row.get("KeyManager") == "AWS" else row["Arn"]


@prerequisite("bucket-key")
def _(world: World) -> Iterator[Values | str]:
    for bucket in present_buckets(world):
        yield EXAMINED
        key = bucket_key(world, bucket)
        if key is not None and key != bucket.spec.kms_key_arn:
            yield {
                "store": bucket.store,
                "bucket": bucket.name,
                "key": key,
                "named": bucket.spec.kms_key_arn or "no key",
            }


@prerequisite("key-policy")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """The role of pods may decrypt only if the key's policy leaves that to IAM, or names the role."""
    for bucket in buckets(world):
        key = bucket.spec.kms_key_arn
        if key is None:
            continue
        if key.split(":")[4] != world.account:
            yield Unchecked(
                f"key {key} is of another account, whose owner has to let {world.account} decrypt"
            )
            continue
        policy = _key_policy(world, key)
        if policy is None:
            continue
        yield EXAMINED
        region = bucket.spec.region or world.cluster.region
        base = reader_request(world, bucket)
        context = {
            **base.context,
            "kms:viaservice": f"s3.{region}.amazonaws.com",
            "kms:calleraccount": world.account,
            "kms:encryptioncontext:aws:s3:arn": f"arn:aws:s3:::{bucket.name}",
        }
        request = Request(action="kms:Decrypt", resource=key, arn=base.arn, context=context)
        denied = denial(policy, request)
        if denied is not None or is_allowed(policy, request) is False:
            statement = {
                "Sid": "InferplanReaders",
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{world.account}:root"},
                "Action": "kms:Decrypt",
                "Resource": "*",
                "Condition": {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}},
            }
            yield {
                "store": bucket.store,
                "key": key,
                "policy": None if denied else with_statement(policy, statement),
                "cause": (
                    f"statement {denied[0].get('Sid', 'without Sid')} denies it"
                    if denied
                    else f"no statement allows it to roles of account {world.account}"
                ),
            }


def _key_policy(world: World, key: str) -> str | None:
    answer = world.find("kms", "get_key_policy", KeyId=key, PolicyName="default")
    return None if answer is None else answer["Policy"]


@prerequisite("volume-key")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """Disks of nodes get the account's default key for EBS: with a key of one's own, EC2 Auto Scaling
    needs the right to use it, or instances end with Client.InternalError.
    """
    if not world.pools:
        return
    default = world.ask("ec2", "get_ebs_default_kms_key_id").get("KmsKeyId", "alias/aws/ebs")
    key = customer_key(world, default)
    yield EXAMINED
    if key is None:
        return
    if any(pool.is_auto_mode for pool in world.pools.values()):
        yield Unchecked(
            f"the account's default key for EBS is {key}, and nodes of EKS Auto Mode start with the"
            " role of the cluster, which the key's policy has to allow",
            "https://docs.aws.amazon.com/eks/latest/userguide/auto-troubleshoot.html",
        )
    if all(pool.is_auto_mode for pool in world.pools.values()):
        return
    if key.split(":")[4] != world.account:
        yield Unchecked(
            f"the account's default EBS key, {key}, belongs to another account, so its policy was"
            " not checked"
        )
        return
    live = world.find("kms", "describe_key", KeyId=key)
    state = "missing" if live is None else live["KeyMetadata"]["KeyState"]
    role = (
        f"arn:aws:iam::{world.account}:role/aws-service-role/{_SCALER}/AWSServiceRoleForAutoScaling"
    )
    policy = None if state != "Enabled" else _key_policy(world, key)
    context = {
        "kms:grantisforawsresource": "true",
        "kms:viaservice": f"ec2.{world.cluster.region}.amazonaws.com",
        "kms:calleraccount": world.account,
        "aws:principalarn": role,
        "aws:principalaccount": world.account,
    }
    lacking = [
        right
        for right in _VOLUME_RIGHTS
        if is_allowed(
            policy,
            Request(action=right, resource=key, arn=role, context=context, by_account=False),
        )
        is not True
    ]
    if state == "Enabled" and (not lacking or _is_granted(world, key, role)):
        return
    region = f"--region {world.cluster.region}"
    name = role.rpartition("/")[2]
    create = (
        ""
        if world.find("iam", "get_role", RoleName=name)
        else f"aws iam create-service-linked-role --aws-service-name {_SCALER} && "
    )
    yield {
        "key": key,
        "cause": f"is {state}" if state != "Enabled" else f"does not let {name} use it",
        "commands": (
            f"aws kms enable-key {region} --key-id {key.rpartition('/')[2]}"
            if state == "Disabled"
            else f"{create}aws kms create-grant {region} --key-id {key} --grantee-principal {role}"
            f" --name inferplan --operations {_GRANTED}"
            if state == "Enabled"
            else None
        ),
    }


def _is_granted(world: World, key: str, role: str) -> bool:
    grants: list[Mapping[str, Any]] = world.ask("kms", "list_grants", KeyId=key)["Grants"]
    return any(
        each["GranteePrincipal"] == role and "CreateGrant" in each["Operations"] for each in grants
    )
