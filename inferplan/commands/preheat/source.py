"""The source and the share of a preheat, as its preview shows them."""

from inferplan.components.preheat.payload.certificates import UntrustedError
from inferplan.components.preheat.payload.errors import PreheatError
from inferplan.components.preheat.payload.progress import size
from inferplan.components.preheat.payload.request import Request
from inferplan.components.preheat.payload.source import SourceFile
from inferplan.components.preheat.preview import Listing, SharePreview, mounted, preview_share
from inferplan.kube.quantity import bytes_of

__all__ = [
    "Listing",
    "PreheatError",
    "Request",
    "SharePreview",
    "SourceFile",
    "UntrustedError",
    "bytes_of",
    "mounted",
    "preview_share",
    "size",
]
