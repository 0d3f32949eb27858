"""`inferplan new STACK [--from STACK]`: a stack of one's own from one that exists, with keys that nobody else has.

It needs no Pulumi CLI, overwrites nothing, and shows neither passphrase nor secret. What the copy holds besides is data to edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from operations.new_stack import StackCopy
    from stackfile.reader import StackFile
    from stackfile.stack import StackSettings


def command(
    name: Annotated[str, typer.Argument(metavar="STACK", help="Name of the new stack.")],
    source: Annotated[str, typer.Option("--from", help="The stack to start from: its name, or the path of a YAML file.")] = "local",
) -> None:
    """Write stacks/Pulumi.STACK.yaml from another stack, with an encryptionsalt and an apiKeySeed of its own."""
    from cli.passphrase import new_passphrase
    from operations.errors import RequestError
    from operations.files import create
    from operations.new_stack import check_source, copy_of
    from operations.project import project_root, short_path, stack_file, stack_name
    from stackfile.reader import read_stack, stack_path
    from stackfile.settings import validate

    _refuse_name(name)
    root = project_root()
    target = stack_path(root, name)
    if target.exists() or target.is_symlink():
        raise RequestError(f"{short_path(target)} exists already and was left as it is; take another name, or move that file away first")
    path = stack_file(root, source)
    file = read_stack(path, shown_path=short_path(path))
    settings = validate(file)
    check_source(file, name)
    passphrase, asked = new_passphrase(name)
    copy = copy_of(file, target, passphrase)
    with _policy_settings(root, stack_name(path), name) as rules:
        create(target, copy.content, sound=copy.reads_back)
    _tell(name, file, settings, copy, [short_path(each) for each in (target, *rules)], asked=asked)


def _refuse_name(stack: str) -> None:
    """Refuses what the Pulumi CLI refuses as the name of a stack."""
    from operations.errors import RequestError
    from stackfile.errors import shown

    allowed = "a stack's name has 1 to 100 ASCII letters, digits, hyphens, underscores and periods"
    if "/" in stack:
        raise RequestError(f"{shown(stack)} cannot name a stack: give the name alone, without organization, project or folder; {allowed}")
    odd = next((each for each in stack if not (each.isascii() and (each.isalnum() or each in "-_."))), None)
    if odd is not None or not 0 < len(stack) <= 100:
        what = f"{shown(odd)} stands in it" if odd is not None else f"it has {len(stack)} characters"
        raise RequestError(f"{shown(stack)} cannot name a stack: {what}; {allowed}")


@contextmanager
def _policy_settings(root: Path, source: str, stack: str) -> Iterator[list[Path]]:
    """What the pack excuses the source from, for the copy as well: the files written, none where there is one already.

    They come first and go again where what follows fails, so that a stack that is there is whole.
    """
    from operations.files import create
    from operations.policy_check import settings_file

    there, wanted = settings_file(root, source), settings_file(root, stack)
    written = []
    if there.is_file() and not wanted.exists():
        create(wanted, there.read_bytes())
        written.append(wanted)
    try:
        yield written
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _tell(stack: str, file: StackFile, settings: StackSettings, copy: StackCopy, written: list[str], *, asked: bool) -> None:
    from operations.project import stack_name

    source = stack_name(file.path)
    print(f"{written[0]}: a copy of {source} with an encryptionsalt and an apiKeySeed of its own, sealed under your passphrase")
    for rules in written[1:]:
        print(f"{rules}: what the policy pack excuses {source} from, copied; take out what {stack} need not be excused from")
    if copy.carried:
        print(f"carried over, sealed anew, and the same secret as in {source}: {', '.join(copy.carried)}")
    if not settings.cluster.is_simulated:
        print(f"it names the cluster, stores and host of {source}; change them before anything but a rehearsal")
    if unfit := _unfit_for_rehearsal(stack):
        print(unfit)
    print("keep the passphrase: without it nobody can open apiKeySeed or Pulumi's state of this stack again")
    print("next:")
    if asked:
        print("  read -rs PULUMI_CONFIG_PASSPHRASE && export PULUMI_CONFIG_PASSPHRASE  # the passphrase once more, for this shell")
    print(f"  ${{EDITOR:-vi}} {written[0]}")
    print(f"  inferplan validate {stack}")
    if not unfit:
        print(f"  inferplan up {stack} --engine rehearsal  # on pretend nodes of this machine")
    print(f"  pulumi stack init {stack}  # for a cluster of yours, where the Pulumi CLI is; it takes the file as it stands")
    print(f"  git add {' '.join(written)}")


def _unfit_for_rehearsal(stack: str) -> str:
    """Why no simulated cluster can have the name, "" where one can."""
    from rehearsal.cluster.record import cluster_directory
    from rehearsal.errors import ClusterError

    try:
        cluster_directory(stack)
    except ClusterError as error:
        return f"Pulumi takes the name, and no rehearsal does: {error}"
    return ""
