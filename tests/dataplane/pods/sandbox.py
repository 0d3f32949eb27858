"""Runs pods on this machine as a kubelet would: `python -m tests.dataplane.pods.sandbox REQUEST`,
inside namespaces of its own (`unshare`).

A container gets the emitted command, arguments, environment, working directory and user, a root
file system that is read-only where the manifest says so, no capability, no new privileges, and the
manifest's volumes with their size limits. All pods share one loopback, where every Service name
leads to, except for pods with an `address` and the Services that lead to them. Not imposed: seccomp
profiles, and the limits of CPU and memory (the latter is shown). What happened is printed as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.dataplane.gateway.pod import loopback_up
from tests.dataplane.pods.network import GATEWAY, Names, bridge, end_all, namespace
from tests.patience import PATIENCE_SECONDS

_SYSTEM = ("/usr", "/dev", "/proc", "/sys")
_LINKS = ("bin", "sbin", "lib", "lib64")
_ETC = ("passwd", "group", "ld.so.cache", "nsswitch.conf", "mime.types")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
# What a container without a volume at /dev/shm gets from containerd.
_SHM = "64Mi"
# How often a container of a pod that says `restartPolicy: Always` is started again.
_RESTARTS = 4


class Pod:
    """One pod of a request: its root, and the processes of its containers."""

    def __init__(
        self, root: Path, name: str, given: dict[str, Any], secrets: dict[str, dict[str, str]]
    ) -> None:
        self.root, self.name, self.spec, self.image = root, name, given["spec"], given["image"]
        self.annotations, self.volumes, self.secrets = (
            given.get("annotations", {}),
            given["volumes"],
            secrets,
        )
        self.labels, self.address = given.get("labels", {}), given.get("address")
        self.enter = [] if self.address is None else namespace(self.address)
        self.log = root.parent / f"{name}.log"

    def run(
        self, container: dict[str, Any], command: list[str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts `container` on a root file system of its own, or another `command` in it."""
        root = self.root / container["name"]
        if command is None and not root.exists():
            self._lay_out(root, container)
        environment = self._environment(container)
        argv = command or [_expanded(each, environment) for each in self._argv(container)]
        security = self.spec["securityContext"]
        user, group = str(security["runAsUser"]), str(security["runAsGroup"])
        confined = [
            "setpriv",
            "--reuid",
            user,
            "--regid",
            group,
            "--groups",
            str(security.get("fsGroup", group)),
        ]
        confined += [
            "--no-new-privs",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--ambient-caps=-all",
        ]
        inside = [
            "sh",
            "-c",
            'cd "$0" && exec "$@"',
            container.get("workingDir") or self.image.get("workdir", "/"),
            *argv,
        ]
        # A container runtime gives a container's standard streams to its user, or nobody but root
        # could open /dev/stdout again.
        streams = ["/bin/sh", "-c", 'chown "$0" /proc/self/fd/1 /proc/self/fd/2 && exec "$@"', user]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.enter, *streams, "chroot", str(root), *confined, *inside],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _argv(self, container: dict[str, Any]) -> list[str]:
        if container.get("command"):
            return [*container["command"], *container.get("args", [])]
        return [
            *self.image.get("entrypoint", []),
            *(container.get("args") or self.image.get("cmd", [])),
        ]

    def _environment(self, container: dict[str, Any]) -> dict[str, str]:
        values = {"PATH": "/usr/sbin:/usr/bin", "HOSTNAME": self.name, **self.image.get("env", {})}
        for each in container.get("env", []):
            values[each["name"]] = (
                _expanded(each["value"], values)
                if "value" in each
                else self._referenced(each["valueFrom"])
            )
        return values

    def _referenced(self, source: dict[str, Any]) -> str:
        if "secretKeyRef" in source:
            return self.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
        path = source["fieldRef"]["fieldPath"]
        if path.endswith("]"):
            marks = self.annotations if path.startswith("metadata.annotations") else self.labels
            return marks[path.split("'")[1]]
        return {"metadata.name": self.name, "metadata.namespace": "inference"}[path]

    def _lay_out(self, root: Path, container: dict[str, Any]) -> None:
        root.mkdir(parents=True)
        mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", root)
        for folder in _SYSTEM:
            (root / folder[1:]).mkdir()
            mount("--rbind", folder, root / folder[1:])
        for link in _LINKS:
            if Path("/", link).is_symlink():
                (root / link).symlink_to(Path("/", link).readlink())
        for folder in ("tmp", "var/tmp", "etc/alternatives", "root"):
            (root / folder).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        # Passable, since the interpreter of this machine may lie below it; what an image keeps
        # there is not.
        (root / "root").chmod(0o711)
        mount("--bind", "/etc/alternatives", root / "etc/alternatives")
        for each in _ETC:
            if Path("/etc", each).exists():
                (root / "etc" / each).write_bytes(Path("/etc", each).read_bytes())
        (root / "etc/hosts").write_text(
            f"127.0.0.1 localhost\n{self.address or '127.0.0.1'} {self.name}\n"
        )
        server = GATEWAY if self.address else "127.0.0.1"
        search = "search inference.svc.cluster.local svc.cluster.local cluster.local"
        (root / "etc/resolv.conf").write_text(f"{search}\nnameserver {server}\n")
        self._unpack_image(root)
        self._mount_volumes(root, container)
        _limit(root, container.get("resources", {}).get("limits", {}).get("memory"))
        if container.get("securityContext", {}).get("readOnlyRootFilesystem"):
            mount("-o", "remount,ro", root)

    def _unpack_image(self, root: Path) -> None:
        for target, source in self.image.get("mounts", {}).items():
            _bind(Path(source), root / target.lstrip("/"))
        for path, text in self.image.get("programs", {}).items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            place.chmod(0o755)
        for folder in self.image.get("closed", []):
            (root / folder.lstrip("/")).chmod(0o700)

    def _mount_volumes(self, root: Path, container: dict[str, Any]) -> None:
        mounts = container.get("volumeMounts", [])
        if not any(each["mountPath"] == "/dev/shm" for each in mounts):  # noqa: S108 - the path that a container's processes share memory at
            mount("-t", "tmpfs", "-o", f"size={_bytes(_SHM)},mode=1777", "tmpfs", root / "dev/shm")
        declared = {each["name"]: each for each in self.spec["volumes"]}
        for each in mounts:
            source = self._volume(declared[each["name"]])
            place = root / each["mountPath"].lstrip("/")
            _bind((source / each.get("subPath", "")).resolve(), place)
            if each.get("readOnly"):
                mount("-o", "remount,bind,ro", place)

    def _volume(self, volume: dict[str, Any]) -> Path:
        """The directory of the volume, made when the first container of the pod mounts it."""
        place = self.root / "volumes" / volume["name"]
        if place.exists():
            return place
        place.mkdir(parents=True)
        group = self.spec["securityContext"].get("fsGroup", 0)
        if "emptyDir" in volume:
            size = volume["emptyDir"].get("sizeLimit")
            limit = f"size={_bytes(size)}," if size else ""
            mount("-t", "tmpfs", "-o", f"{limit}mode=2777,gid={group}", "tmpfs", place)
        elif "persistentVolumeClaim" in volume:
            mount("--bind", self.volumes[volume["name"]]["directory"], place)
        else:
            _project(self.volumes[volume["name"]]["files"], place)
        return place


