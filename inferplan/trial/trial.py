"""The trials of the engines, by the name of the engine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inferplan.trial.engines import vllm
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding


@dataclass(frozen=True, kw_only=True)
class EngineTrial:
    """An engine that can be tried: its name in sentences, what no trial here judges, and the trial,
    which yields its findings in the order of its steps.
    """

    title: str
    unjudged: str
    run: Callable[[Subject, Callable[[str], None]], Iterator[Finding]]


TRIALS = {"vllm": EngineTrial(title=vllm.TITLE, unjudged=vllm.UNJUDGED, run=vllm.run)}
