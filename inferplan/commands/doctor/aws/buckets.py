"""Checks of S3: names that a stack takes, buckets that it uses, and whether a bucket takes access
logs.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.findings import Finding, error, ok, skipped, unchecked, warning
from inferplan.components.platforms.aws.prerequisites.resource_policy import with_statement
from inferplan.components.stores import S3StoreSpec
from inferplan.errors import DeniedError

_LOGS = "logging.s3.amazonaws.com"


def check_buckets(account: ExaminedAccount) -> Iterator[Finding]:
    stores = {
        name: store
        for name, store in account.settings.storage.items()
        if isinstance(store, S3StoreSpec) and store.endpoint is None
    }
    for name, store in stores.items():
        state = _state(account, store.bucket)
        yield from (
            _created(account, name, store.bucket, state)
            if store.create is not None
            else _used(account, name, store.bucket, state)
        )
        if store.create is not None and store.create.access_logs is not None:
            yield from _takes_logs(account, name, store.bucket, store.create.access_logs.bucket)
    if not stores:
        yield skipped("no store is a bucket at AWS")


def _created(account: ExaminedAccount, name: str, bucket: str, state: str) -> Iterator[Finding]:
    if state == "missing":
        yield ok(f"storage {name}: the bucket name {bucket} is free")
    elif state == "denied" and bucket not in _own_buckets(account):
        yield error(
            f"storage {name}: bucket {bucket} belongs to another account; bucket names are global",
            f"set storage.{name}.bucket: {bucket}-{account.caller['Account']}",
        )
    else:
        yield warning(
            f"storage {name}: bucket {bucket} exists already in your account; creating it fails"
            " unless this stack did",
            f"remove storage.{name}.create  # uses the bucket",
        )


def _own_buckets(account: ExaminedAccount) -> set[str]:
    """S3 denies a bucket of another account as it denies one of this account without the right, or
    with a login that has ended: only the list tells them apart.
    """
    return {each["Name"] for each in account.ask("s3", "list_buckets").get("Buckets", [])}


def _used(account: ExaminedAccount, name: str, bucket: str, state: str) -> Iterator[Finding]:
    if state == "missing":
        yield error(
            f"storage {name}: bucket {bucket} does not exist", _creation(bucket, account.region)
        )
    elif state == "denied":
        yield unchecked(
            f"AWS denies s3:ListBucket on {bucket}; needs permission s3:ListBucket. A bucket of"
            " another account must allow the pods to read it",
            "the owner of the bucket adds this statement to its policy:"
            f" {json.dumps(_reading(account, bucket))}; and to the policy of its key, if it has"
            f" one: {json.dumps(_decrypting(account))}",
        )
    else:
        yield ok(f"storage {name}: bucket {bucket} exists")


def _reading(account: ExaminedAccount, bucket: str) -> Mapping[str, Any]:
    """Return the statement with which roles of this account read a bucket of another one; IAM of
    this account gives the right to the roles of the stack alone.
    """
    arn = f"arn:aws:s3:::{bucket}"
    return {
        "Sid": "InferplanReaders",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account.caller['Account']}:root"},
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [arn, f"{arn}/*"],
    }


def _decrypting(account: ExaminedAccount) -> Mapping[str, Any]:
    service = f"s3.{account.region}.amazonaws.com"
    return {
        "Sid": "InferplanReaders",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account.caller['Account']}:root"},
        "Action": "kms:Decrypt",
        "Resource": "*",
        "Condition": {"StringEquals": {"kms:ViaService": service}},
    }


def _takes_logs(account: ExaminedAccount, name: str, source: str, bucket: str) -> Iterator[Finding]:
    state = _state(account, bucket)
    if state == "missing":
        yield error(
            f"storage {name}: access-log bucket {bucket} does not exist",
            f"{_creation(bucket, account.region)} && {_grant(account, bucket)}",
        )
        return
    if state == "denied":
        raise DeniedError(
            f"AWS denies s3:ListBucket on {bucket}",
            permission="s3:ListBucket",
            remedy=f"aws s3api head-bucket --bucket {bucket}",
        )
    region = account.world.bucket_region(bucket)
    if region != account.region:
        yield error(
            f"storage {name}: access-log bucket {bucket} is in {region}, and S3 logs of {source}"
            f" only to {account.region}",
            f"set storage.{name}.create.accessLogs.bucket: {bucket}-{account.region}",
        )
    elif not _allows_delivery(account, bucket):
        yield error(
            f"storage {name}: the policy of access-log bucket {bucket} does not let {_LOGS} write",
            _grant(account, bucket),
        )
    else:
        yield ok(f"storage {name}: access-log bucket {bucket} is in {region} and accepts logs")


def _allows_delivery(account: ExaminedAccount, bucket: str) -> bool:
    answer = account.world.find("s3", "get_bucket_policy", Bucket=bucket)
    if answer is None:
        return False
    policy = json.loads(answer["Policy"])
    statements = (
        policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    )
    return any(_lets_logs_in(each) for each in statements)


def _lets_logs_in(statement: Mapping[str, Any]) -> bool:
    principal, actions = statement.get("Principal", {}), _list(statement.get("Action", []))
    named = principal == "*" or _LOGS in _list(principal.get("Service", []))
    return (
        statement["Effect"] == "Allow"
        and named
        and not {"s3:PutObject", "s3:Put*", "s3:*", "*"}.isdisjoint(actions)
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _grant(account: ExaminedAccount, bucket: str) -> str:
    """Return the command that lets S3 deliver logs. All statements of the bucket's policy stay."""
    statement = {
        "Sid": "InferplanAccessLogs",
        "Effect": "Allow",
        "Principal": {"Service": _LOGS},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringEquals": {"aws:SourceAccount": account.caller["Account"]}},
    }
    answer = account.world.find("s3", "get_bucket_policy", Bucket=bucket)
    old = None if answer is None else answer["Policy"]
    return (
        f"aws s3api put-bucket-policy --bucket {bucket} --policy {with_statement(old, statement)}"
    )


def _creation(bucket: str, region: str) -> str:
    place = (
        ""
        if region == "us-east-1"
        else f" --create-bucket-configuration LocationConstraint={region}"
    )
    return f"aws s3api create-bucket --region {region} --bucket {bucket}{place}"


def _state(account: ExaminedAccount, bucket: str) -> str:
    try:
        return (
            "missing"
            if account.world.find("s3", "head_bucket", Bucket=bucket) is None
            else "present"
        )
    except DeniedError:
        return "denied"