def _limit(root: Path, memory: str | None) -> None:
    """Shows a process the memory limit of its control group, which programs size their buffers by;
    it is not imposed.
    """
    if memory is None:
        return
    group = root / "sys/fs/cgroup"
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", group)
    for name, amount in {
        "memory.max": str(_bytes(memory)),
        "memory.current": "0",
        "memory.stat": "anon 0\ninactive_file 0",
    }.items():
        (group / name).write_text(f"{amount}\n")


def _project(files: dict[str, str], place: Path) -> None:
    """Lays files out as a kubelet does: in a dated directory, behind links that it can turn over at
    once.
    """
    dated = place / "..2026_11_21_00_00_00.1"
    for path, text in files.items():
        (dated / path).parent.mkdir(parents=True, exist_ok=True)
        (dated / path).write_text(text)
    (place / "..data").symlink_to(dated.name)
    for top in sorted({path.split("/")[0] for path in files}):
        (place / top).symlink_to(Path("..data", top))


def _bind(source: Path, place: Path) -> None:
    if source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mount("--bind", source, place)


def mount(*arguments: object) -> None:
    """Calls mount(8)."""
    subprocess.run(["mount", *map(str, arguments)], check=True)  # noqa: S607 - the system's own tool


def _bytes(quantity: str) -> int:
    number = quantity.rstrip("KMGTi")
    return int(number) * _UNITS.get(quantity.removeprefix(number), 1)


