"""Python files of a model that a server runs, after a review of one revision."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, StringConstraints, Tag

from inferplan.components.serving.served_model import ServedModel
from inferplan.components.spec import Spec, rule
from inferplan.components.stores import Revision


class RemoteCode(Spec):
    """A review of the Python files of a model. It holds for one revision."""

    reviewed_by: Annotated[str, StringConstraints(pattern=r"^\S(.{0,98}\S)?$")]
    """The person or team that read the files and accepts that they run with the server's key and
    network access.
    """
    revision: Revision
    """The revision that was reviewed. It must be weights.revision, so that a new revision needs a
    new review.
    """


def _reviewed(written: object) -> object:
    if written is True:
        raise ValueError(
            "true runs Python files of the model without a review. Set trustRemoteCode:"
            " {reviewedBy: <who read the files>, revision: <weights.revision>}, or remove it"
        )
    return written


TrustRemoteCode = Annotated[
    Annotated[Literal[False], Tag("off")] | Annotated[RemoteCode, Tag("reviewed")],
    Discriminator(lambda written: "reviewed" if isinstance(written, dict | RemoteCode) else "off"),
    BeforeValidator(_reviewed),
]


class ReviewedCode(ServedModel):
    """A model of an engine that can run Python files of the model."""

    trust_remote_code: TrustRemoteCode = False
    """Lets the server run Python files of the model, after a review of one revision. The policy
    pack blocks it until a reviewer adds an exemption.
    """

    @rule
    def _review_holds_for_the_files(self) -> Iterator[str]:
        review = self.trust_remote_code
        if isinstance(review, RemoteCode) and (
            self.weights is None or self.weights.revision != review.revision
        ):
            yield (
                f"trustRemoteCode was reviewed at revision {review.revision}, but weights.revision"
                f" is {(self.weights and self.weights.revision) or 'missing'}. Review the files of"
                " that revision, and set both to it"
            )
        if isinstance(review, RemoteCode) and self.preheat is None:
            yield (
                "trustRemoteCode requires preheat, which verifies that the files are those of the"
                " revision. Add preheat: {into}"
            )
