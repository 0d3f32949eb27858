"""The review that lets vLLM run Python files of a model (trust_remote_code): one revision, and who read its code."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, StringConstraints, Tag

from components.spec import Spec
from components.storage.spec import Revision


class RemoteCode(Spec):
    """A review of the Python files of a model. It holds for one revision."""

    reviewed_by: Annotated[str, StringConstraints(pattern=r"^\S(.{0,98}\S)?$")]
    """The person or team that read the files and accepts that they run with the server's key and network access."""
    revision: Revision
    """The revision that was reviewed. It must be weights.revision, so that a new revision needs a new review."""


def _reviewed(written: object) -> object:
    if written is True:
        raise ValueError(
            "true runs Python files of the model without a review. "
            "Set trustRemoteCode: {reviewedBy: <who read the files>, revision: <weights.revision>}, or remove it"
        )
    return written


TrustRemoteCode = Annotated[
    Annotated[Literal[False], Tag("off")] | Annotated[RemoteCode, Tag("reviewed")],
    Discriminator(lambda written: "reviewed" if isinstance(written, dict | RemoteCode) else "off"),
    BeforeValidator(_reviewed),
]
