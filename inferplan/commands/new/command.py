"""`inferplan new STACK [--from STACK]`: create a stack from another one, with its own keys."""

import getpass
import sys
from typing import Annotated

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.screen import show_json
from inferplan.errors import ClusterError, RequestError
from inferplan.planning.new_stack import Draft, NewStack, draft_stack
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, passphrase_of
from inferplan.rehearsal.cluster.record import cluster_directory
from inferplan.workspace.project import stack_name

_VARIABLE = "PULUMI_CONFIG_PASSPHRASE"


def command(
    name: Annotated[str, typer.Argument(metavar="STACK", help="Name of the new stack.")],
    source: Annotated[
        str, typer.Option("--from", help="The stack to copy: its name, or the path of a YAML file.")
    ] = "local",
    as_json: Annotated[
        bool, json_option("Print the written files and the copied secrets as JSON.")
    ] = False,
) -> None:
    """Write stacks/Pulumi.STACK.yaml from another stack, with its own encryptionsalt and
    apiKeySeed.
    """
    draft = draft_stack(name, source)
    passphrase, typed = _passphrase(name)
    new = draft.write(passphrase)
    if as_json:
        show_json(
            {
                "stack": draft.name,
                "files": list(new.files),
                "copiedSecrets": list(new.carried),
                "toChange": list(new.examples),
            }
        )
    else:
        _print(draft, new, typed=typed)


def _passphrase(stack: str) -> tuple[str, bool]:
    """The passphrase for `stack`, and True if the user typed it just now. Raises RequestError for
    an empty or a public one.
    """
    configured = passphrase_of()
    passphrase, source = configured if configured is not None else (_ask(stack), "the typed text")
    remedy = (
        "Repeat the command"
        if configured is None
        else f"Set another one, or unset {_VARIABLE} and {_VARIABLE}_FILE to type one"
    )
    if not passphrase:
        raise RequestError(f"{source} is an empty passphrase, which encrypts nothing. {remedy}")
    if passphrase == EXAMPLE_PASSPHRASE:
        raise RequestError(
            f"{source} is the public passphrase of the examples. {stack} needs its own. {remedy}"
        )
    return passphrase, configured is None


def _ask(stack: str) -> str:
    if not sys.stdin.isatty():
        raise RequestError(
            f"{stack}: cannot prompt for a passphrase: stdin is not a terminal. "
            f"Set {_VARIABLE}, or {_VARIABLE}_FILE to the path of a file that contains it"
        )
    try:
        first = getpass.getpass(f"passphrase for {stack}, which encrypts its secrets: ")
        again = getpass.getpass("the same passphrase again: ") if first else ""
    except EOFError:
        raise RequestError(
            "no passphrase was typed and nothing was written. Repeat the command"
        ) from None
    if first != again:
        raise RequestError("the two passphrases differ and nothing was written. Repeat the command")
    return first


def _print(draft: Draft, new: NewStack, *, typed: bool) -> None:
    stack, source = draft.name, stack_name(draft.source.path)
    print(
        f"{new.files[0]}: a copy of {source} with its own encryptionsalt and apiKeySeed, encrypted"
        " with your passphrase"
    )
    for rules in new.files[1:]:
        print(
            f"{rules}: the policy exemptions of {source}, copied. Remove those that {stack} does"
            " not need."
        )
    if new.carried:
        print(
            f"copied, encrypted again, and the same secret as in {source}: {', '.join(new.carried)}"
        )
    if new.cluster:
        cloud = draft.settings.cluster.cloud
        print(
            f"the cluster that it creates is named {new.cluster}, here and in the exemptions;"
            f" {cloud} requires unique cluster names"
        )
    if not draft.settings.cluster.is_simulated:
        names = "stores" if new.cluster else "cluster, stores"
        print(
            f"it names the {names} and host of {source}; change them before anything but a"
            " rehearsal"
        )
    if new.examples:
        print("these values are examples, which validate and up reject until you change them:")
        print("\n".join(f"  {line}" for line in new.examples))
    if unfit := _unfit_for_rehearsal(stack):
        print(unfit)
    print(
        "keep the passphrase: without it, apiKeySeed and Pulumi's state of this stack cannot be"
        " opened"
    )
    print("next:")
    if typed:
        print(
            f"  read -rs {_VARIABLE} && export {_VARIABLE}  # the passphrase again, for this shell"
        )
    print(f"  ${{EDITOR:-vi}} {new.files[0]}")
    print(f"  inferplan validate {stack}")
    if not unfit:
        print(f"  inferplan up {stack} --engine rehearsal  # on fake nodes of this machine")
    print(
        f"  pulumi stack init {stack}  # for a real cluster, with the Pulumi CLI; it uses the file"
        " as it is"
    )
    print(f"  git add {' '.join(new.files)}")


def _unfit_for_rehearsal(stack: str) -> str:
    """The reason why no simulated cluster can have the name, "" if one can."""
    try:
        cluster_directory(stack)
    except ClusterError as error:
        return f"Pulumi accepts the name, but a rehearsal does not: {error}"
    return ""
