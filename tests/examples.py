"""The example stacks among those of the project: whoever adds a stack of their own has a passphrase
that no test knows.
"""

from __future__ import annotations

from pathlib import Path

from inferplan.stackfile.public_examples import EXAMPLES, mark
from inferplan.stackfile.reader import read_stack
from inferplan.workspace.project import stack_files


def example_stacks(root: Path) -> dict[str, Path]:
    """The files of the examples in `stacks/` of `root` by name: those whose `encryptionsalt` is
    public.
    """
    return {
        name: path
        for name, path in stack_files(root).items()
        if mark(read_stack(path).encryption_salt or "") in EXAMPLES
    }
