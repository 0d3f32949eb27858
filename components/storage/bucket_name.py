"""Validates bucket names by the rules of S3, without checking that the bucket exists."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

# "General purpose bucket naming rules", S3 user guide, read 2026-11.
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
_RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def bucket_name(bucket: str) -> str:
    """Return `bucket`. Raises ValueError with the rule that it breaks."""
    rules = "3 to 63 lower-case letters, digits, dots and hyphens, with a letter or digit first and last"
    if not _BUCKET.match(bucket):
        raise ValueError(f"{bucket!r} is not a valid bucket name. Use {rules}.")
    if ".." in bucket:
        raise ValueError(f"{bucket!r} is not a valid bucket name: it contains two dots in a row. Use one.")
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", bucket):
        raise ValueError(f"{bucket!r} is not a valid bucket name: it looks like an IP address. Use a name; addresses belong in endpoint.")
    if bucket.startswith(_RESERVED_PREFIXES) or bucket.endswith(_RESERVED_SUFFIXES):
        reserved = ", ".join((*_RESERVED_PREFIXES, *_RESERVED_SUFFIXES))
        raise ValueError(f"{bucket!r} is not a valid bucket name: AWS reserves {reserved}. Use the name of a general purpose bucket.")
    return bucket


BucketName = Annotated[str, AfterValidator(bucket_name)]
