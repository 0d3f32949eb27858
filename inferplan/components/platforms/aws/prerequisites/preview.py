"""Names the prerequisites that an account does not meet in a preview with AWS credentials; it asks
nothing without them.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.lookups import caller_arn
from inferplan.components.platforms.aws.prerequisites.account import AskOnce
from inferplan.components.platforms.aws.prerequisites.table import rows_with_checks, unmet
from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.components.platforms.platform import Sections

_MISSING = ("NotFound", "NoSuch", "404")


class MissingError(Exception):
    """The resource does not exist."""

    missing = True


async def warn_about_prerequisites(
    cluster: EksClusterFields, sections: Sections, stack: str, options: pulumi.InvokeOptions
) -> None:
    """Warn about each unmet prerequisite with its remedy. What the caller may not read is left to
    `inferplan doctor`.
    """
    if not pulumi.runtime.is_dry_run() or await caller_arn(options) is None:
        return
    for text in await asyncio.to_thread(
        messages, World(cluster, sections, stack, AskOnce(asker(cluster.region)))
    ):
        pulumi.log.warn(text)


def messages(world: World) -> list[str]:
    from botocore.exceptions import BotoCoreError

    texts: list[str] = []
    unread = 0
    for name in rows_with_checks():
        try:
            texts += [f"{each.problem}. Remedy: {each.remedy}" for each in unmet(name, world)]
        except BotoCoreError as failed:
            # Neither network nor credentials: every further question would wait for its time limit.
            return [
                *texts,
                f"AWS was not asked about its prerequisites ({' '.join(str(failed).split())}). Run: inferplan doctor {world.stack}",
            ]
        except Exception:  # noqa: BLE001 - a missing permission must not stop a preview; the count says that something is unproven
            unread += 1
    return [
        *texts,
        *(
            [
                f"{unread} prerequisites of AWS could not be read. Run: inferplan doctor {world.stack}"
            ]
            if unread
            else []
        ),
    ]


def asker(region: str) -> Callable[..., Mapping[str, Any]]:
    """Return a function that calls AWS in `region` with the credentials of the environment."""
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import ClientError

    session, clients = botocore.session.Session(), dict[str, Any]()

    config = Config(
        region_name=region, connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 2}
    )

    def ask(service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        client = clients[service] = clients.get(service) or session.create_client(
            service, config=config
        )
        try:
            if client.can_paginate(operation):
                return client.get_paginator(operation).paginate(**parameters).build_full_result()
            return getattr(client, operation)(**parameters)
        except ClientError as failed:
            if any(each in failed.response["Error"].get("Code", "") for each in _MISSING):
                raise MissingError(str(failed)) from failed
            raise

    return ask
