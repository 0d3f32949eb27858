"""`inferplan upgrade-check [STACK]...`: what the installed version changes in stacks that an older
version deployed.
"""

from typing import Annotated

import typer
from rich.console import Console

from inferplan.commands.arguments import json_option
from inferplan.commands.screen import results, show, show_json
from inferplan.commands.steps import WORDS, label, reasons
from inferplan.commands.upgrade_check.upgrade import (
    Upgrade,
    check_upgrade,
    old_keys,
    rename_keys,
    save_release,
    saved_stacks,
)
from inferplan.errors import RequestError
from inferplan.workspace.project import project_root, short_path, stack_files
from inferplan.workspace.workspace import open_workspace


def command(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STACK]...", help="Names of stacks; all with a saved plan by default."
        ),
    ] = None,
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Save the plan of the installed version, for the check after an upgrade."
        ),
    ] = False,
    rename: Annotated[
        bool,
        typer.Option(
            "--rename", help="Rename keys of older versions in the stack file; comments stay."
        ),
    ] = False,
    as_json: Annotated[
        bool,
        json_option(
            "Print stack, release, installed and steps (op, type, name, paths) of each stack as"
            " JSON."
        ),
    ] = False,
) -> None:
    """Show what the installed version changes in stacks that an older version deployed,
    replacements first.

    Exit code 3: a resource is replaced or deleted.
    """
    root = project_root()
    names = stacks or (list(stack_files(root)) if save or rename else saved_stacks(root))
    if not names:
        raise RequestError(
            "This project has no saved plan to compare with. Name a stack, or save one: inferplan"
            " upgrade-check --save"
        )
    upgrades = []
    for name in names:
        workspace = open_workspace(name)
        if rename:
            for line in rename_keys(workspace) or ["no key of an older version"]:
                show(f"{workspace.file.shown_path}: {line}")
        elif save:
            show(f"saved {short_path(save_release(workspace))}")
        else:
            upgrades.append(check_upgrade(workspace))
            if not as_json:
                _show(upgrades[-1], results())
                for path, new in old_keys(workspace):
                    show(
                        f"  {path} is now called {new}; rename it with: inferplan upgrade-check"
                        f" {workspace.typed} --rename"
                    )
    if as_json:
        show_json([_document(each) for each in upgrades])
    if any(each.disruptive for each in upgrades):
        raise typer.Exit(3)


def _show(upgrade: Upgrade, console: Console) -> None:
    counts = ", ".join(f"{count} {WORDS.get(op, op)}" for op, count in upgrade.plan.counts.items())
    show(f"{upgrade.stack}: from {upgrade.release} to {upgrade.installed}: {counts}")
    for step in upgrade.steps:
        console.print(
            f"  {WORDS[step.op]}: {label(step)}{reasons(step)}", highlight=False, soft_wrap=True
        )
    if upgrade.disruptive:
        show('  Read "Upgrade notes" of the newer versions in CHANGELOG.md before you run up.')


def _document(upgrade: Upgrade) -> dict[str, object]:
    steps = [
        {
            "op": step.op,
            "type": label(step).partition(" ")[0],
            "name": step.urn.rpartition("::")[2],
            "paths": [] if step.change is None else [each.text for each in step.change.differences],
        }
        for step in upgrade.steps
    ]
    return {
        "stack": upgrade.stack,
        "release": upgrade.release,
        "installed": upgrade.installed,
        "steps": steps,
    }
