"""What the API server's refusals mean to a person; values that it quotes are left out where they may be secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehearsal.engine.wait.errors import ObjectFailed

if TYPE_CHECKING:
    from rehearsal.cluster.api import ApiError


def is_immutable(error: ApiError) -> bool:
    """Whether the server refuses because a field cannot change once the object exists."""
    words = (
        "immutable",
        "may not change once set",
        "updates to statefulset spec",
        "pod updates may not change",
        "is forbidden after creation",
    )
    return error.status == 422 and any(word in error.message for word in words)


def objection_of(error: ApiError) -> str:
    """The fields that the server does not let change, each with its reason in the server's words; the values it quotes are left out."""
    causes = error.details.get("causes") or ()
    # A cause reads `Invalid value: {...}: field is immutable`: what stands behind the last colon quotes nothing.
    said = dict.fromkeys(f"{each.get('field', '')}: {str(each.get('message', '')).rpartition(': ')[2]}" for each in causes)
    return f"the API server does not let it change in place: {', '.join(said) or 'a field is immutable'}"


def refusal(error: ApiError) -> ObjectFailed:
    """`error` in a person's words. Values that the server quotes are left out where they may be secret."""
    if error.reason == "Conflict":
        return ObjectFailed(
            f"another field manager owns what is declared here: {error.message}",
            'leave the field out, or take it over with the annotation pulumi.com/patchForce: "true"',
        )
    if error.status == 0:
        return ObjectFailed(error.message, "run the same command again: it repairs the cluster and goes on")
    if error.reason == "Forbidden" and "exceeded quota" in error.message:
        return ObjectFailed(error.message, "ask for less, or give the quota more")
    if "failed calling webhook" in error.message:
        return ObjectFailed(
            error.message, "see whether what serves that webhook runs; without its answer the API server takes nothing of this kind"
        )
    return ObjectFailed(f"the API server refuses it ({error.status} {error.reason}): {error.message}", "correct what is declared")
