"""Looks up existing AWS resources that a stack names, and the caller's identity, so that errors
name the field to correct.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

import pulumi

Result = TypeVar("Result")

# Errors of S3, KMS and EC2 for a resource that does not exist. Any other error may be a missing
# permission.
_NOT_FOUND: Final = re.compile(r"NotFound|NoSuch|not found|couldn't find|no results", re.IGNORECASE)


async def look_up(
    token: str,
    arguments: Mapping[str, Any],
    result: type[Result],
    *,
    key: str,
    remedy: str,
    options: pulumi.InvokeOptions,
) -> Result:
    """Call the provider function `token`. `key` is the user's field, `remedy` the advice of an
    error.

    In a plan without the engine the result is unknown. Raises pulumi.RunError with both if the
    resource does not exist or is not known yet.
    """
    [value] = arguments.values()
    try:
        # Not the typed function: its own output would fail first, with the provider's message
        # instead of ours.
        answer = await pulumi.runtime.invoke_async(token, dict(arguments), opts=options, typ=result)
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the error names the field to correct
        raise _not_found(key, value, _one_line(error), remedy) from None
    if answer is None and pulumi.runtime.is_dry_run():
        return cast("Result", pulumi.UNKNOWN)
    if answer is None:
        raise pulumi.RunError(
            f"{key}: {value!r} is only known after an update. Name an existing resource."
        )
    return answer


async def look_up_if_permitted(
    token: str,
    arguments: Mapping[str, Any],
    *,
    name: str,
    key: str,
    remedy: str,
    options: pulumi.InvokeOptions,
) -> Mapping[str, Any]:
    """Call the provider function `token` for the resource `name` of the field `key`; {} if the
    caller may not read it.

    The caller may lack permission for a resource that pods use (a bucket of another account), which
    is only a warning. Raises pulumi.RunError with `remedy` if the resource does not exist.
    """
    try:
        return await pulumi.runtime.invoke_async(token, dict(arguments), opts=options) or {}
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the message names the field
        cause = _one_line(error)
        if _NOT_FOUND.search(cause):
            raise _not_found(key, name, cause, remedy) from None
        pulumi.warn(
            f"{key}: cannot check that {name!r} exists ({cause}); continuing without the check"
        )
        return {}


async def look_up_kms_key(arn: str, *, key: str, options: pulumi.InvokeOptions) -> str:
    """Return `arn` of the field `key` if KMS knows it; raises like `look_up_if_permitted`."""
    remedy = "Correct it, or remove it to use the default key."
    await look_up_if_permitted(
        "aws:kms/getKey:getKey", {"keyId": arn}, name=arn, key=key, remedy=remedy, options=options
    )
    return arn


async def private_subnets(network: Any, options: pulumi.InvokeOptions) -> list[str]:
    """Return the private subnets among those of an existing cluster, and name them. Nodes have no
    public address, so in a public subnet, which a route to an internet gateway makes public, they
    would reach nothing.
    """
    subnets, key, remedy = sorted(network.subnet_ids), "cluster.name", "Set subnets of the pools."
    ask = partial(
        look_up_if_permitted, name=network.vpc_id, key=key, remedy=remedy, options=options
    )
    listed = await ask("aws:ec2/getRouteTables:getRouteTables", {"vpcId": network.vpc_id})
    tables = [
        await ask("aws:ec2/getRouteTable:getRouteTable", {"routeTableId": each})
        for each in listed.get("ids") or ()
    ]
    chosen = without_public(subnets, tables)
    if not chosen:
        raise pulumi.RunError(
            f"{key}: all subnets of the cluster are public ({', '.join(subnets)}), and nodes get no"
            f" public address. {remedy}"
        )
    pulumi.info(
        "nodes without subnets in the stack file start in the private subnets of the cluster:"
        f" {', '.join(chosen)}"
    )
    return chosen


def without_public(subnets: Sequence[str], tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return those of `subnets` whose route table has no internet gateway. A subnet without an own
    table has the main one of its VPC.
    """
    is_public, main = {}, False
    for table in tables:
        through = any(
            str(route.get("gatewayId") or "").startswith("igw-")
            for route in table.get("routes") or ()
        )
        for each in table.get("associations") or ():
            main = through if each.get("main") else main
            is_public |= {each["subnetId"]: through} if each.get("subnetId") else {}
    return [each for each in subnets if not is_public.get(each, main)]


async def caller_arn(options: pulumi.InvokeOptions) -> str | None:
    """Return the ARN of the provider's credentials; None in a plan without credentials."""
    answer = await pulumi.runtime.invoke_async(
        "aws:index/getCallerIdentity:getCallerIdentity", {}, opts=options
    )
    return (answer or {}).get("arn")


async def role_arn(principal: str, options: pulumi.InvokeOptions) -> str | None:
    """Return the ARN, with its path, of the role that has the name in `principal`; None for a user,
    or if the caller may not read roles.
    """
    if ":role/" not in principal:
        return None
    try:
        name = principal.rpartition("/")[2]
        answer = await pulumi.runtime.invoke_async(
            "aws:iam/getRole:getRole", {"name": name}, opts=options
        )
    except Exception:  # noqa: BLE001 - without permission iam:GetRole the warning names the command that prints the ARN
        return None
    return (answer or {}).get("arn")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _not_found(key: str, value: Any, cause: str, remedy: str) -> pulumi.RunError:
    return pulumi.RunError(f"{key}: {value!r} was not found ({cause}). {remedy}")
