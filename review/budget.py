"""Fits a report into the space that a comment has: whole items are left out, from the bottom up, and counted."""

from __future__ import annotations

from dataclasses import dataclass, field

# GitHub rejects bodies of more than 65,536 characters; some systems count bytes, three for each character at most.
BYTES_PER_CHARACTER = 3


@dataclass(slots=True)
class Section:
    """A heading, items that can be left out one by one from the last, and an end. The highest `rank` is cut first.

    `noun` names an item in the note on omitted items; a section whose items must stay has rank 0.
    """

    head: str = ""
    items: list[str] = field(default_factory=list)
    tail: str = ""
    noun: str = ""
    rank: int = 0
    left_out: int = 0

    def text(self, more: str) -> str:
        """The section as it stands; `more` says where the rest is."""
        return f"{self.head}{''.join(self.items)}{self.note(more)}{self.tail}"

    def note(self, more: str) -> str:
        """The line that says how many items are left out, "" where none is."""
        if not self.left_out:
            return ""
        nouns = self.noun if self.left_out == 1 else f"{self.noun}s"
        return f"\n_… {self.left_out} more {nouns} left out to save space{more}_\n"


def fit(sections: list[Section], budget: int, *, more: str = "") -> str:
    """The sections as one text of at most `budget` characters and three times as many bytes.

    Raises ValueError when not even the parts that cannot be left out fit.
    """
    size = sum(len(section.text(more)) for section in sections)
    weight = sum(len(section.text(more).encode()) for section in sections)
    # Of two sections of one rank, the one nearer to the end gives first.
    for section in sorted((each for each in reversed(sections) if each.rank), key=lambda each: -each.rank):
        while section.items and (size > budget or weight > budget * BYTES_PER_CHARACTER):
            note = section.note(more)
            dropped = section.items.pop()
            section.left_out += 1
            grown = section.note(more)
            size += len(grown) - len(note) - len(dropped)
            weight += len(grown.encode()) - len(note.encode()) - len(dropped.encode())
    text = "".join(section.text(more) for section in sections)
    if len(text) > budget or len(text.encode()) > budget * BYTES_PER_CHARACTER:
        raise ValueError(
            f"a budget of {budget} characters is too small: {len(text)} are needed at least; give --budget {len(text)} or more"
        )
    return text
