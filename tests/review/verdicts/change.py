"""One-line changes of stack files, and the report that a reviewer gets of each."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inferplan.review.reading.preview import Preview
from inferplan.review.reading.reader import read_bytes
from tests.stacks.test_committed_stacks import PASSPHRASE

ROOT = Path(__file__).resolve().parents[3]
CRITICAL, DISRUPTIVE, CALM = "critical", "disruptive", "calm"
OTHER_SEED = "9f2c4b7e1d06a8355be2f0c97a41d3866c0e5f19b2ad47837e605cd1f8a3b294"
Edit = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """`old` becomes `new` in the file of `stack`, with the edit `also`, after the edit `given`;
    `level` and `words` are what must be read first.
    """

    stack: str
    sentence: str
    old: str
    new: str
    level: str
    words: tuple[str, ...] = ()
    given: Edit | None = None
    also: Edit | None = None

    def __str__(self) -> str:
        return f"{self.stack}: {self.sentence} ({(self.new or self.old).strip()[:50]})"


def changes_in(name: str) -> list[Change]:
    """The changes that `NAME.toml` lists."""
    sections = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text())
    return [_change(row) for rows in sections.values() for row in rows]


def _change(row: dict[str, Any]) -> Change:
    edits = {name: tuple(row[name]) for name in ("given", "also") if name in row}
    told: dict[str, Any] = {
        "level": row.get("level", CALM),
        "words": tuple(row.get("words", ())),
        **edits,
    }
    return Change(row["stack"], row["sentence"], row["old"], row["new"], **told)


def text_of(stack: str) -> str:
    return path_of(stack).read_text()


def path_of(stack: str) -> Path:
    folders = ("stacks", "docs/engines", "docs/storage")
    return next(
        path for folder in folders if (path := ROOT / folder / f"Pulumi.{stack}.yaml").exists()
    )


def edited(text: str, old: str, new: str) -> str:
    """`text` with its one `old` replaced; `@remove NAME` takes out the block of a model."""
    if old.startswith("@remove "):
        after, count = re.subn(
            rf"^    {re.escape(old.removeprefix('@remove '))}:\n(?:      .*\n|    #.*\n)+",
            "",
            text,
            flags=re.MULTILINE,
        )
    else:
        count, after = text.count(old), text.replace(old, new)
    assert count == 1, f"{old!r} occurs {count} times"
    return after


def preview_of(each: Change, *, stack: str = "", read: Callable[[str], str] = text_of) -> Preview:
    """The preview of `each` as `inferplan plan --against` writes it and the report reads it;
    `stack` is another name for the stack whose text `read` returns.
    """
    return read_bytes(events_of(each, stack=stack, read=read))


def events_of(each: Change, *, stack: str = "", read: Callable[[str], str] = text_of) -> bytes:
    from inferplan.planning.policy_check import judge
    from inferplan.planning.violation_formats import packs, policy_events
    from inferplan.pulumi_engine.plan.events import events_of as events
    from inferplan.pulumi_engine.plan.events import to_ndjson
    from inferplan.pulumi_engine.plan.steps import make_plan

    stack, before = stack or each.stack, read(each.stack)
    if each.given:
        before = edited(before, *each.given)
    if each.new == "@other-seed":
        head = recorded(stack, before, OTHER_SEED)
    else:
        after = edited(before, each.old, each.new)
        head = recorded(stack, edited(after, *each.also) if each.also else after)
    states = make_plan(recorded(stack, before)).states
    plan = make_plan(head, states)
    report = judge(head, ROOT)
    return to_ndjson(
        events(plan, against="main", judged=policy_events(report), packs=packs(report))
    )


def recorded(stack: str, text: str, seed: str = ""):
    # The state directory is part of the provider's kubeconfig.
    return _recorded(stack, text, seed, os.environ.get("INFERPLAN_STATE_DIR"))


@cache
def _recorded(stack: str, text: str, seed: str, _state: str | None):
    from inferplan.pulumi_engine.program.record import record
    from inferplan.pulumi_engine.secrets import open_secrets
    from inferplan.stackfile.reader import read_stack

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"Pulumi.{stack}.yaml")
        path.write_text(text)
        file = read_stack(path)
    secrets = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=file.secrets_provider,
        environment=PASSPHRASE,
    )
    opened = {**secrets.values, **({"inferplan:apiKeySeed": seed} if seed else {})}
    return record(
        ROOT / "inferplan" / "infra",
        project="inferplan",
        stack=stack,
        config={**file.config, **opened},
        secret_keys=frozenset(opened),
    )
