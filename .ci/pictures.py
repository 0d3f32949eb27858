"""Makes the pictures of README and the pages again: `make pictures`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
_WIDTH = 100
# A font from a host is a request that no reader agreed to.
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
# One change of the example stack onprem, and a mistake in it.
_CHANGE = ("consumers: [assistants, evaluation]", "consumers: [assistants]")
_MORE = ("replicas: 2", "replicas: 3")
_MISTAKES = (("pool: gaudi2", "pool: gaudi3"), ("size: 17Gi", "size: 17"))


def inferplan(*arguments: str, folder: Path = ROOT, codes: Sequence[int] = (0,)) -> str:
    """The output of a command as a terminal shows it that is open in `folder`. Raises RuntimeError
    for other exit codes.
    """
    done = subprocess.run(
        [Path(sys.executable).with_name("inferplan"), *arguments],
        cwd=folder,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_WIDTH)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in codes:
        raise RuntimeError(done.stdout)
    return done.stdout


def edited(folder: Path, *edits: tuple[str, str]) -> Path:
    """A project in `folder` with a copy of the example stack onprem, in which the first place of
    each edit is changed; its stack file.
    """
    text = (ROOT / "stacks" / "Pulumi.onprem.yaml").read_text()
    for old, new in edits:
        if old not in text:
            raise RuntimeError(f"stacks/Pulumi.onprem.yaml has no {old!r}")
        text = text.replace(old, new, 1)
    (folder / "Pulumi.yaml").write_text("name: acme\nruntime: python\nstackConfigDir: stacks\n")
    shutil.copy(ROOT / "inferplan" / "infra" / "__main__.py", folder)
    file = folder / "stacks" / "Pulumi.onprem.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def recording(command: str, output: str) -> str:
    """A terminal as SVG that shows a command and its output."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=_WIDTH, file=nowhere)
        console.print(Text(f"$ {command}"))
        console.print(Text.from_ansi(output.rstrip()))
    return _FONT.sub("", console.export_svg(title="inferplan", unique_id="terminal"))


def terminals(folder: Path) -> dict[str, str]:
    """The recordings of terminals by name."""
    edited(folder, *_MISTAKES)
    errors = inferplan("validate", "onprem", folder=folder, codes=[2])
    return {
        "errors": recording("inferplan validate onprem", errors),
        "plan": recording("inferplan plan onprem", inferplan("plan", "onprem")),
    }


def main() -> None:
    """Make all pictures; the example stacks are not changed."""
    from tests.rehearsal import test_simulated_scaling
    from tests.review import screenshots

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pages = ("--html", str(folder / "prod.html"))
        inferplan("draw", "prod", "--svg", str(IMAGES / "platform.svg"), *pages)
        before, events = folder / "before.json", folder / "onprem.ndjson"
        inferplan("plan", "onprem", "--save", str(before))
        changed = edited(folder, _CHANGE, _MORE)
        inferplan("plan", str(changed), "--against", str(before), "--events", str(events))
        comment, report = folder / "comment.md", folder / "onprem.html"
        comment.write_text(inferplan("report", str(events), "--html", str(report)))
        screenshots.main(comment, report)
        for name, svg in terminals(folder).items():
            (IMAGES / f"terminal-{name}.svg").write_text(svg)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", test_simulated_scaling.__file__],
        cwd=ROOT,
        env={**os.environ, "INFERPLAN_UPDATE_PICTURES": "1"},
        check=True,
    )


if __name__ == "__main__":
    main()
