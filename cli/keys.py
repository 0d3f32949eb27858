"""`inferplan keys show|add|retire CONSUMER`: the keys of a consumer, and which versions of them are valid.

A key is shown on standard output by `show` alone, and stands in no file, log or message. A change is made in the stack file;
`inferplan up` puts it in force.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datetime import date

    from operations.workspace import Workspace


# The consumer knows an imported key already; showing it would only spread it.
_IMPORTED = "(imported, not shown)"


class Action(StrEnum):
    """What to do with the keys of a consumer."""

    SHOW = "show"
    ADD = "add"
    RETIRE = "retire"


def command(
    action: Annotated[Action, typer.Argument(help="show prints the valid keys; add makes the next version valid; retire ends one.")],
    consumer: Annotated[str, typer.Argument(help="Name of a consumer of the stack.")],
    version: Annotated[int | None, typer.Argument(help="The version to retire.", metavar="[VERSION]")] = None,
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of a stack.")] = "",
    value: Annotated[bool, typer.Option("--value", help="With show: print only the newest valid key.")] = False,
) -> None:
    """Show the keys of CONSUMER, or change in the stack file which versions are valid and say what the next up will do."""
    from operations.errors import CommandError
    from operations.workspace import open_workspace
    from stackfile.errors import unknown

    again = f"inferplan keys {action} {consumer}"
    if not stack:
        raise CommandError(f"--stack is missing; say which one: {again}{'' if version is None else f' {version}'} --stack NAME")
    if (action is Action.RETIRE) != (version is not None):
        remedy = f"name the version: {again} VERSION --stack {stack}" if version is None else f"leave {version} out: only retire takes one"
        raise CommandError(f"keys {action} {'needs a version' if version is None else 'takes no version'}; {remedy}")
    workspace = open_workspace(stack)
    known = workspace.settings.consumers
    if consumer not in known:
        raise CommandError(unknown("consumer", consumer, known, owner=workspace.stack, remedy="Add one under inferplan:consumers."))
    if value and action is not Action.SHOW:
        raise CommandError(f"--value is not valid with {action}. Use it with: inferplan keys show {consumer} --stack {stack} --value")
    if action is Action.SHOW:
        _show(workspace, consumer, only_value=value)
    elif version is None:
        _add(workspace, consumer)
    else:
        _retire(workspace, consumer, version)


def _show(workspace: Workspace, consumer: str, *, only_value: bool) -> None:
    from components.gateway.keys import consumer_key
    from operations.clock import today
    from operations.errors import CommandError
    from operations.keys import seed_of

    seed = seed_of(workspace, consumer)
    spec = workspace.settings.consumers[consumer]
    expired = {version for version, last_day in spec.expires.items() if today() > last_day}
    if only_value:
        valid = [version for version in spec.keys if version not in expired and version not in spec.imported_keys]
        if not valid:
            remedy = f"Add one: inferplan keys add {consumer} --stack {workspace.typed}"
            raise CommandError(f"{consumer} has no valid key that can be shown: its keys are expired or imported. {remedy}", exit_code=3)
        print(consumer_key(seed, consumer, max(valid)))
        return
    for version in sorted(spec.keys, reverse=True):
        # The key comes last and the line is not folded, so that it can be cut out by column.
        key = _IMPORTED if version in spec.imported_keys else consumer_key(seed, consumer, version)
        print(f"{version}\t{_standing(spec.expires.get(version), today())}\t{key}")


def _standing(last_day: date | None, today: date) -> str:
    if last_day is None:
        return "valid"
    return f"valid to {last_day}" if today <= last_day else f"expired {last_day}"


def _add(workspace: Workspace, consumer: str) -> None:
    from operations.clock import today
    from operations.key_versions import add_version

    valid = workspace.settings.consumers[consumer].keys
    version = add_version(workspace.file, workspace.settings, consumer, today())
    print(f"{workspace.file.shown_path}: {consumer} has the key versions {_listed([*valid, version])}")
    print(f"the next up makes version {version} valid beside {_listed(valid)}: it {_change(workspace)}, puts")
    print(f"version {version} into the Secret consumer-{consumer}, and refuses no key that is valid now:")
    print(f"  inferplan up {workspace.typed}")
    print("then hand the new key out, and retire the old one once nobody uses it:")
    print(f"  inferplan keys show {consumer} --stack {workspace.typed}")
    print(f"  inferplan keys retire {consumer} {min(valid)} --stack {workspace.typed}")


def _retire(workspace: Workspace, consumer: str, version: int) -> None:
    from operations.key_versions import retire_version

    retire_version(workspace.file, workspace.settings, consumer, version)
    left = [each for each in workspace.settings.consumers[consumer].keys if each != version]
    print(f"{workspace.file.shown_path}: {consumer} has the key versions {_listed(left)}")
    print(f"until the next up version {version} still passes; it {_change(workspace)}, and {_end(workspace)}:")
    print(f"  inferplan up {workspace.typed}")


def _change(workspace: Workspace) -> str:
    gateway = workspace.settings.gateway
    if gateway is not None and not gateway.runs_in_namespace:
        return "changes the Secret gateway-clients, which the Envoy Gateway reads"
    return "replaces the gateway's pods one after another"


def _end(workspace: Workspace) -> str:
    from components.gateway.proxy import KEPT_SECONDS

    gateway = workspace.settings.gateway
    if gateway is None or gateway.deregistration_seconds is None:
        return "the key is refused from then on"
    return f"pods of before take the key for at most {gateway.deregistration_seconds + KEPT_SECONDS} s more"


def _listed(versions: list[int]) -> str:
    return ", ".join(str(each) for each in sorted(versions, reverse=True))
