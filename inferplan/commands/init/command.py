"""`inferplan init DIR`: make a repository for a project of one's own, from at most five answers."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from inferplan.commands.arguments import json_option
from inferplan.commands.init.repository import (
    CPU_MODEL,
    EXISTING,
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
        Path, typer.Argument(metavar="DIR", help="The folder to create, or an empty folder.")
    ],
    where: Annotated[
        str | None, typer.Option(help=f"Where models run: {', '.join(PLACES)}.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help=f"The cluster that exists. {'; '.join(f'{where}: {form}' for where, form in EXISTING.items())}."
        ),
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
    given: dict[str, Any] = {
        "where": where,
        "cluster": cluster,
        "accelerator": accelerator,
        "consumers": tuple(consumers or ()),
        "model": model,
    }
    answers = _complete({name: value for name, value in given.items() if value not in (None, ())})
    on_cpus, simulated = answers.accelerator == NO_ACCELERATOR, answers.where == "local"
    new = make_repository(folder, answers, package)
    if as_json:
        show_json({"folder": str(new.folder), "stack": new.stack, "files": list(new.files)})
    else:
        _print(new, simulated=simulated, on_cpus=on_cpus)
        if package is None:
            print("  # add the wheel of inferplan by its SHA-256: requirements.txt says how")


def _complete(given: dict[str, Any]) -> Answers:
    """The `given` answers with those that a terminal adds, or the defaults."""
    answers = Answers(**given)
    if "where" not in given:
        places = {name: row["title"] for name, row in PLACES.items()}
        answers = _ask(answers, "where", "where do the models run", places)
    place = PLACES.get(answers.where, {})
    if "cluster" in place and not answers.cluster:
        answers = replace(answers, cluster=place["cluster"])
        answers = _ask(answers, "cluster", f"which cluster, {EXISTING[answers.where]}", {})
    if place and "accelerator" not in given:
        names = {
            each: "none, CPU only" if each == NO_ACCELERATOR else ""
            for each in choices(answers.where)
        }
        answers = _ask(answers, "accelerator", "accelerator", names)
    if answers.accelerator == NO_ACCELERATOR and "model" not in given:
        answers = replace(answers, model=CPU_MODEL)
    if "consumers" not in given:
        answers = _ask(answers, "consumer", "who may call it, separated by commas", {})
    if "model" not in given:
        models = dict.fromkeys(MODELS, "") | {
            "owner/name@commit:size": "of a repository on Hugging Face"
        }
        answers = _ask(answers, "model", "model", models)
    return answers


def _ask(answers: Answers, option: str, question: str, allowed: dict[str, str]) -> Answers:
    """Return `answers` with that to `question`, which is asked until it is right; the default
    without a terminal.
    """
    if not sys.stdin.isatty():
        return answers
    for name, text in allowed.items():
        print(f"  {name}{f'  {text}' if text else ''}")
    field = "consumers" if option == "consumer" else option
    default = getattr(answers, field)
    shown = ",".join(default) if field == "consumers" else default
    while True:
        try:
            typed = input(f"{question} [{shown}]: ").strip() or shown
        except EOFError:
            raise RequestError(
                "the input ended and nothing was written. Repeat the command, or answer with"
                " options"
            ) from None
        names = tuple(typed.replace(",", " ").split())
        changed: dict[str, Any] = {field: names if field == "consumers" else typed}
        tried = replace(answers, **changed)
        problems = [text for what, text in tried.problems() if what == option]
        if not problems:
            return tried
        print("\n".join(f"  {each.removesuffix('.')}." for each in problems))


def _print(new: NewRepository, *, simulated: bool, on_cpus: bool) -> None:
    print(f"{new.folder}: {len(new.files)} files, stack {new.stack}")
    if new.passphrase_file:
        print(
            f"{new.folder / '.passphrase'}: a random passphrase for the stack's secrets, which git"
            " ignores. Keep a copy of it"
        )
    print("next:")
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
        f"  cd {new.folder} && git init && git add --all  # README.md there lists the next commands"
    )
