"""`inferplan init DIR`: make a repository for a project of one's own, from at most four answers."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.init.repository import (
    CPU_MODEL,
    MODELS,
    PLACES,
    Answers,
    NewRepository,
    check_folder,
    choices,
    make_repository,
)
from inferplan.commands.init.wheel import wheel_of
from inferplan.commands.screen import show_json
from inferplan.components.nodes.pool import NO_ACCELERATOR
from inferplan.errors import RequestError


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to make, or an empty one.")
    ],
    where: Annotated[
        str | None, typer.Option(help=f"Where models run: {', '.join(PLACES)}.")
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option(help="The accelerator of the models, such as nvidia-l40s, or cpu for none."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(MODELS)}, or owner/name@commit:size of a repository on Hugging Face."
        ),
    ] = None,
    consumers: Annotated[
        list[str] | None,
        typer.Option("--consumer", help="Who may call the model; may be repeated."),
    ] = None,
    wheel: Annotated[
        str | None,
        typer.Option(
            help=(
                "The wheel of inferplan that the repository installs: a file, which is copied, or"
                " an https URL with #sha256=."
            )
        ),
    ] = None,
    as_json: Annotated[
        bool, json_option("Print the folder, the stack and the files as JSON.")
    ] = False,
) -> None:
    """Make a repository with a program, one stack, policies and workflows. Asks for what no option
    states; takes defaults without a terminal.
    """
    check_folder(folder)
    package = wheel_of(wheel)
    default = Answers()
    place = where or _ask(
        "where do the models run",
        default.where,
        {name: row["title"] for name, row in PLACES.items()},
    )
    if place not in PLACES:
        raise RequestError(f"--where: {place!r} is unknown. Use {', '.join(PLACES)}")
    accelerator = accelerator or _ask(
        "accelerator",
        default.accelerator,
        {each: "none, CPU only" if each == NO_ACCELERATOR else "" for each in choices(place)},
    )
    answers = Answers(
        where=place,
        accelerator=accelerator,
        model=model
        or _ask(
            "model",
            CPU_MODEL if accelerator == NO_ACCELERATOR else default.model,
            dict.fromkeys(MODELS, "")
            | {"owner/name@commit:size": "of a repository on Hugging Face"},
        ),
        consumers=tuple(
            consumers
            or _ask("who may call it, separated by commas", ",".join(default.consumers), {})
            .replace(",", " ")
            .split()
        ),
    )
    new = make_repository(folder, answers, package)
    if as_json:
        show_json({"folder": str(new.folder), "stack": new.stack, "files": list(new.files)})
    else:
        _print(new, simulated=place == "local", on_cpus=accelerator == NO_ACCELERATOR)
        if package is None:
            print("  # add the wheel of inferplan by its SHA-256: requirements.txt says how")


def _ask(question: str, default: str, allowed: dict[str, str]) -> str:
    if not sys.stdin.isatty():
        return default
    for name, text in allowed.items():
        print(f"  {name}{f'  {text}' if text else ''}")
    try:
        return input(f"{question} [{default}]: ").strip() or default
    except EOFError:
        raise RequestError(
            "the input ended and nothing was written. Repeat the command, or answer with options"
        ) from None


def _print(new: NewRepository, *, simulated: bool, on_cpus: bool) -> None:
    print(f"{new.folder}: {len(new.files)} files, stack {new.stack}")
    if new.passphrase_file:
        print(
            f"{new.folder / '.passphrase'}: a random passphrase for the stack's secrets, which git"
            " ignores. Keep a copy of it"
        )
    print("next:")
    if new.passphrase_file:
        print(
            "  export"
            f" PULUMI_CONFIG_PASSPHRASE_FILE={shlex.quote(str(new.folder.absolute() / '.passphrase'))}"
        )
    print(
        f"  inferplan up {new.stack}{'' if simulated else ' --engine rehearsal'} --project"
        f" {new.folder}  # on fake nodes of this machine"
    )
    if simulated and on_cpus:
        print(
            f"  inferplan up {new.stack} --node real --project {new.folder}  # on Linux as root: a real"
            " model answers"
        )
    print(
        f"  cd {new.folder} && git init && git add --all  # README.md there says what else to type"
    )
