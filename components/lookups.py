"""Looks up what a stack adopts at AWS, so that what is missing is told by the key that names it; and who is asking.

It reads and never changes; what a plan without credentials gets instead is the engine's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pulumi

Result = TypeVar("Result")


async def look_up(
    token: str, arguments: Mapping[str, Any], result: type[Result], *, key: str, remedy: str, options: pulumi.InvokeOptions
) -> Result:
    """What the provider function `token` answers. `key` is where the user named it, `remedy` what to do.

    Raises pulumi.RunError naming both when there is no such thing, or when it is not known yet.
    """
    [value] = arguments.values()
    try:
        # Not the typed function: an output of its own would fail first, in the provider's words and without ours.
        found = await pulumi.runtime.invoke_async(token, dict(arguments), opts=options, typ=result)
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the person is told which key to correct
        raise pulumi.RunError(f"{key}: {value!r} was not found ({' '.join(str(error).split())}); {remedy}") from None
    if found is None:
        raise pulumi.RunError(f"{key}: {value!r} is known only after an update; name one that exists")
    return found


async def caller(options: pulumi.InvokeOptions) -> str | None:
    """The ARN of whoever's credentials the provider works with; None in a plan without any."""
    found = await pulumi.runtime.invoke_async("aws:index/getCallerIdentity:getCallerIdentity", {}, opts=options)
    return (found or {}).get("arn")
