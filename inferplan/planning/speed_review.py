"""The part of a report on speed: the tables and risks of changed forecasts and incidents."""

from collections.abc import Iterable, Iterator, Sequence

from inferplan.documents.text import clean
from inferplan.predict.forecast import Forecast
from inferplan.predict.incidents import Incident
from inferplan.predict.simulation import Outcome
from inferplan.predict.words import COLUMNS, UNKNOWN, error_of, misses, notes, row
from inferplan.review.report_table import Table
from inferplan.review.speed import SpeedReview
from inferplan.review.steps.kinds import CRITICAL, DISRUPTIVE
from inferplan.review.steps.risk import Risk


def review(before: Sequence[Forecast], after: Sequence[Forecast]) -> SpeedReview:
    """Return the table and the risks of a change of forecasts. A missed objective is a risk also if
    it was missed before.
    """
    if not (before or after):
        return SpeedReview()
    was = {each.model: each for each in before}
    pairs = [(was.get(each.model), each) for each in after]
    rows = [
        [
            _turn(clean(first), clean(cell))
            for first, cell in zip(
                row(old) if old else ("",) * len(COLUMNS), row(each), strict=True
            )
        ]
        for old, each in pairs
    ]
    table = _table_of("Speed and capacity", COLUMNS, rows, map(clean, notes(after)))
    return SpeedReview((table,), tuple(risk for old, each in pairs for risk in _risks(old, each)))


def _table_of(
    title: str, columns: tuple[str, ...], rows: Iterable[Sequence[str]], texts: Iterable[str] = ()
) -> Table:
    cells = tuple(map(tuple, rows))
    changed = any("→" in cell for each in cells for cell in each)
    return Table(title=title, columns=columns, rows=cells, notes=tuple(texts), changed=changed)


def _turn(was: str, will: str) -> str:
    return will if was in ("", will) else f"{was} → {will}"


def _risks(old: Forecast | None, each: Forecast) -> Iterator[Risk]:
    if each.fatal:
        yield _risk(each.model, "does not fit", each.fatal, "the servers do not start", CRITICAL)
    for problem in each.problems:
        yield _risk(
            each.model,
            "cannot serve its context length",
            problem,
            "the servers do not start, or reject such requests",
            DISRUPTIVE,
        )
    if each.doubt:
        consequence = "requests wait, and their times grow without bound"
        yield _risk(each.model, "may be overloaded", each.doubt, consequence, DISRUPTIVE)
    for title, text in misses(each, old):
        yield _risk(
            each.model,
            f"misses its objective of {title}",
            text,
            f"{each.source} by {each.basis}{error_of(each)}",
            DISRUPTIVE,
        )
    if each.source == UNKNOWN and old is not None and old.source != UNKNOWN:
        yield _risk(
            each.model,
            "loses its forecast",
            each.reason,
            "nothing says whether the objective still holds",
            DISRUPTIVE,
        )


def _risk(model: str, what: str, cause: str, consequence: str, weight: int) -> Risk:
    name = clean(model)
    return Risk(
        weight=weight,
        what=what,
        kind="model",
        name=name,
        urn=f"model {name}",
        cause=clean(cause),
        consequence=clean(consequence),
    )


def with_incidents(
    reviewed: SpeedReview, played: Iterable[tuple[Incident, *tuple[Outcome | str, ...]]]
) -> SpeedReview:
    """`reviewed` with the incidents that were played before and after the change: their outcomes,
    or why there is none. A broken limit is a risk.
    """
    rows, risks = [], list(reviewed.risks)
    for incident, *outcomes in played:
        sides = [
            ("", each) if isinstance(each, str) else (f"{each.lost:,}", f"{each.late_percent:.1f}%")
            for each in outcomes
        ]
        rows.append(
            (
                clean(incident.name),
                clean(incident.model),
                *(_turn(clean(was), clean(will)) for was, will in zip(*sides, strict=True)),
            )
        )
        if not isinstance(outcomes[1], str) and (cause := incident.broken(outcomes[1])):
            consequence = "the incident that this file repeats would hurt users again"
            risks.append(
                _risk(
                    incident.model,
                    f"does not survive incident {clean(incident.name)}",
                    cause,
                    consequence,
                    DISRUPTIVE,
                )
            )
    table = _table_of("Incidents", ("incident", "model", "requests lost", "requests late"), rows)
    return SpeedReview((*reviewed.tables, table), tuple(risks))