def _expanded(text: str, values: dict[str, str]) -> str:
    """`$(NAME)` as Kubernetes expands it: what no variable is called stays as it is."""
    return _REFERENCE.sub(lambda found: values.get(found[1], found[0]), text)


def ask(
    port: int,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: str | None = None,
    host: str = "127.0.0.1",
) -> tuple[int, str]:
    """One call: status and body; 0 while nothing listens."""
    with closing(http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)) as connection:
        try:
            connection.request(method, path, None if body is None else body.encode(), headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except OSError:
            return 0, ""


def _answers(
    pod: Pod, container: dict[str, Any], probe: dict[str, Any], ports: dict[str, int]
) -> bool:
    if "exec" in probe:
        return pod.run(container, probe["exec"]["command"]).wait(PATIENCE_SECONDS) == 0
    path, port = probe["httpGet"]["path"], probe["httpGet"]["port"]
    return ask(ports.get(port, port), "GET", path, host=pod.address or "127.0.0.1")[0] == 200


def _started(pod: Pod, seconds: float) -> dict[str, Any]:
    """Runs the init containers, then the first container, until its startup probe is answered."""
    for container in pod.spec.get("initContainers", []):
        status = pod.run(container).wait(seconds)
        if status:
            return {"ended": container["name"], "status": status}
    [container, *_] = pod.spec["containers"]
    process = pod.run(container)
    probe = container.get("startupProbe") or container.get("readinessProbe")
    ports = {each["name"]: each["containerPort"] for each in container.get("ports", [])}
    deadline = time.monotonic() + seconds
    restarts = _RESTARTS if pod.spec.get("restartPolicy") == "Always" else 0
    while True:
        if process.poll() is not None and restarts == 0:
            return {"ended": container["name"], "status": process.returncode}
        if process.poll() is not None:
            restarts -= 1
            end_all(pod.enter)
            process = pod.run(container)
        if _answers(pod, container, probe, ports):
            return {"process": process}
        if time.monotonic() > deadline:
            process.kill()
            return {"ended": container["name"], "status": "never answered its startup probe"}
        time.sleep(0.1)  # a probe asks again; nobody tells


def _awaited(call: dict[str, Any], seconds: float) -> tuple[int, str]:
    """Makes `call`, again and again if it says what its answer must hold (`until`)."""
    wanted = call.get("until", "")
    deadline = time.monotonic() + seconds
    while True:
        status, body = ask(**{key: value for key, value in call.items() if key != "until"})
        if wanted in body or time.monotonic() > deadline:
            return status, body
        time.sleep(0.5)  # a status has to be asked for; nobody tells


def run(directory: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Starts the pods of `request` one after another, makes its calls and stops the pods again."""
    loopback_up()
    if any("address" in each for each in request["pods"].values()):
        bridge()
    Names.addresses = request.get("services", {})
    names = socketserver.ThreadingUDPServer(("0.0.0.0", 53), Names)  # noqa: S104 - inside a network namespace
    threading.Thread(target=names.serve_forever, daemon=True).start()
    pods = {
        name: Pod(directory / name, name, given, request["secrets"])
        for name, given in request["pods"].items()
    }
    made: dict[str, Any] = {"started": {}, "calls": [], "stopped": {}, "inside": []}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    for name, pod in pods.items():
        outcome = _started(pod, request["seconds"])
        if "process" not in outcome:
            made["started"][name] = outcome
            break
        processes[name], made["started"][name] = outcome["process"], "ready"
        made["calls"] += [
            _awaited(call, request["seconds"]) for call in request["pods"][name].get("then", [])
        ]
    else:
        for command in request.get("inside", []):
            pod = pods[command["pod"]]
            made["inside"].append(
                pod.run(pod.spec["containers"][0], command["command"]).wait(request["seconds"])
            )
        made["calls"] += [_awaited(call, request["seconds"]) for call in request.get("calls", [])]
    for name, process in reversed(processes.items()):
        process.send_signal(signal.SIGTERM)
        try:
            made["stopped"][name] = process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            made["stopped"][name] = "did not end"
    made["logs"] = {
        name: pod.log.read_text(errors="replace")[-6000:]
        for name, pod in pods.items()
        if pod.log.exists()
    }
    return made


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.umask(0o022)
    socket.setdefaulttimeout(PATIENCE_SECONDS)
    given = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(run(Path(sys.argv[1]).parent, given)))
