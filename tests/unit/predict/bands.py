"""The error bands of forecasts, from comparisons with published measurements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST = 5
"""Comparisons on one accelerator below which the band is that of all accelerators."""
MANY = 4
"""Models above which a group stands for one more model by itself."""
KEPT = 0.9
"""The share of the comparisons that a band has to hold."""
TIMES_KEPT = 0.92
"""The same for times. It is larger, because the rows that were not used for fitting have other engines
and models: bands of 0.9 held 89.6% of their figures.
"""
CLEAR = 0.1
"""A step gets its own share only if it differs from its kernels by more than this."""
LAYERS = ("dense", "experts")
FIGURES = ("ttft", "itl", "capacity", "percentile_ttft", "percentile_itl")


@dataclass(frozen=True)
class Comparison:
    """One measurement with the relative errors of its prediction by figure, and the version of the
    kernels; `unknown` says why there is none.
    """

    row: dict[str, str]
    errors: dict[str, float]
    framework: str = ""
    system: str = ""
    layers: str = ""
    kernels: str = ""
    model: str = ""
    unknown: str = ""


def shares(found: Sequence[Comparison]) -> dict[str, float]:
    """The times of steps as a share of the sum of their kernels, of each model with an engine on an
    accelerator, where load tests without a remark are enough and say so clearly. `found` are
    comparisons without such shares.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for each in found:
        if "itl" in each.errors and not each.row["remark"]:
            groups[f"{each.framework}-{each.system}-{each.model}"].append(1 + each.errors["itl"])
    written = {
        name: round(1 / median(ratios), 2) for name, ratios in groups.items() if len(ratios) >= 3
    }
    return {name: share for name, share in sorted(written.items()) if abs(share - 1) > CLEAR}


def bands(found: Sequence[Comparison]) -> dict[str, dict[str, float]]:
    """The errors that new measurements stay within, and the number of comparisons: of each
    accelerator with an engine for models of dense layers or of experts, and of all such models.

    Most users have a model that nothing was compared with, so a band is that of the worst model, and
    comparisons with one model alone give none. Times with too few comparisons have the band of all
    such models, and a throughput that of all models: largest throughputs are few, and the sources
    differ more than the layers. A percentile never errs less than a mean.
    """
    groups: dict[str, list[Comparison]] = defaultdict(list)
    every = [each for each in found if not each.unknown]
    for each in every:
        groups[f"{each.framework}-{each.system}-{each.layers}"].append(each)
        groups[each.layers].append(each)
    written = {}
    for name, group in sorted(groups.items()):
        if name not in LAYERS and not _enough(group, models=2):
            continue
        wider = groups[name.rpartition("-")[2]]
        figures = {
            figure: _widest(figure, group, wider, every)
            if figure != "capacity"
            else _widest(figure, group if name not in LAYERS else every, every)
            for figure in FIGURES
        }
        for figure in ("ttft", "itl"):
            percentile = f"percentile_{figure}"
            figures[percentile] = max(figures[percentile], figures[figure])
        written[name] = figures | {"comparisons": len(group)}
    return written


def _enough(group: Sequence[Comparison], models: int = 1) -> bool:
    return len(group) >= FEWEST and len({each.row["model"] for each in group}) >= models


def _widest(figure: str, *groups: Sequence[Comparison]) -> float:
    """The error of the first group with enough comparisons, else of the last: the error of one more
    comparison, or in the accelerator's own group the error of its worst model, if that is larger.
    """
    having = [[each for each in group if figure in each.errors] for group in groups]
    chosen = next(filter(_enough, having), having[-1])
    errors: dict[str, list[float]] = defaultdict(list)
    for each in chosen:
        errors[each.row["model"]].append(abs(each.errors[figure]))
    # One more comparison that is drawn as these were (conformal prediction).
    every = [each for own in errors.values() for each in own]
    kept = KEPT if figure == "capacity" else TIMES_KEPT
    further = _nth(every, math.ceil(kept * (len(every) + 1)))
    if chosen is not having[0] or len(errors) > MANY:
        return further
    return max(further, *(_nth(own, math.ceil(kept * len(own))) for own in errors.values()))


def _nth(errors: Sequence[float], place: int) -> float:
    """The error at this place from below, rounded up to whole percents."""
    return round(sorted(errors)[min(place, len(errors)) - 1] + 0.005, 2)
