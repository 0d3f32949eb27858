"""The forms of a report, and text that a report hides."""

from inferplan.documents.text import add_masks
from inferplan.review.rendering.html import render as as_html
from inferplan.review.rendering.markdown import render as as_markdown
from inferplan.review.report import Provenance, Report, as_json
from inferplan.review.verdict import BLOCKED

__all__ = ["BLOCKED", "Provenance", "Report", "add_masks", "as_html", "as_json", "as_markdown"]
