"""Forecasts of a stack's speed from its facts. Without traffic in the facts nothing is imported for
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferplan.errors import OperationError, RequestError
from inferplan.kube.facts import Subjects, read
from inferplan.workspace.files import write
from inferplan.workspace.project import project_root, short_path

if TYPE_CHECKING:
    from inferplan.predict.forecast import Forecast
    from inferplan.predict.incidents import Incident
    from inferplan.predict.simulation import Outcome
    from inferplan.review.speed import SpeedReview
    from inferplan.status.benchmark import BenchmarkResult
    from inferplan.workspace.workspace import Workspace


def has_traffic(subjects: Subjects) -> bool:
    return any(kind == "model" and facts.get("traffic") for (kind, _), facts in subjects.items())


def profile_files(root: Path, stack: str) -> dict[str, Path]:
    """The measured profiles of `stack` in the repository, by model."""
    return {each.stem: each for each in sorted((root / "profiles" / stack).glob("*.json"))}


def forecasts_of(outputs: Mapping[str, Any], root: Path, stack: str) -> list[Forecast]:
    """The forecasts of the models of `stack` with these `outputs`, in the order of their names."""
    subjects = read(outputs) or {}
    if not has_traffic(subjects):
        return []
    from inferplan.predict.forecast import forecasts

    return forecasts(subjects, root, profile_files(root, stack))


def speed_table(
    per_model: list[Forecast],
) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]:
    """Columns, rows and notes of forecasts."""
    from inferplan.predict.words import COLUMNS, notes, row

    return COLUMNS, [row(each) for each in per_model], list(notes(per_model))


def check_memory(per_model: list[Forecast]) -> None:
    """Raise OperationError if the weights of a model do not fit its accelerators."""
    if lines := [f"{each.model}: {each.fatal}" for each in per_model if each.fatal]:
        raise OperationError("\n".join(lines))


def read_speed(stack: str, before: Subjects, after: Subjects) -> SpeedReview:
    """The change of speed from the facts `before` to those `after`."""
    from inferplan.review.speed import SpeedReview

    if not (has_traffic(before) or has_traffic(after)):
        return SpeedReview()
    from inferplan.planning.speed_review import review
    from inferplan.predict.forecast import forecasts

    root = project_root()
    profiles = profile_files(root, stack)
    reviewed = review(forecasts(before, root, profiles), forecasts(after, root, profiles))
    paths = sorted((root / "incidents" / stack).glob("*.toml"))
    if not paths:
        return reviewed
    from inferplan.planning.speed_review import with_incidents

    incidents = [incident_at(each, short_path(each)) for each in paths]
    played = (
        (each, *(outcome_of(each, side, each.model, root) for side in (before, after)))
        for each in incidents
    )
    return with_incidents(reviewed, played)


def incident_at(path: Path, shown: str) -> Incident:
    """The incident in the file `path`. Raises RequestError for a file with errors."""
    from inferplan.predict.configurations import UnknownSpeedError

    try:
        from inferplan.predict.incidents import read_incident

        return read_incident(path, shown)
    except UnknownSpeedError as error:
        raise RequestError(str(error)) from error


def outcome_of(
    incident: Incident | None,
    subjects: Subjects,
    model: str,
    root: Path,
    *,
    least: bool = False,
    beginning: int = 0,
) -> Outcome | str:
    """The outcome of `incident`, or of its traffic alone, on `model`; or the reason why there is
    none. With `least` it is the outcome at the lowest throughput within the prediction error, with
    `beginning` that of a router that chooses replicas by that many tokens.
    """
    from inferplan.predict.configurations import UnknownSpeedError

    facts = subjects.get(("model", model), {})
    if not facts.get("traffic"):
        return f"{model} has no traffic"
    try:
        from inferplan.predict.incidents import play

        pool = subjects["pool", facts["pool"]]
        return play(incident, facts, pool, root, least=least, beginning=beginning)
    except UnknownSpeedError as error:
        return str(error)


def keep_profiles(workspace: Workspace, result: BenchmarkResult) -> list[Path]:
    """Write the measurements of each model as its profile, and return the files. Raises
    OperationError if nothing was measured.
    """
    from inferplan.predict.profiles import document, key_of

    benchmark = workspace.settings.benchmark
    rows = result.document()["measurements"]
    if benchmark is None or not rows:
        raise OperationError(
            f"The benchmark {result.job} has no measurements to keep. Wait until it is complete, or"
            " read its failures."
        )
    subjects = read(workspace.record().outputs) or {}
    written = []
    for model in dict.fromkeys(row["model"] for row in rows):
        facts = subjects["model", model.partition("/")[0]]
        path = workspace.root / "profiles" / workspace.stack / f"{model.partition('/')[0]}.json"
        own = [row for row in rows if row["model"] == model and not row["errors"]]
        if not own:
            raise OperationError(
                f"Every measurement of {model} had errors, so nothing of it is kept. Read the log"
                f" of Job {result.job}."
            )
        key = key_of(facts, subjects["pool", facts["pool"]])
        options = {
            "job": result.job,
            "replicas": int(facts.get("replicas", 1)),
            "output_tokens": benchmark.output_tokens,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, document(key, rows=own, **options).encode())
        written.append(path)
    return written
