"""The programs to build: Go modules, flags, and the digest of the result. Versions are in `modules/*/go.mod`, hashes in `go.sum`."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MODULES_DIRECTORY = Path(__file__).parent / "modules"


@dataclass(frozen=True)
class Source:
    """One pinned Go module and its programs.

    Attributes:
        name: directory under `modules/`.
        module: the path of the Go module.
        programs: file name and Go package of each program.
        version_variables: Go string variables that are set to the module's version at link time.
        data: further files to copy: name and path inside the module.
        edits: changes of the module's code before the build: path inside the module, the text there and its replacement.
        home: the directory of the directory `name`.
    """

    name: str
    module: str
    programs: tuple[tuple[str, str], ...]
    version_variables: tuple[str, ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()
    home: Path = MODULES_DIRECTORY

    @property
    def directory(self) -> Path:
        """The directory of go.mod and go.sum."""
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
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
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

_KUBERNETES_VERSION = "k8s.io/component-base/version."
_STAGES = "kustomize/stage/"

SOURCES = (
    Source("etcd", "go.etcd.io/etcd/server/v3", (("etcd", "go.etcd.io/etcd/server/v3"),)),
    Source(
        "kwok",
        "sigs.k8s.io/kwok",
        (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
        version_variables=(),
        data=(
            ("node-initialize.yaml", _STAGES + "node/fast/node-initialize.yaml"),
            ("node-heartbeat-with-lease.yaml", _STAGES + "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"),
            ("pod-ready.yaml", _STAGES + "pod/fast/pod-ready.yaml"),
            ("pod-complete.yaml", _STAGES + "pod/fast/pod-complete.yaml"),
            ("pod-delete.yaml", _STAGES + "pod/fast/pod-delete.yaml"),
        ),
    ),
    Source(
        "kubernetes",
        "k8s.io/kubernetes",
        tuple((name, f"k8s.io/kubernetes/cmd/{name}") for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
        version_variables=tuple(_KUBERNETES_VERSION + name for name in ("gitVersion", "gitMajor", "gitMinor", "gitTreeState")),
    ),
)
"""In the order of the builds, the smallest first, so that a broken network or disk shows within seconds."""

_CLASSES = "kwok/apis/v1alpha1/doc.go"
_NAMED = 'AddKnownTypeWithName(gv.WithKind("{}"), '

KARPENTER = Source(
    "karpenter",
    "sigs.k8s.io/karpenter",
    (("karpenter", "sigs.k8s.io/karpenter/kwok"),),
    edits=(
        *(
            (
                "pkg/operator/operator.go",
                f'Sprintf(":%d", options.FromContext(ctx).{port})',
                f'Sprintf("127.0.0.1:%d", options.FromContext(ctx).{port})',
            )
            for port in ("MetricsPort", "HealthProbePort")
        ),
        ("kwok/apis/apis.go", '"karpenter.kwok.sh"', '"eks.amazonaws.com"'),
        (_CLASSES, '"v1alpha1"', '"v1"'),
        (_CLASSES, "AddKnownTypes(gv,", _NAMED.format("NodeClass")),
        (_CLASSES, "{},\n\t\t&KWOKNodeClassList", "{})\n\tscheme.Scheme." + _NAMED.format("NodeClassList") + "&KWOKNodeClassList"),
    ),
)
"""Karpenter with its provider of fake nodes, for stacks with node pools that it manages.

The edits let it listen on 127.0.0.1 only, and take the NodeClass of EKS Auto Mode for its own class of fake nodes.
"""
