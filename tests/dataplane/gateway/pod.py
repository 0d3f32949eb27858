"""The gateway's pod as its manifest describes it, without a kubelet: a root of its own that cannot
be written, its user, its mounts.

Run as a program inside namespaces of its own (`unshare`); prints what happened as JSON, for
test_pod.py to judge.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.connection import Connection
from tests.dataplane.gateway.stand import wait_for
from tests.patience import PATIENCE_SECONDS

_SYSTEM = ("/usr", "/dev", "/proc")
_LINKS = ("bin", "sbin", "lib", "lib64")
_RESOLV = "search inference.svc.cluster.test svc.cluster.test cluster.test\nnameserver 127.0.0.1\n"


class Pod:
    """The containers of a pod of `manifest["spec"]`, one after another, with the files of
    `manifest["volumes"]`.
    """

    def __init__(self, root: Path, manifest: dict[str, Any], shell: str) -> None:
        self.root, self.spec, self.annotations = root, manifest["spec"], manifest["annotations"]
        _mount("-t", "tmpfs", "tmpfs", root)
        for folder in _SYSTEM:
            (root / folder[1:]).mkdir()
            _mount("--rbind", folder, root / folder[1:])
        for link in _LINKS:
            if Path("/", link).is_symlink():
                (root / link).symlink_to(Path("/", link).readlink())
        etc = root / "etc"
        etc.mkdir()
        (etc / "resolv.conf").write_text(_RESOLV)
        # Where Debian's awk leads to.
        (etc / "alternatives").mkdir()
        _mount("--bind", "/etc/alternatives", etc / "alternatives")
        for each in ("passwd", "group", "ld.so.cache"):
            (etc / each).write_bytes(Path("/etc", each).read_bytes())
        self.path = "/usr/sbin:/usr/bin"
        if shell == "busybox":
            (root / "busybox").mkdir()
            for tool in ("sh", "awk", "od", "tr", "head", "cat", "sleep"):
                (root / "busybox" / tool).symlink_to("/usr/bin/busybox")
            self.path = f"/busybox:{self.path}"
        for mount in self.spec["containers"][0]["volumeMounts"]:
            self._volume(
                root / mount["mountPath"][1:], manifest["volumes"].get(mount["name"]), mount
            )
        _mount("-o", "remount,ro", root)

    def _volume(self, place: Path, files: dict[str, str] | None, mount: dict[str, Any]) -> None:
        place.mkdir()
        user = self.spec["securityContext"]["runAsUser"]
        _mount("-t", "tmpfs", "-o", f"uid={user},mode=0770", "tmpfs", place)
        for name, text in (files or {}).items():
            (place / name).write_text(text)
            os.chown(place / name, 0, self.spec["securityContext"]["fsGroup"])
            (place / name).chmod(0o440)
        if mount.get("readOnly"):
            _mount("-o", "remount,ro", place)

    def start(
        self, container: dict[str, Any], command: list[str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts `container`, or another `command` in it."""
        paths = {
            each["name"]: each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            for each in container.get("env", ())
        }
        environment = {name: self.annotations[path.split("'")[1]] for name, path in paths.items()}
        user, group = (
            str(self.spec["securityContext"][key]) for key in ("runAsUser", "runAsGroup")
        )
        as_user = [
            "setpriv",
            "--reuid",
            user,
            "--regid",
            group,
            "--groups",
            group,
            "--no-new-privs",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ]
        # A container runtime gives a container's standard streams to its user, or nobody but root
        # could open /dev/stdout again.
        streams = ["/bin/sh", "-c", 'chown "$0" /proc/self/fd/1 /proc/self/fd/2 && exec "$@"', user]
        return subprocess.Popen(
            [*streams, "chroot", str(self.root), *as_user, *(command or container["command"])],
            env={"PATH": self.path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)  # noqa: S607 - the system's own tool


def loopback_up() -> None:
    """Brings this network namespace's loopback up."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(probe, 0x8914, request)  # SIOCSIFFLAGS


def _call(
    method: str, port: int, path: str, key: str = "", body: bytes = b""
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = Connection(port)
    connection.request(
        method, path, body=body, headers={"Authorization": f"Bearer {key}"} if key else {}
    )
    return connection, connection.getresponse()


def _status(method: str, port: int, path: str, key: str = "") -> int:
    try:
        connection, response = _call(method, port, path, key)
    except ConnectionError:
        return 0
    with closing(connection):
        return response.status


def run(root: Path, manifest: dict[str, Any], shell: str) -> dict[str, Any]:
    """Prepares, serves, drains; says what each step gave. Ends after the first container where that
    refuses.
    """
    loopback_up()
    pod = Pod(root, manifest, shell)
    [prepare], [nginx] = pod.spec["initContainers"], pod.spec["containers"]
    checking = pod.start(prepare)
    made: dict[str, Any] = {"words": checking.communicate()[1], "prepared": checking.returncode}
    if checking.returncode:
        return made
    backend = Backend(port=manifest["backend"]).start()
    serving = pod.start(nginx)
    ports = {each["name"]: each["containerPort"] for each in nginx["ports"]}
    probe = nginx["readinessProbe"]["httpGet"]
    wait_for(
        lambda: _status("GET", ports[probe["port"]], probe["path"]) == 200,
        "the probe of the manifest is answered",
    )
    made["with a key"], made["without"] = (
        _status("POST", ports["http"], manifest["path"], key) for key in (manifest["key"], "")
    )
    connection, stream = _call(
        "POST", ports["http"], manifest["path"], manifest["key"], b'{"stream": true, "events": 3}'
    )
    made["stream"] = stream.readline().decode()
    # The hook only waits for whatever stands in front; the kubelet sends SIGTERM after it.
    serving.terminate()
    wait_for(
        lambda: _status("GET", ports[probe["port"]], probe["path"]) == 0,
        "the proxy listens no more",
    )
    made["running on"] = serving.poll() is None
    for _ in range(3):
        backend.permits.put("next")
    made["stream"] += stream.read().decode()
    connection.close()
    made["log"], made["errors"] = serving.communicate(timeout=PATIENCE_SECONDS)
    made["ended"] = serving.returncode
    backend.stop()
    return made


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print(
        json.dumps(run(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3]))
    )
