"""A table of the report, and the text of a value that changes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the report. `notes` name the basis of the figures and what they leave out.
    `changed` is True if any row changes.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    changed: bool = True

    @property
    def blocks(self) -> bool:
        """True if a row says that the change must not be applied."""
        return any(cell.startswith("⛔") for row in self.rows for cell in row[:2])


def turn(before: object, after: object) -> str:
    was, will = ("none" if each is None else str(each) for each in (before, after))
    return will if was == will else f"{was} → {will}"
