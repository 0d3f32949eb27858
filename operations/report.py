"""What the repository adds to the events of a change: the stacks that it affects, and the guards of each on both sides.

Both revisions are read with git as data; none of their code runs.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from operations.revisions import git, touched_between
from review.guards import Guards

_SETTINGS = "policies/stacks/{}.json"


@dataclass(frozen=True)
class Change:
    """The commits `base` and `head` of the repository in `root`; "" for a side that is not known, for `head` then the working tree."""

    root: Path
    base: str
    head: str

    @cached_property
    def stacks(self) -> dict[str, str]:
        """Why each stack that the change touches must have a preview: "changed", "new" or "deleted", by its name."""
        return touched_between(self.root, self.base, self.head)

    def guards(self, stack: str) -> Guards:
        """The guards of `stack`; see `review.guards`."""
        from policies.engine.settings import today

        unread = ""
        try:
            after = self._settings(self.head, stack) or {}
            before = self._settings(self.base, stack) or {} if self.base else None
        except ValueError as error:
            after, before, unread = {}, None, str(error)
        return Guards(after=after, before=before, today=today(), unread=unread, code=self._pack_files)

    def config_before(self, stack: str) -> dict[str, str] | None:
        """The configuration of `stack` at the base as far as it is no secret, None where it is not known."""
        from stackfile.reader import read_stack

        text = self._text(self.base, f"stacks/Pulumi.{stack}.yaml") if self.base else None
        if text is None:
            return None
        with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
            path = Path(folder, "Pulumi.base.yaml")
            path.write_text(text)
            return dict(read_stack(path).config)

    @cached_property
    def _pack_files(self) -> tuple[str, ...]:
        if not (self.base and self.head):
            return ()
        listed = git(self.root, "diff", "--name-only", "-z", f"{self.base}", f"{self.head}", "--", "policies", ":!policies/stacks")
        return tuple(each for each in listed.stdout.decode(errors="replace").split("\0") if each)

    def _settings(self, revision: str, stack: str) -> dict[str, Any] | None:
        path = _SETTINGS.format(stack)
        text = self._text(revision, path)
        if text is None:
            return None
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if not isinstance(settings, dict):
            raise ValueError(f"{path} is not a JSON object")  # noqa: TRY004 - one error for whatever is wrong with the text
        return settings

    def _text(self, revision: str, path: str) -> str | None:
        """The text of the file `path` at `revision`, of the working tree for ""; None where there is no such file."""
        if revision:
            shown = git(self.root, "show", f"{revision}:{path}")
            return None if shown.returncode else shown.stdout.decode(errors="replace")
        file = self.root / path
        return file.read_text(errors="replace") if "/" not in Path(path).name and file.is_file() else None
