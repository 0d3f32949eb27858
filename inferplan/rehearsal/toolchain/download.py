"""Download the programs that their projects release, each pinned by a checksum. What cannot be
downloaded is built.
"""

import hashlib
import os
import platform
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from inferplan.rehearsal.toolchain.pins import Source
from inferplan.tables import table

MIRROR_VARIABLE = "INFERPLAN_DOWNLOAD_MIRROR"
_TRIES, _PAUSE_SECONDS, _TIMEOUT_SECONDS, _REPORT_SECONDS = 4, 2.0, 20.0, 5.0
_BLOCK, _LARGEST = 1 << 20, 1_500_000_000
_PASSING = (408, 429, 500, 502, 503, 504)

Waiting = Callable[[str], None]


class DownloadError(Exception):
    """A file cannot be downloaded, or is not the pinned one; the message is the reason."""


def is_offered(source: Source) -> bool:
    """True if there are releases for this platform and the mirror setting is not `off`."""
    return os.environ.get(MIRROR_VARIABLE) != "off" and bool(_rows(source))


def download_source(source: Source, staging: Path, parts: Path, waiting: Waiting) -> None:
    """Write the programs and data files of `source` to `staging`. `parts` keeps what an interrupted
    download received. Raises DownloadError.
    """
    for row in _rows(source):
        part = _fetch(row, parts, waiting)
        try:
            _unpack(row, part, source, staging)
        except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the archive
            raise DownloadError(f"{_address(row)} cannot be unpacked: {error}") from error
        part.unlink()
    if missing := [name for name in _members(source) if not (staging / name).is_file()]:
        raise DownloadError(f"the archive lacks {', '.join(missing)}")


def _rows(source: Source) -> list[dict[str, Any]]:
    rows = table("rehearsal/toolchain/downloads.toml").get(
        f"{sys.platform}-{platform.machine()}", {}
    )
    return rows.get(source.name, [])


def _members(source: Source) -> dict[str, str]:
    """The path below the folder of an archive for each file of the toolchain."""
    return {name: name for name, _ in source.programs} | dict(source.data)


def _address(row: dict[str, Any]) -> str:
    """The URL, below the mirror if one is set: `<mirror>/<host>/<path>`."""
    parts, mirror = urlsplit(row["url"]), os.environ.get(MIRROR_VARIABLE, "").rstrip("/")
    if mirror and urlsplit(mirror).scheme not in ("http", "https"):
        raise DownloadError(
            f"{MIRROR_VARIABLE} is {mirror!r}, which is not a URL. Use http(s)://host/path, or off"
        )
    return f"{mirror}/{parts.netloc}{parts.path}" if mirror else row["url"]


def _fetch(row: dict[str, Any], parts: Path, waiting: Waiting) -> Path:
    """The verified file. A failed try is repeated from where it ended; a wrong file is discarded,
    and fetched whole once.
    """
    kind = "sha512" if "sha512" in row else "sha256"
    address, part = _address(row), parts / f"{row[kind][:24]}.part"
    parts.mkdir(parents=True, exist_ok=True)
    reason = ""
    for number in range(_TRIES):
        resumed = part.exists()
        try:
            _receive(address, part, waiting)
        except (
            urllib.error.URLError,
            HTTPException,
            TimeoutError,
            ConnectionError,
            DownloadError,
        ) as error:
            reason = _reason(error)
            if not _may_pass(error):
                break
            time.sleep(_PAUSE_SECONDS * number)
            continue
        with part.open("rb") as stream:
            digest = hashlib.file_digest(stream, kind).hexdigest()
        if digest == row[kind]:
            return part
        part.unlink()
        reason = f"it has {kind} {digest}, pinned is {row[kind]}"
        if not resumed:
            break
    raise DownloadError(f"{address}: {reason}")


def _may_pass(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return (
            error.code in _PASSING or error.code == 416
        )  # a part that is longer than the file was deleted
    # A host that cannot be reached at all (no name, no route, refused) is not asked again.
    return not isinstance(error, urllib.error.URLError) or isinstance(error.reason, TimeoutError)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    return str(getattr(error, "reason", error)) or type(error).__name__


def _receive(address: str, part: Path, waiting: Waiting) -> None:
    """Append what is missing to `part`. Raises DownloadError if the connection ends early, and
    errors of urllib.
    """
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={start}-"} if start else {})  # noqa: S310 - pinned https URLs, or the user's mirror
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310 - the same URL
    except urllib.error.HTTPError as error:
        if error.code == 416:
            part.unlink(missing_ok=True)
        raise
    with response, part.open("ab" if response.status == 206 else "wb") as stream:
        size = int(response.headers.get("Content-Length") or -1)
        total = size + stream.tell() if size >= 0 else -1
        if total > _LARGEST:
            raise DownloadError(
                f"the server announces {total} bytes, at most {_LARGEST} are expected"
            )
        _copy(response, stream, total, waiting)
        if total >= 0 and stream.tell() < total:
            raise ConnectionError(f"the connection ended after {stream.tell()} of {total} bytes")


def _copy(response: HTTPResponse, stream: IO[bytes], total: int, waiting: Waiting) -> None:
    reported = time.monotonic()
    while block := response.read(_BLOCK):
        stream.write(block)
        if stream.tell() > _LARGEST:
            raise DownloadError(f"the server sent more than {_LARGEST} bytes")
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            waiting(
                "the download,"
                f" {stream.tell() / 1e6:.0f}{f' of {total / 1e6:.0f}' if total >= 0 else ''} MB"
            )


def _unpack(row: dict[str, Any], part: Path, source: Source, staging: Path) -> None:
    """Copy the members that the toolchain needs. Names are compared, never used as paths."""
    if "folder" not in row:
        [(name, _)] = source.programs
        shutil.copyfile(part, staging / name)
    else:
        wanted = {
            str(PurePosixPath(row["folder"]) / path): name
            for name, path in _members(source).items()
        }
        for path, stream in (
            _zip_files(part) if row["url"].endswith(".zip") else _tar_files(part, wanted)
        ):
            if path in wanted:
                with (staging / wanted[path]).open("wb") as target:
                    shutil.copyfileobj(stream, target)
    for name, _ in source.programs:
        if (staging / name).exists():
            (staging / name).chmod(0o755)


def _tar_files(part: Path, wanted: dict[str, str]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(part) as archive:
        for member in archive:
            if member.name in wanted and (stream := archive.extractfile(member)) is not None:
                yield member.name, stream


def _zip_files(part: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(part) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                yield name, stream
