"""The network of pods that need addresses of their own: a bridge, and a network namespace per pod.
The others share the sandbox's loopback.
"""

from __future__ import annotations

import os
import signal
import socketserver
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

GATEWAY = "10.9.0.1"


class Names(socketserver.BaseRequestHandler):
    """A name server that leads the names of Services to the addresses of their pods, and every
    other name to loopback.
    """

    addresses: Mapping[str, str] = {}

    def handle(self) -> None:
        query, reply = self.request
        end = query.index(b"\0", 12) + 5
        question, wants = query[12:end], query[end - 4 : end - 2]
        service = question[1 : 1 + question[0]].decode()
        address = IPv4Address(self.addresses.get(service, "127.0.0.1")).packed
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + address if wants == b"\0\1" else b""
        count = b"\0\1" if answer else b"\0\0"
        reply.sendto(
            query[:2] + b"\x81\x80\0\1" + count + b"\0\0\0\0" + question + answer,
            self.client_address,
        )


def bridge() -> None:
    """Makes the bridge that every pod's namespace is connected to."""
    _ip("link", "add", "pods", "type", "bridge")
    _ip("addr", "add", f"{GATEWAY}/24", "dev", "pods")
    _ip("link", "set", "pods", "up")


def namespace(address: str) -> list[str]:
    """Makes a namespace with `address`; returns the words in front of a command that run it there."""
    holder = subprocess.Popen(
        [  # noqa: S607 - the system's own tool
            "unshare",
            "--net",
            "sh",
            "-c",
            "echo made && exec sleep infinity",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    enter = ["nsenter", "--target", str(holder.pid), "--net"]
    link = f"pod{address.rpartition('.')[2]}"
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
    _ip("link", "set", link, "master", "pods", "up")
    for words in (
        "link set lo up",
        f"addr add {address}/24 dev eth0",
        "link set eth0 up",
        # A process finds its address out by the route that it would take.
        f"route add default via {GATEWAY}",
    ):
        subprocess.run([*enter, "ip", *words.split()], check=True)
    return enter


def end_all(enter: list[str]) -> None:
    """Ends every process of the namespace that `enter` leads into, as a kubelet does before it
    starts a container again.
    """
    holder = enter[2]
    own = Path("/proc", holder, "ns/net").readlink()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.name != holder and (process / "ns/net").readlink() == own:
                os.kill(int(process.name), signal.SIGKILL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)  # noqa: S607 - the system's own tool
