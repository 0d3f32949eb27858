"""The prerequisites of weights (`rows.toml`): what policies, keys and storage classes let pods read."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from inferplan.components.platforms.aws.prerequisites.resource_policy import (
    UNKNOWN,
    Request,
    denial,
    is_allowed,
    statements,
    with_statement,
    with_value,
)
from inferplan.components.platforms.aws.prerequisites.routes import Row
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
)
from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.components.stores import S3StoreSpec

# The first page of a listing. A model has some hundred files.
_MOST_OBJECTS = 1000
_PART = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\..*")
_ARCHIVED = ("GLACIER", "DEEP_ARCHIVE")


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The existing bucket of a store from which pods read with roles of the stack: `paths` are the
    directories of the models.
    """

    store: str
    spec: S3StoreSpec
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.spec.bucket


def buckets(world: World) -> Iterator[Bucket]:
    for name, store in world.sections.storage.items():
        if (
            isinstance(store, S3StoreSpec)
            and store.endpoint is None
            and store.credentials is None
            and store.create is None
        ):
            files = [
                each
                for model in world.sections.models.values()
                for each in (model.stored_files, *model.artifacts.values())
                if each is not None and each.store == name
            ]
            paths = {"/".join(filter(None, (store.prefix, each.path))) for each in files}
            yield Bucket(store=name, spec=store, paths=tuple(sorted(paths)))


def present_buckets(world: World) -> Iterator[Bucket]:
    """Yield the buckets that exist. Whether one does is another row's question."""
    return (each for each in buckets(world) if world.find("s3", "head_bucket", Bucket=each.name))


def reader_request(world: World, bucket: Bucket, action: str = "s3:GetObject") -> Request:
    """Return a read of the weights in `bucket`."""
    path = bucket.paths[0] if bucket.paths else bucket.spec.prefix or ""
    arn = f"arn:aws:s3:::{bucket.name}"
    resource = arn if action == "s3:ListBucket" else f"{arn}/{path}/x".replace("//", "/")
    request = request_of(world, resource, owner=world.account, action=action)
    return replace(
        request,
        context={
            **request.context,
            "aws:requestedregion": bucket.spec.region or world.cluster.region,
        },
    )


def request_of(world: World, resource: str, *, owner: str, action: str = "s3:GetObject") -> Request:
    """Return a request by a role of the stack, over TLS, through the endpoint of the VPC or the
    address of its NAT gateway, for a `resource` of the account `owner`.
    """
    account, tags = world.account, {**world.cluster.tags, "inferplan.dev/stack": world.stack}
    context = {
        "aws:securetransport": "true",
        "aws:principalaccount": account,
        "aws:principalarn": f"arn:aws:iam::{account}:role/reader-0000000",
        "aws:principaltype": "AssumedRole",
        "aws:principalisawsservice": "false",
        "aws:viaawsservice": "false",
        "aws:resourceaccount": owner,
        "s3:resourceaccount": owner,
        "aws:requestedregion": world.cluster.region,
        "s3:tlsversion": "1.3",
        **_origin(world),
        **{f"aws:principaltag/{key.lower()}": value for key, value in tags.items()},
        **dict.fromkeys(
            ("aws:userid", "aws:useragent", "aws:currenttime", "aws:epochtime"), UNKNOWN
        ),
    }
    return Request(
        action=action, resource=resource, arn=context["aws:principalarn"], context=context
    )


def _origin(world: World) -> Mapping[str, str]:
    """Return the condition keys that say where a request comes from. Those of a VPC that does not
    exist yet are unknown.
    """
    if world.vpc is None:
        return dict.fromkeys(("aws:sourcevpc", "aws:sourcevpce", "aws:sourceip"), UNKNOWN)
    endpoint = next(iter(world.s3_endpoints), None)
    if endpoint is not None:
        return {"aws:sourcevpc": world.vpc, "aws:sourcevpce": endpoint["VpcEndpointId"]}
    addresses = world.addresses
    return {"aws:sourceip": addresses.pop() if len(addresses) == 1 else UNKNOWN}


@prerequisite("bucket-policy")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    for bucket in present_buckets(world):
        answer = world.find("s3", "get_bucket_policy", Bucket=bucket.name)
        yield EXAMINED
        policy = None if answer is None else str(answer["Policy"])
        request = reader_request(world, bucket)
        if any("aws:principalorg" in str(each).lower() for each in statements(policy)):
            request = _with_organization(world, request)
        for action in ("s3:GetObject", "s3:ListBucket"):
            one = reader_request(world, bucket, action)
            denied = denial(policy, replace(one, context=request.context))
            if denied is None or policy is None:
                continue
            statement, certain = denied
            sid = statement.get("Sid", "without Sid")
            if not certain:
                yield Unchecked(
                    f"statement {sid} of the policy of bucket {bucket.name} denies {action} on"
                    " conditions that only a request shows"
                )
                break
            change = with_value(policy, statement, replace(one, context=request.context))
            yield {
                "store": bucket.store,
                "bucket": bucket.name,
                "action": action,
                "sid": sid,
                "policy": change and change[0],
                "value": change and change[1],
            }
            break


def _with_organization(world: World, request: Request) -> Request:
    try:
        answer = world.find("organizations", "describe_organization")
    except Exception as failed:
        if not hasattr(failed, "permission"):
            raise
        answer = {"Organization": {"Id": UNKNOWN}}
    if answer is None:
        return request
    unknown = {"aws:principalorgpaths": UNKNOWN}
    context = {**request.context, "aws:principalorgid": answer["Organization"]["Id"], **unknown}
    return replace(request, context=context)


