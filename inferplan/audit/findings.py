"""Findings of an audit, each made once with its title, place and remedy."""

import re
from typing import Final

from inferplan.audit.manifest import Manifest
from inferplan.audit.secrets import without_secrets
from inferplan.kube.disclosure.disclosure import disclosed_path
from inferplan.review.findings import Finding
from inferplan.tables import table

TITLES: Final = table("audit/findings.toml")
_PLACEMENT: Final = table("audit/placement.toml")
_MADE: Final = r"(?<![\w.-])(?:[a-z]{{1,12}}-)*{}(?:-(?:[a-z]{{1,12}}|[0-9]{{1,3}}))+(?![\w-])"


def finding(
    code: str,
    subject: object,
    field: str,
    reason: str,
    origin: Manifest | Finding | None,
    *,
    remedy: str = "",
) -> Finding:
    """Build the finding `code` for `field` of `subject`, with the place of `origin`, a remedy by
    field or reason, and secrets removed.
    """
    weight, title, usual = TITLES[code]
    if code in ("unready", "upgrade", "later") and not remedy:
        by_field = (
            each for words, each in _PLACEMENT["fields_remedies"].items() if re.search(words, field)
        )
        by_reason = (
            each for words, each in _PLACEMENT["remedies"].items() if re.search(words, reason)
        )
        remedy = next(by_field, "") or next(by_reason, "")
    is_manifest = isinstance(origin, Manifest)
    place, body = origin.place if origin else "", origin.body if is_manifest else {}
    if is_manifest:
        place = origin.place_of(field)
    cause = () if is_manifest or not origin else re.split(r"[/ ]", origin.object)
    names = (*cause, str(subject), *re.split(r"[/ ]", str(subject)))
    # Its pods and their claims, such as data-store-0.
    made = re.findall(_MADE.format(re.escape(names[-1])), reason)
    text = without_secrets(" ".join(reason.split()), body, (*names, *made))
    return Finding(
        code=code,
        weight=weight,
        title=title,
        object=str(subject),
        field=disclosed_path(field),
        reason=text,
        place=place,
        remedy=remedy or usual,
    )
