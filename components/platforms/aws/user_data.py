"""The user data of nodes in managed node groups: nodeadm for AL2023, TOML for Bottlerocket.

Pure text. Nothing is said that EKS says anyway, so an ordinary pool has no user data at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BOUNDARY = "inferplan"
_HUGEPAGE = 2 * 2**20


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What a node of a custom image needs to join; EKS adds it for its own images."""

    cluster: str
    endpoint: str
    certificate_authority: str
    service_cidr: str
    labels: Mapping[str, str]
    taints: Sequence[str]


def al2023(*, local_cache: bool, hugepages_bytes: int, directories: Sequence[str] = (), membership: Membership | None = None) -> str | None:
    """Return multi-part user data for AL2023 and for custom images with nodeadm; None if no settings are needed.

    `directories` are there, on whatever disk is mounted under them, before the kubelet starts.
    """
    parts = []
    if hugepages_bytes:
        # cloud-init runs scripts before nodeadm starts the kubelet, which counts huge pages once, when it starts.
        parts.append(("text/x-shellscript", _hugepages_script(hugepages_bytes // _HUGEPAGE)))
    if directories:
        parts.append(("text/x-shellscript", _directories_script(directories)))
    spec = _node_config(local_cache=local_cache, membership=membership)
    if spec:
        config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
        parts.append(("application/node.eks.aws", json.dumps(config, indent=2)))  # JSON is YAML, and needs no quoting rules
    if not parts:
        return None
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for kind, text in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {kind}", "", text.rstrip("\n"), ""]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def bottlerocket(*, local_cache: bool, hugepages_bytes: int) -> str | None:
    """Return settings for Bottlerocket; None if none are needed."""
    lines = []
    if hugepages_bytes:
        lines += ["[settings.kernel.sysctl]", f'"vm.nr_hugepages" = "{hugepages_bytes // _HUGEPAGE}"', ""]
    if local_cache:
        # bottlerocket.dev, "Ephemeral storage" (v1.22 and later, read 2026-11): joins the disks and binds these directories to them.
        bind = '["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]'
        lines += [
            "[settings.bootstrap-commands.local-cache]",
            f'commands = [["apiclient", "ephemeral-storage", "init"], {bind}]',
            "essential = true",
            'mode = "always"',
            "",
        ]
    return "\n".join(lines) or None


def _hugepages_script(pages: int) -> str:
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            "set -euo pipefail",
            # EFA's installer may have set more aside.
            f'if test "$(cat /proc/sys/vm/nr_hugepages)" -lt {pages}; then',
            f"  echo vm.nr_hugepages={pages} > /etc/sysctl.d/90-hugepages.conf",
            "  sysctl --load /etc/sysctl.d/90-hugepages.conf",
            "fi",
            # Fragmented memory may have room for fewer pages, and pods that request more would never start.
            f'test "$(cat /proc/sys/vm/nr_hugepages)" -ge {pages}',
        ]
    )


def _directories_script(directories: Sequence[str]) -> str:
    # Disks are joined and mounted by nodeadm, later than this script runs and earlier than it starts the kubelet.
    unit = "/etc/systemd/system/kubelet.service.d/30-model-disks.conf"
    lines = [f"ExecStartPre=/usr/bin/install -d -m 0755 {directory}" for directory in sorted(directories)]
    made = [f"mkdir -p {unit.rpartition('/')[0]}", f"cat > {unit} <<'END'", "[Service]", *lines, "END", "systemctl daemon-reload"]
    return "\n".join(["#!/usr/bin/env bash", "set -euo pipefail", *made])


def _node_config(*, local_cache: bool, membership: Membership | None) -> dict[str, object]:
    spec: dict[str, object] = {}
    if membership is not None:
        spec["cluster"] = {
            "name": membership.cluster,
            "apiServerEndpoint": membership.endpoint,
            "certificateAuthority": membership.certificate_authority,
            "cidr": membership.service_cidr,
        }
        flags = [f"--node-labels={','.join(f'{key}={value}' for key, value in sorted(membership.labels.items()))}"]
        if membership.taints:
            flags.append(f"--register-with-taints={','.join(membership.taints)}")
        spec["kubelet"] = {"flags": flags}
    if local_cache:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return spec
