"""The programs to build (`programs.toml`): Go modules, flags, and the digest of the result."""

import hashlib
import json
import platform
import re
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from inferplan.tables import table

MODULES_DIRECTORY = Path(__file__).parent / "modules"


@dataclass(frozen=True)
class Source:
    """One pinned Go module and its programs, as in `programs.toml`. go.mod and go.sum are in the
    directory `name` of `home`.
    """

    name: str
    module: str
    programs: tuple[tuple[str, str], ...]
    version_variables: tuple[str, ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()
    cpu_minutes: float = 1.0
    home: Path = MODULES_DIRECTORY

    @property
    def directory(self) -> Path:
        return self.home / self.name

    @cached_property
    def version(self) -> str:
        """The version that go.mod requires, such as `v1.34.4`."""
        text = (self.directory / "go.mod").read_text(encoding="utf-8")
        match = re.search(rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise ValueError(f"{self.directory / 'go.mod'} does not require {self.module}")
        return match.group(1)

    @cached_property
    def go_version(self) -> tuple[int, ...]:
        """The minimum Go release of go.mod, such as (1, 26, 0)."""
        text = (self.directory / "go.mod").read_text(encoding="utf-8")
        match = re.search(r"^go (\S+)$", text, re.MULTILINE)
        return tuple(int(part) for part in match.group(1).split(".")) if match else (1, 0)

    def build_arguments(self) -> list[str]:
        """Arguments of `go build`, without output and packages."""
        flags = ["-s", "-w"]
        for variable in self.version_variables:
            flags += ["-X", f"{variable}={self._value_of(variable)}"]
        return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", " ".join(flags)]

    def _value_of(self, variable: str) -> str:
        major, minor, *_ = self.version.removeprefix("v").split(".")
        values = {
            "Version": self.version,
            "gitVersion": self.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        return values[variable.rpartition(".")[2]]

    def digest(self) -> str:
        """SHA-256 over the inputs of the build except the Go release: modules, flags, platform."""
        inputs = {
            "go.mod": _file_digest(self.directory / "go.mod"),
            "go.sum": _file_digest(self.directory / "go.sum"),
            "programs": self.programs,
            "data": self.data,
            "arguments": self.build_arguments(),
            "environment": BUILD_ENVIRONMENT,
            "platform": [sys.platform, platform.machine()],
            **({"edits": self.edits} if self.edits else {}),
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


BUILD_ENVIRONMENT = {
    "CGO_ENABLED": "0",  # the same bytes whether or not a C compiler is installed
    "GOFLAGS": "",  # a user's own flags must not change what is built
    "GOTOOLCHAIN": "local",  # never download a second Go behind the user's back
    "GOWORK": "off",
}

_TABLE = table("rehearsal/toolchain/programs.toml")


def _source(name: str) -> Source:
    row = _TABLE[name]
    return Source(
        name,
        row["module"],
        programs=tuple(row["programs"].items()),
        version_variables=tuple(row.get("version_variables", ())),
        data=tuple(row.get("data", {}).items()),
        cpu_minutes=row.get("cpu_minutes", 1.0),
        edits=tuple((path, before, after) for path, before, after in row.get("edits", ())),
    )


OPTIONAL = {name: _source(name) for name in _TABLE if _TABLE[name].get("optional")}
"""Programs that are built when a command needs them."""
KARPENTER, HELM, KEDA, KUBELET, COREDNS, KUBE_ROUTER = (
    OPTIONAL[name] for name in ("karpenter", "helm", "keda", "kubelet", "coredns", "kube-router")
)
CONTROL_PLANES = {
    path.name.removeprefix("kubernetes-"): replace(_source("kubernetes"), name=path.name)
    for path in sorted(MODULES_DIRECTORY.glob("kubernetes-*"))
}
"""The control planes of later versions, such as 1.35, built only for audits of an upgrade to them.
"""
SOURCES = tuple(_source(name) for name in _TABLE if name not in OPTIONAL)
