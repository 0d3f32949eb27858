"""Looks up what a stack adopts at AWS, so that what is missing is told by the key that names it; and who is asking.

It reads and never changes; what a plan without credentials gets instead is the engine's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import pulumi

Result = TypeVar("Result")

# What S3, KMS and EC2 answer, through the provider, where there is no such thing; anything else may be a right that is missing.
_ABSENT: Final = re.compile(r"NotFound|NoSuch|not found|couldn't find|no results", re.IGNORECASE)


async def look_up(
    token: str, arguments: Mapping[str, Any], result: type[Result], *, key: str, remedy: str, options: pulumi.InvokeOptions
) -> Result:
    """What the provider function `token` answers. `key` is where the user named it, `remedy` what to do.

    Raises pulumi.RunError naming both when there is no such thing, or when it is not known yet.
    """
    [value] = arguments.values()
    try:
        # Not the typed function: an output of its own would fail first, in the provider's words and without ours.
        answer = await pulumi.runtime.invoke_async(token, dict(arguments), opts=options, typ=result)
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the person is told which key to correct
        raise _absent(key, value, _words(error), remedy) from None
    if answer is None:
        raise pulumi.RunError(f"{key}: {value!r} is known only after an update; name one that exists")
    return answer


async def found(
    token: str, arguments: Mapping[str, Any], *, named: str, key: str, remedy: str, options: pulumi.InvokeOptions
) -> Mapping[str, Any]:
    """What the provider function `token` tells of the thing that `key` calls `named`, {} when it tells nothing.

    Whoever deploys may lack the right to look at what pods will use (the bucket of another account): that is a warning.
    Raises pulumi.RunError with `remedy` when there is no such thing.
    """
    try:
        return await pulumi.runtime.invoke_async(token, dict(arguments), opts=options) or {}
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the person is told which key it is about
        cause = _words(error)
        if _ABSENT.search(cause):
            raise _absent(key, named, cause, remedy) from None
        pulumi.warn(f"{key}: whether {named!r} is there could not be asked ({cause}); it is taken as it is")
        return {}


async def kms_key(arn: str, *, key: str, options: pulumi.InvokeOptions) -> str:
    """`arn`, which `key` names, once KMS knows of it; raises as `found` does."""
    remedy = "correct it, or leave it out where no key of your own encrypts this"
    await found("aws:kms/getKey:getKey", {"keyId": arn}, named=arn, key=key, remedy=remedy, options=options)
    return arn


async def caller(options: pulumi.InvokeOptions) -> str | None:
    """The ARN of whoever's credentials the provider works with; None in a plan without any."""
    answer = await pulumi.runtime.invoke_async("aws:index/getCallerIdentity:getCallerIdentity", {}, opts=options)
    return (answer or {}).get("arn")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())


def _absent(key: str, value: Any, cause: str, remedy: str) -> pulumi.RunError:
    return pulumi.RunError(f"{key}: {value!r} was not found ({cause}); {remedy}")
