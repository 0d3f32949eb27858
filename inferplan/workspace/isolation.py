"""A process of its own for data of strangers: without a network, if the kernel allows that."""

import ctypes
import fcntl
import os
import socket
import struct
import sys

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_FLAGS, _UP = 0x8914, 1


def without_network() -> None:
    """Give this process, right after its fork, a network namespace with loopback alone. Where the
    kernel forbids it, nothing changes.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    flags = _NEW_NETWORK if os.geteuid() == 0 else _NEW_USER | _NEW_NETWORK
    if libc.unshare(flags) == 0:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
