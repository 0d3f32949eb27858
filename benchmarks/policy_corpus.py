"""Measures the policy pack on the independent corpus: faults found and missed, and near misses blocked, by subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.ending import ended
from tests.policies.corpus import Verdict, bases, cases, clean, judge, mandatory, uncaught

CAUGHT_BUDGET = 0.95
ALARMS_BUDGET = 0.01


def verdicts() -> list[Verdict]:
    """The verdict on every case."""
    return [judge(each) for each in cases()]


def caught(judged: Sequence[Verdict]) -> float:
    """The share of faults that were caught."""
    faults = [each for each in judged if each.case.fault]
    return sum(each.right for each in faults) / len(faults)


def alarms(judged: Sequence[Verdict]) -> float:
    """The share of legitimate resources, near misses and clean ones, that were refused."""
    fine = [each.right for each in judged if not each.case.fault] + [not mandatory(clean(name)) for name in bases()]
    return fine.count(False) / len(fine)


def main() -> int:
    """Print the table; 1 when a budget is missed."""
    judged, reasons = verdicts(), uncaught()
    print(f"{'subject':<16}{'faults':>8}{'caught':>8}{'missed':>8}{'near misses':>13}{'false alarms':>14}")
    for subject in (*dict.fromkeys(each.case.file for each in judged), "all"):
        listed = [each for each in judged if subject in (each.case.file, "all")]
        faults, fine = [[each.right for each in listed if each.case.fault is fault] for fault in (True, False)]
        print(f"{subject:<16}{len(faults):>8}{faults.count(True):>8}{faults.count(False):>8}{len(fine):>13}{fine.count(False):>14}")
    for each in judged:
        if not each.right:
            print(
                f"  {'missed' if each.case.fault else 'false alarm'}: {each.case.file}: {each.case.title}: {reasons.get(each.case.title, '')}"
            )
    print(f"policies, faults caught: {caught(judged):.1%} of at least {CAUGHT_BUDGET:.0%}")
    print(f"policies, false alarms: {alarms(judged):.1%} of at most {ALARMS_BUDGET:.0%}")
    return int(caught(judged) < CAUGHT_BUDGET or alarms(judged) > ALARMS_BUDGET)


if __name__ == "__main__":
    sys.exit(ended(main, "benchmarks.policy_corpus"))
