"""Checks that a machine has the programs and the kernel of a real node."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from inferplan.rehearsal.cluster.node_traces import CONTROL_GROUPS
from inferplan.rehearsal.node.images import missing_programs

_PROGRAMS: Final = ("containerd", "ctr", "runc", "ip", "iptables", "ipset", "unshare", "mount")
_PACKAGES: Final = "containerd runc containernetworking-plugins iproute2 iptables ipset"
_OLDEST_CONTAINERD: Final = (1, 6)
"""The first with the runtime interface v1, which the kubelet needs."""
_FILE_SYSTEMS: Final = Path("/proc/filesystems")
_BRIDGE: Final = Path("/proc/sys/net/bridge")


def missing() -> str:
    """Return what this machine lacks for a real node, in one line with the remedy; "" if nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a real node needs Linux and root. Run the command as root, or leave --node out"
    lacking = [each for each in _PROGRAMS if shutil.which(each) is None]
    lacking += [] if Path("/usr/lib/cni/bridge").exists() else ["the CNI plugin bridge"]
    lacking += missing_programs()
    if lacking:
        return f"a real node needs {', '.join(lacking)}. Install it: apt-get install {_PACKAGES}"
    return _missing_in_kernel() or _old_containerd()


def _missing_in_kernel() -> str:
    if not any(CONTROL_GROUPS.iterdir()):
        return (
            f"a real node needs control groups, and none are mounted below {CONTROL_GROUPS}. Run the"
            " command on a machine, or in a container that has them"
        )
    modules = [] if "overlay" in _FILE_SYSTEMS.read_text(encoding="ascii").split() else ["overlay"]
    # Without it packets between pods of one bridge pass no rule, so no policy holds.
    modules += [] if _BRIDGE.is_dir() else ["br_netfilter"]
    if modules:
        return (
            f"a real node needs kernel modules that are not loaded: {', '.join(modules)}. Load them:"
            f" modprobe -a {' '.join(modules)}"
        )
    return ""


def _old_containerd() -> str:
    shown = subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=False)  # noqa: S607 - found above
    version = re.search(r" v?([0-9]+)\.([0-9]+)\.", shown.stdout)
    if version is None or tuple(map(int, version.groups())) < _OLDEST_CONTAINERD:
        return (
            f"a real node needs containerd 1.6 or newer, and this machine has"
            f" {shown.stdout.strip()[:80] or 'one that does not run'}. Install it: apt-get install containerd"
        )
    return ""
