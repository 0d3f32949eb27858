"""The findings of a rehearsed upgrade: read from the event log of a run, stored as JSON, shown as a
table of a report.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from inferplan.documents.text import clean, one_line, shortened
from inferplan.pulumi_engine.reading.records import EventsError
from inferplan.review.report_table import Table

FORMAT = "inferplan-rehearsal/1"
_MOST = 12
_OUTCOMES = {
    "ready": "🟢 everything became ready",
    "refused": "⛔ the cluster or the program rejected it",
    "stuck": "⛔ it was not ready in time",
    "blocked": "⛔ it must not be applied as it is",
    "rejected": "⛔ an engine rejects its model",
    "accepted": "🟢 no engine rejects its model",
    "base failed": "⛔ the base revision itself could not be deployed, so nothing was rehearsed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFinding:
    """One Deployment during the upgrade: replicas wanted at its start, the fewest ready, and
    minutes of loading if one follows the other.
    """

    name: str
    wanted: int
    lowest_ready: int
    minutes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of an audit about `object` and its `field`, with the words of the component that
    said it; `place` is `file:line`.

    `weight` is blocked (must not be merged), risk, or note (what the audit assumed or replaced).
    """

    code: str
    weight: str
    title: str
    object: str
    field: str
    reason: str
    place: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinding:
    """The requests of clients to one model during the upgrade: how many were sent, and each kind of
    trouble with its number of requests.
    """

    model: str
    sent: int
    troubles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of applying HEAD over BASE. `outcome` is ready, refused (rejected), stuck, blocked
    or base failed; of the trials of the models that changed between them, accepted or rejected.
    """

    stack: str
    base: str
    head: str
    outcome: str
    seconds: float
    nodes: str = "as many and as large as the stack's"
    order: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    models: tuple[ModelFinding, ...] = ()
    pruned: tuple[str, ...] = ()
    details: tuple[Finding, ...] = ()
    clients: tuple[ClientFinding, ...] = ()
    uncalled: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    """Objects that were applied, and on which nothing acted."""

    @property
    def good(self) -> bool:
        return self.outcome in ("ready", "accepted")

    @property
    def is_trial(self) -> bool:
        """True for the words of engines about their models, without a rehearsal."""
        return self.outcome in ("accepted", "rejected")


def findings_of(
    records: Iterable[Mapping[str, Any]], *, stack: str, base: str, head: str, outcome: str
) -> Findings:
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    seconds = 0.0
    for each in records:
        by_kind.setdefault(each["kind"], []).append(each)
        seconds = max(seconds, each["at"])
    kinds = ("applied", "failed", "refused", "pending", "ready", "waiting", "pruned")
    applied, failed, refused, pending, ready, waiting, pruned = (
        by_kind.get(kind, []) for kind in kinds
    )
    changed = [each for each in applied if each.get("change") != "unchanged"]
    refusals = [f"{each['target']}: {each['message']}" for each in failed] or [
        each["message"] for each in refused
    ]
    are_ready = {each["target"] for each in ready}
    waits = {each["target"]: each["reason"] for each in waiting if each["target"] not in are_ready}
    return Findings(
        stack=clean(stack),
        base=clean(base),
        head=clean(head),
        outcome=outcome,
        seconds=seconds,
        order=_texts(f"{each['target']} {each['change']}" for each in changed),
        refusals=_texts(refusals),
        replaced=_texts(
            f"{each['target']}: {each.get('note') or 'replaced'}"
            for each in changed
            if each["change"] == "replaced"
        ),
        pending=_texts(dict.fromkeys(f"pod {each['pod']}: {each['reason']}" for each in pending)),
        waiting=_texts(f"{target}: {reason}" for target, reason in waits.items()),
        models=tuple(
            _models(
                by_kind,
                {
                    each["target"].rpartition("/")[2]
                    for each in changed
                    if each["target"].startswith("Deployment")
                },
            )
        ),
        pruned=_texts(each["target"] for each in pruned),
        clients=tuple(_clients(by_kind)),
        uncalled=_texts(
            f"{each['model']}: {each['message']}".removeprefix(": ")
            for each in by_kind.get("uncalled", [])
        ),
    )


def _clients(by_kind: Mapping[str, list[Mapping[str, Any]]]) -> Iterable[ClientFinding]:
    for each in by_kind.get("client", []):
        requests = [
            request for request in by_kind.get("request", []) if request["model"] == each["model"]
        ]
        kinds = Counter(f"{request['result']}: {request['message']}" for request in requests)
        troubles = _texts(f"{count} {text}" for text, count in kinds.most_common())
        yield ClientFinding(model=clean(each["model"]), sent=each["sent"], troubles=troubles)


def _models(
    by_kind: Mapping[str, list[Mapping[str, Any]]], deployments: set[str]
) -> Iterable[ModelFinding]:
    load = {each["name"]: each["seconds"] for each in by_kind.get("model", [])}
    states_by_name: dict[str, list[Mapping[str, Any]]] = {}
    for each in by_kind.get("replicas", []):
        states_by_name.setdefault(each["name"], []).append(each)
    for name, states in sorted(states_by_name.items()):
        # A new Deployment has no callers until it is ready for the first time.
        if name not in deployments or states[0]["ready"] == 0:
            continue
        seconds = load.get(name)
        minutes = None if seconds is None else -(-seconds * states[-1]["wanted"] // 60)
        lowest = min(each["ready"] for each in states)
        yield ModelFinding(
            name=clean(name), wanted=states[0]["wanted"], lowest_ready=lowest, minutes=minutes
        )


def save(findings: Findings) -> bytes:
    return (
        json.dumps(
            {"format": FORMAT, **asdict(findings)}, indent=1, sort_keys=True, ensure_ascii=False
        )
        + "\n"
    ).encode()


def load(content: bytes, *, source: str) -> Findings | None:
    """The findings in `content`, None when it is something else. Raises EventsError for findings
    that are damaged.
    """
    if FORMAT.encode() not in content[:65536] and FORMAT.encode() not in content[-65536:]:
        return None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        return None
    try:
        return TypeAdapter(Findings).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise EventsError(
            f"{source}: damaged findings of a rehearsal ({where}: {first['msg'].lower()}). Run"
            " inferplan rehearse-change again."
        ) from error


def table(findings: Findings) -> Table:
    outcome = _OUTCOMES.get(findings.outcome, clean(findings.outcome))
    if findings.untried and findings.good and not findings.is_trial:
        outcome = f"🟢 everything that was tried became ready; not tried: {len(findings.untried)}"
    if findings.untried and findings.is_trial and not findings.details:
        outcome = "⚪ no model could be tried"
    rows = [("outcome", outcome)]
    lists = {
        "rejected": findings.refusals,
        "pending": findings.pending,
        "never ready": findings.waiting,
        "replaced": findings.replaced,
    }
    rows += [(kind, each) for kind, texts in lists.items() for each in _some(texts)]
    rows += [(f"{_WEIGHTS[each.weight]} {each.title}", _detail(each)) for each in findings.details]
    rows += [("not tried", each) for each in findings.untried]
    for each in findings.models:
        minutes = (
            ""
            if each.minutes is None
            else f"; about {each.minutes} minutes of loading weights, one replica after the other"
        )
        rows.append(
            (
                f"replicas of {each.name}",
                f"{each.lowest_ready} of {each.wanted} ready at the lowest{minutes}",
            )
        )
    for each in findings.clients:
        sent = f"{each.sent} sent while the change was applied"
        rows.append(
            (
                f"requests to {each.model}",
                f"{sent}; {'; '.join(_some(each.troubles)) or 'every one was answered in time'}",
            )
        )
    rows += [("not called", each) for each in _some(findings.uncalled)]
    rows += [("pruned", each) for each in _some(findings.pruned)]
    rows += [("order", " → ".join(_some(findings.order)))] if findings.order else []
    if findings.is_trial:
        note = "Engines ran without accelerators on generated weights: inferplan docs trial."
        return Table(
            title="Trial of changed models",
            columns=("finding", "what the engine says"),
            rows=tuple(map(_texts, rows)),
            notes=(note,),
        )
    time = f", in {findings.seconds:.0f} s" if findings.seconds else ""
    note = (
        f"{findings.head} applied over {findings.base} on a real control plane with fake nodes,"
        f" {findings.nodes}{time}"
    )
    minutes = (
        ", so the minutes are computed from the size of the weights" if findings.models else ""
    )
    note += f"; servers start at once there{minutes}."
    return Table(
        title="Rehearsed upgrade",
        columns=("finding", "what happened"),
        rows=tuple(map(_texts, rows)),
        notes=(clean(note),),
    )


_WEIGHTS = {"blocked": "⛔", "risk": "⚠️", "note": "note:"}


def _detail(finding: Finding) -> str:
    subject = f"{finding.object} {finding.field}".strip()
    place = f" ({finding.place})" if finding.place else ""
    remedy = f". To fix it: {finding.remedy}" if finding.remedy and finding.weight != "note" else ""
    return f"{subject}{place}: {finding.reason.rstrip('.')}{remedy}"


def _some(texts: tuple[str, ...]) -> list[str]:
    more = [f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(shortened(one_line(clean(text)), 1000) for text in texts)
