"""What holds at any moment of any preheat, whatever fails: docs/preheat-invariants.md, as assertions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .rig import Job, Outcome

TRY_AGAIN = (4, 5, 6, 143)
CHANGE_SOMETHING = (2, 3)
KILLED = -9


@dataclass
class Invariants:
    """What was seen of one directory so far. `versions` are those that the source has had."""

    versions: list[Mapping[str, bytes]]
    good: Mapping[str, bytes] | None = field(default=None)

    def check(self, job: Job, about: str) -> None:
        """READY stands over one version of the source, and a copy that was READY and right stays."""
        if job.ready:
            files = job.files()
            assert files in self.versions, f"READY stands over files of no version of the source: {sorted(files)}; {about}"
            assert self.good in (None, files), f"a good copy was replaced although nobody asked for it; {about}"
            self.good = files
        assert self.good is None or job.ready, f"a good copy lost its READY; {about}"

    def check_end(self, outcome: Outcome, about: str, *, allowed: Sequence[int] = (0, KILLED, *TRY_AGAIN)) -> None:
        """Every end says why, and its exit code says what to do."""
        assert outcome.code in allowed, f"exit code {outcome.code}; {about}: {outcome.output}"
        assert "Traceback" not in outcome.output, f"{about}: {outcome.output}"
        assert outcome.code in (0, KILLED) or "; " in outcome.output or "stopped as asked" in outcome.output, f"{about}: {outcome.output}"
