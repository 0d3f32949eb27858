"""Models in a repository of a Hugging Face hub, at one commit: huggingface_hub lists the files, rclone copies them.

The hub publishes the sha256 of each large file and git's checksum of each small one. A revision other than a commit is rejected,
with the commit that it means today.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .certificates import untrusted
from .errors import Exit, PreheatError
from .rclone import REMOTE, Rclone, http_remote
from .request import Request
from .source import Source, SourceFile
from .waiting import NoAnswer, answers

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DENIED = (401, 403)
# The client asks five times, waiting longer each time, before it gives up on a hub that fails.
_STALLS = 3
_CHECK_SECONDS = 15.0
_T = TypeVar("_T")


class HubSource(Source):
    """The files of `repository` at the commit `revision`. The hub has `silence_seconds` to list them."""

    def __init__(
        self, rclone: Rclone, api: HfApi, repository: str, revision: str | None, *, silence_seconds: float, stop: threading.Event
    ) -> None:
        super().__init__(rclone, REMOTE, f"{api.endpoint}/{repository}")
        self._api = api
        self._repository = repository
        self._revision = revision
        self._silence_seconds = silence_seconds
        self._stop = stop

    def files(self) -> list[SourceFile]:
        # The client would repeat its request for half a minute after a certificate error.
        self._ask(lambda: _check_certificate(self._api.endpoint))
        if self._revision is None or not _COMMIT.fullmatch(self._revision):
            raise self._unpinned(self._revision)
        return self._ask(self._tree)

    def _tree(self) -> list[SourceFile]:
        from huggingface_hub.utils import build_hf_headers, paginate, validate_repo_id

        validate_repo_id(self._repository)
        address = f"{self._api.endpoint}/api/models/{self._repository}/tree/{self._revision}"
        # The client's own list ends in a KeyError for an entry without a field, which names no file.
        entries = paginate(address, params={"recursive": True}, headers=build_hf_headers(token=self._api.token))
        return [_file(each, self.name) for each in entries if not isinstance(each, dict) or each.get("type") != "directory"]

    def _unpinned(self, revision: str | None) -> PreheatError:
        commit = self._ask(lambda: self._api.repo_info(self._repository, revision=revision).sha)
        reason = f"revision {revision!r} is a name that can move" if revision else "no revision is pinned"
        problem = f"{reason}, so files might change under a server"
        return PreheatError(Exit.REFUSED, problem, f"write weights.revision: {commit}, which is its commit today", file=self.name)

    def _ask(self, question: Callable[[], _T]) -> _T:
        """The hub's answer; the client would wait forever for a silent hub."""
        try:
            return answers([question], self._stop, seconds=self._silence_seconds)[0]
        except NoAnswer:
            remedy = "check that it is up; the next run continues"
            raise PreheatError(Exit.SOURCE, f"the hub was silent for {self._silence_seconds:.0f} s", remedy, file=self.name) from None
        except OSError as error:
            raise self._explain(error) from None
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"the hub's answer is not as documented ({type(error).__name__})"
            remedy = "check that the store's endpoint is a hub"
            raise PreheatError(Exit.REFUSED, problem, remedy, file=self.name, found=_first_line(error)) from None
        except ValueError as error:
            problem, remedy = "the hub does not accept this repository's name, or its answer is not a list of files", "check weights.path"
            raise PreheatError(Exit.REFUSED, problem, remedy, file=self.name, found=_first_line(error)) from None
        except Exception as error:
            # Not every version of the client raises an OSError for a network failure.
            if type(error).__module__.partition(".")[0] in ("huggingface_hub", "httpx", "httpx2", "httpcore", "httpcore2", "requests"):
                raise self._explain(error) from None
            raise

    def _explain(self, error: Exception) -> PreheatError:
        from huggingface_hub import errors

        if refusal := untrusted(str(error), self._api.endpoint):
            return refusal
        status = getattr(getattr(error, "response", None), "status_code", None)
        has_token = bool(os.environ.get("HF_TOKEN"))
        token = "look at HF_TOKEN's rights" if has_token else "name the Secret with HF_TOKEN under the store's credentials"
        code, details = Exit.REFUSED, None
        if isinstance(error, errors.GatedRepoError):
            problem, remedy = "the repository is gated", f"accept the repository's terms on the hub with the token's account, and {token}"
        elif isinstance(error, errors.RevisionNotFoundError):
            problem = f"the repository has no commit {self._revision}"
            remedy = "copy the commit from its page of files and versions"
        elif isinstance(error, errors.RepositoryNotFoundError) or status in _DENIED:
            problem = "this repository does not exist, or it is private"
            remedy = f"check weights.path; if it is private, {token}"
        else:
            code, details = Exit.SOURCE, _first_line(error)
            problem, remedy = "the hub did not answer as it should", "check that it is up; the next run continues"
        return PreheatError(code, problem, remedy, file=self.name, found=details)


