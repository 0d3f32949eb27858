"""The part of a report on speed, which another room makes from the facts of both sides."""

from collections.abc import Callable
from dataclasses import dataclass

from inferplan.kube.facts import Subjects
from inferplan.review.report_table import Table
from inferplan.review.steps.risk import Risk


@dataclass(frozen=True)
class SpeedReview:
    """The tables and risks of a change of speed."""

    tables: tuple[Table, ...] = ()
    risks: tuple[Risk, ...] = ()


SpeedReader = Callable[[str, Subjects, Subjects], SpeedReview]
"""Reads the speed of a stack from its name and its facts before and after."""