def _objects(world: World, bucket: Bucket, path: str) -> list[Row]:
    answer = world.ask(
        "s3",
        "list_objects_v2",
        Bucket=bucket.name,
        Prefix=f"{path}/",
        OptionalObjectAttributes=["RestoreStatus"],
        PaginationConfig={"MaxItems": _MOST_OBJECTS},
    )
    return list(answer.get("Contents", ())) or _single(world, bucket, path)


def _single(world: World, bucket: Bucket, path: str) -> list[Row]:
    """Return the object `path` itself: further files of a model may be one file each."""
    answer = world.ask(
        "s3",
        "list_objects_v2",
        Bucket=bucket.name,
        Prefix=path,
        OptionalObjectAttributes=["RestoreStatus"],
        PaginationConfig={"MaxItems": 1},
    )
    return [each for each in answer.get("Contents", ()) if each["Key"] == path]


@prerequisite("weights")
def _(world: World) -> Iterator[Values | str]:
    for bucket in present_buckets(world):
        for path in bucket.paths:
            yield EXAMINED
            objects = _objects(world, bucket, path)
            has_any = any(each.get("Size", 1) for each in objects)
            for state in _missing_parts(objects) if has_any else ["no object"]:
                yield {"store": bucket.store, "bucket": bucket.name, "path": path, "state": state}


def _missing_parts(objects: Sequence[Row]) -> Iterator[str]:
    """Yield the weights of which parts are missing, as an upload that broke off leaves them."""
    parts: dict[tuple[str, str], set[str]] = {}
    for key in [each["Key"] for each in objects] if len(objects) < _MOST_OBJECTS else ():
        if found := _PART.fullmatch(key):
            parts.setdefault((found[1], found[3]), set()).add(found[2])
    for (stem, total), live in parts.items():
        if len(live) < int(total):
            yield f"{len(live)} of the {int(total)} parts of {stem.rpartition('/')[2]}"


@prerequisite("weights-archived")
def _(world: World) -> Iterator[Values | str]:
    for bucket in present_buckets(world):
        for path in bucket.paths:
            objects = _objects(world, bucket, path)
            waiting = [each for each in objects if _is_archived(each)]
            archived = [
                each["Key"]
                for each in waiting
                if not (each.get("RestoreStatus") or {}).get("IsRestoreInProgress")
            ]
            if objects:
                yield EXAMINED
            if waiting:
                commands = [
                    f"aws s3api restore-object --bucket {bucket.name} --key {shlex.quote(key)}"
                    " --restore-request Days=30"
                    for key in archived
                ]
                yield {
                    "store": bucket.store,
                    "bucket": bucket.name,
                    "path": path,
                    "count": len(archived) or len(waiting),
                    "state": "archived" if archived else "being restored",
                    "first": archived[0] if archived else waiting[0]["Key"],
                    "commands": " && ".join(commands) or None,
                }


def _is_archived(each: Row) -> bool:
    restored = (each.get("RestoreStatus") or {}).get("RestoreExpiryDate")
    return each.get("StorageClass") in _ARCHIVED and not restored


@prerequisite("file-system-policy")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """Nodes mount without an identity of IAM, over TLS and through the access point."""
    written = {
        model.preheat.into for model in world.sections.models.values() if model.preheat is not None
    }
    for name, store in world.file_systems.items():
        id_, point = store.file_system_id, store.access_point_id
        if world.find("efs", "describe_file_systems", FileSystemId=id_) is None:
            continue
        answer = world.find("efs", "describe_file_system_policy", FileSystemId=id_)
        yield EXAMINED
        policy = None if answer is None else answer["Policy"]
        if policy is None:
            continue
        here = f"arn:aws:elasticfilesystem:{world.cluster.region}:{world.account}"
        point_arn = f"{here}:access-point/{point}"
        context = {
            "aws:securetransport": "true",
            "elasticfilesystem:accessedviamounttarget": "true",
            "elasticfilesystem:accesspointarn": point_arn,
        }
        rights = ["ClientMount", *(["ClientWrite"] if name in written else [])]
        make = partial(Request, resource=f"{here}:file-system/{id_}", context=context)
        requests = [make(action=f"elasticfilesystem:{each}") for each in rights]
        denied = next((found for each in requests if (found := denial(policy, each))), None)
        lacking = [each.action for each in requests if is_allowed(policy, each) is not True]
        if denied is not None or lacking:
            statement = {
                "Sid": f"Inferplan{name.title().replace('-', '')}",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": [each.action for each in requests],
                "Resource": requests[0].resource,
                "Condition": {
                    "Bool": {
                        "elasticfilesystem:AccessedViaMountTarget": "true",
                        "aws:SecureTransport": "true",
                    },
                    "StringEquals": {"elasticfilesystem:AccessPointArn": point_arn},
                },
            }
            yield {
                "store": name,
                "id": id_,
                "actions": ", ".join(lacking or [requests[0].action]),
                "cause": (
                    f"statement {denied[0].get('Sid', 'without Sid')} denies it"
                    if denied
                    else "it allows only requests with an identity of IAM"
                ),
                "policy": None if denied else with_statement(policy, statement),
            }
