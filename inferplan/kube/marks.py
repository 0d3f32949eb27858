"""Marks in Pulumi's wire format, part of the protocol between program and engine
(pulumi/runtime/rpc.py of the SDK).
"""

from typing import Final

SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""The key that every map with a special meaning has; its value says which meaning."""
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a protocol constant, not a credential
OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
RESOURCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
BYTES: Final = "803fd3297a5875dc03ca845dda5d2a98"
UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The text in place of a value that only an update will know."""
