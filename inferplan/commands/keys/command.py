"""`inferplan keys show|add|retire CONSUMER`: the keys of a consumer, and which versions of them are
valid.
"""

from enum import StrEnum
from typing import Annotated

import typer

from inferplan.commands.arguments import Consumer, StackOption, json_option
from inferplan.commands.screen import show_json
from inferplan.documents.errors import unknown
from inferplan.errors import OperationError, RequestError
from inferplan.workspace import keys
from inferplan.workspace.keys import add_version, grace_seconds, retire_version
from inferplan.workspace.workspace import Workspace, open_workspace


class Action(StrEnum):
    SHOW = "show"
    ADD = "add"
    RETIRE = "retire"


def command(
    action: Annotated[
        Action,
        typer.Argument(
            help="show prints the valid keys; add makes the next version valid; retire ends one."
        ),
    ],
    consumer: Consumer,
    stack: StackOption,
    version: Annotated[
        int | None, typer.Argument(help="The version to retire.", metavar="[VERSION]")
    ] = None,
    value: Annotated[
        bool, typer.Option("--value", help="With show: print only the newest valid key.")
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print JSON: version, lastDay, expired and key (null if imported) of each key; with add"
            " and retire the valid versions."
        ),
    ] = False,
) -> None:
    """Show the keys of CONSUMER, or change in the stack file which versions are valid and print
    what the next up will do.
    """
    again = f"inferplan keys {action} {consumer}"
    if (action is Action.RETIRE) != (version is not None):
        remedy = (
            f"Name the version: {again} VERSION --stack {stack}"
            if version is None
            else f"Leave {version} out: only retire takes one"
        )
        raise RequestError(
            f"keys {action} {'needs a version' if version is None else 'takes no version'}."
            f" {remedy}"
        )
    if value and action is not Action.SHOW:
        raise RequestError(
            f"--value is not valid with {action}. Use it with: inferplan keys show {consumer}"
            f" --stack {stack} --value"
        )
    if value and as_json:
        raise RequestError("--value and --json are both set. Use one of them.")
    workspace = open_workspace(stack)
    consumers = workspace.settings.consumers
    if consumer not in consumers:
        raise RequestError(
            unknown(
                "consumer",
                consumer,
                consumers,
                owner=workspace.stack,
                remedy="Add one under inferplan:consumers.",
            )
        )
    if action is Action.SHOW:
        _show(workspace, consumer, only_value=value, as_json=as_json)
    else:
        _write(workspace, consumer, version, as_json=as_json)


def _show(workspace: Workspace, consumer: str, *, only_value: bool, as_json: bool) -> None:
    versions = list(keys.api_keys(workspace, consumer))
    if only_value:
        newest = next((each.key for each in versions if each.key and not each.expired), None)
        if newest is None:
            remedy = f"Add one: inferplan keys add {consumer} --stack {workspace.typed}"
            raise OperationError(
                f"{consumer} has no valid key that can be shown: its keys are expired or imported."
                f" {remedy}"
            )
        print(newest)
        return
    if as_json:
        show_json(
            [
                {
                    "version": each.version,
                    "lastDay": each.last_day,
                    "expired": each.expired,
                    "key": each.key,
                }
                for each in versions
            ]
        )
        return
    for each in versions:
        # The key comes last and the line is not folded, so that it can be cut out by column.
        print(f"{each.version}\t{_validity(each)}\t{each.key or '(imported, not shown)'}")


def _validity(key: keys.ApiKey) -> str:
    if key.last_day is None:
        return "valid"
    return f"expired {key.last_day}" if key.expired else f"valid to {key.last_day}"


def _write(workspace: Workspace, consumer: str, retired: int | None, *, as_json: bool) -> None:
    """Add the next version of the key, or retire one, and print what the next update does."""
    file, valid = workspace.file.shown_path, workspace.settings.consumers[consumer].keys
    if retired is None:
        added = add_version(workspace.file, workspace.settings, consumer, keys.today())
        versions = [*valid, added]
        effects = [
            (
                f"the next up makes version {added} valid in addition to {keys.listed(valid)}: it"
                f" {_change(workspace)}, puts"
            ),
            (
                f"version {added} into the Secret consumer-{consumer}, and rejects no key that is"
                " valid now:"
            ),
            f"  inferplan up {workspace.typed}",
            (
                "then give the new key to the clients, and retire the old one when none of them"
                " uses it:"
            ),
            f"  inferplan keys show {consumer} --stack {workspace.typed}",
            f"  inferplan keys retire {consumer} {min(valid)} --stack {workspace.typed}",
        ]
    else:
        retire_version(workspace.file, workspace.settings, consumer, retired)
        versions = [each for each in valid if each != retired]
        seconds = grace_seconds(workspace.settings)
        end = (
            "the key is rejected from then on"
            if seconds is None
            else f"old gateway pods accept the key for up to {seconds} s longer"
        )
        effects = [
            f"version {retired} stays valid until the next up; it {_change(workspace)}, and {end}:",
            f"  inferplan up {workspace.typed}",
        ]
    if as_json:
        show_json({"file": file, "consumer": consumer, "versions": sorted(versions, reverse=True)})
    else:
        print(
            "\n".join(
                [f"{file}: {consumer} has the key versions {keys.listed(versions)}", *effects]
            )
        )


def _change(workspace: Workspace) -> str:
    gateway = workspace.settings.gateway
    if gateway is not None and not gateway.runs_in_namespace:
        return "changes the Secret gateway-clients, which the Envoy Gateway reads"
    return "replaces the gateway's pods one after another"
