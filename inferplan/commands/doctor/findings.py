"""Findings of `inferplan doctor`. All checks run concurrently, and a check that fails does not stop
another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from inferplan.errors import DeniedError, LoginError, OperationError, one_line

Subject = TypeVar("Subject")
_THREADS = 8


class Severity(StrEnum):
    """The weight of a finding. Errors make `inferplan doctor` fail, and questions without an
    answer.
    """

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One answer of the check `check`. `remedy` is a command to paste, or a sentence where no
    command exists.
    """

    severity: Severity
    message: str
    remedy: str = ""
    check: str = ""
    needs_login: bool = False
    unanswered: bool = False
    """True if the cloud or the cluster did not answer."""


ok = partial(Finding, Severity.OK)
# It may be intended.
warning = partial(Finding, Severity.WARNING)
# An update fails, or its models wait forever.
error = partial(Finding, Severity.ERROR)
# It cannot be proven or disproven from here.
unknown = partial(Finding, Severity.UNKNOWN)


def skipped(reason: str) -> Finding:
    """The stack has nothing that the check asks for."""
    return Finding(Severity.SKIPPED, f"not checked, because {reason}")


def unchecked(reason: str, remedy: str = "", *, unanswered: bool = True) -> Finding:
    """The stack needs an answer, and there is none."""
    message = f"not checked, because {reason}"
    return Finding(Severity.UNKNOWN, message, remedy, unanswered=unanswered)


Check = Callable[[Subject], Iterable[Finding]]


def run_checks(checks: Mapping[str, Check[Subject]], subject: Subject) -> list[Finding]:
    """The findings of all `checks` on `subject`, in the order of the table. Only the first check
    without a login reports that as an error.
    """
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        runs = [pool.submit(_run, name, check, subject) for name, check in checks.items()]
        findings = [finding for run in runs for finding in run.result()]
    first = next((each for each in findings if each.needs_login), None)
    if first is None:
        return findings
    later = unchecked(f"the login is not accepted, see {first.check}")
    return [
        replace(later, check=each.check) if each.needs_login and each is not first else each
        for each in findings
    ]


def _run(name: str, check: Check[Subject], subject: Subject) -> Sequence[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(check(subject))
    except DeniedError as denied:
        findings.append(unchecked(f"{denied}; needs permission {denied.permission}", denied.remedy))
    except LoginError as failed:
        findings.append(replace(error(failed.problem, failed.remedy), needs_login=True))
    except OperationError as failed:
        findings.append(unchecked(str(failed)))
    except Exception as defect:  # noqa: BLE001 - a defect in one check must not hide the findings of the others
        problem = one_line(f"{type(defect).__name__}: {defect}")
        findings.append(
            unchecked(
                f"of an unexpected {problem}. This is a defect of inferplan, please report it"
            )
        )
    return [replace(each, check=name) for each in findings]
