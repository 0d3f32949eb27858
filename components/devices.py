"""Hides accelerators from containers that do not need them, on nodes whose default runtime adds devices to every container."""

from __future__ import annotations

from pulumi_kubernetes.core import v1 as core

# With `void` both runtimes add no device, regardless of the image's settings: NVIDIA/k8s-device-plugin README v0.20.0, and container_config.go of
# HabanaAI/habana-container-runtime (read 2026-11). Gaudi images set HABANA_VISIBLE_DEVICES=all, which claims every device of the node.
NO_DEVICES = {"HABANA_VISIBLE_DEVICES": "void", "NVIDIA_VISIBLE_DEVICES": "void"}


def no_devices() -> list[core.EnvVarArgs]:
    """Return the variables as a container's environment."""
    return [core.EnvVarArgs(name=name, value=value) for name, value in NO_DEVICES.items()]