def open_hub(request: Request, rclone: Callable[[dict[str, str]], Rclone], stop: threading.Event) -> HubSource:
    """The repository that `request` names; `rclone` makes one with further environment.

    Raises PreheatError(BAD_REQUEST) when the image lacks huggingface_hub.
    """
    try:
        from huggingface_hub import HfApi, hf_hub_url
    except ImportError:
        remedy = "name one that has it under preheat.image, or leave preheat.image out"
        raise PreheatError(Exit.BAD_REQUEST, "this image has no huggingface_hub", remedy) from None
    token = os.environ.get("HF_TOKEN") or None
    # The address of a file without its name; names are added, and escaped, by rclone.
    base = hf_hub_url(request.root, "x", revision=request.revision, endpoint=request.endpoint).removesuffix("x")
    remote = http_remote(base, f"Bearer {token}" if token else None)
    # Sizes come from the hub's list. A HEAD would follow the hub to servers whose addresses are signed for GET alone.
    mover = rclone({**remote, "RCLONE_CONFIG_SOURCE_NO_HEAD": "true"})
    api = HfApi(endpoint=request.endpoint, token=token or False)
    return HubSource(mover, api, request.root, request.revision, silence_seconds=_STALLS * request.stall_seconds, stop=stop)


def _check_certificate(address: str) -> None:
    """Verify the certificate of the server at `address` once. Raises UntrustedError; any other failure is ignored here."""
    if not address.startswith("https://"):
        return
    # No redirect is followed and any status will do: this is only about this server's certificate.
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    with contextlib.suppress(OSError, http.client.HTTPException):
        try:
            opener.open(urllib.request.Request(address, method="HEAD"), timeout=_CHECK_SECONDS).close()  # noqa: S310 - https, as seen above
        except urllib.error.URLError as error:
            if refusal := untrusted(str(error.reason), address):
                raise refusal from None


def _file(entry: Any, hub: str) -> SourceFile:
    """The file that `hub` describes. Raises PreheatError(REFUSED) for another entry than the hub's documentation shows."""
    fields = entry if isinstance(entry, dict) else {}
    lfs = fields.get("lfs")
    large = {} if lfs is None else {"lfs.oid": _field(lfs, "oid"), "lfs.size": _field(lfs, "size")}
    values: dict[str, Any] = {"type": fields.get("type"), "path": fields.get("path"), "size": fields.get("size"), "oid": fields.get("oid"), **large}
    for name, value in values.items():
        if not _DOCUMENTED[name](value) or (name == "lfs.size" and value != values["size"]):
            problem, remedy = f"{hub} describes this file otherwise than a hub does", "check that the store's endpoint is a hub"
            raise PreheatError(Exit.REFUSED, problem, remedy, file=str(fields.get("path")), found=f"{name} {value!r}"[:200])
    path, size, blob = str(values["path"]), int(values["size"] or 0), values["oid"]
    if lfs is None:
        return SourceFile(path=path, size=size, origin=f"git:{blob}", git_sha1=blob)
    return SourceFile(path=path, size=size, origin=f"lfs:{lfs['oid']}", sha256=lfs["oid"])


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_sum(digits: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


_DOCUMENTED: dict[str, Callable[[Any], bool]] = {
    "type": lambda value: value == "file",
    "path": lambda value: isinstance(value, str) and value != "",
    "size": _is_size,
    "oid": _is_sum(40),
    "lfs.oid": _is_sum(64),
    "lfs.size": _is_size,
}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
