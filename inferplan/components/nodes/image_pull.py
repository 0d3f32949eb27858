"""Pulls the images of models onto every node of a pool, before servers start, and onto nodes that
join later.
"""

from collections.abc import Sequence

import pulumi

from inferplan.components.fields import present
from inferplan.components.handles import NodeTarget
from inferplan.components.kubernetes import apps, core
from inferplan.components.naming import bounded, labels, selector
from inferplan.components.pod_parts import USER, container_security, no_devices, tolerations_of
from inferplan.images.catalogue import default_image

COMPONENT = "image-pull"
# kubeadm names it too (v1.34.4, cmd/kubeadm/app/constants), so most nodes have it.
PAUSE_IMAGE = default_image("pause")
# An image of 20 GB took ten minutes to pull and unpack (BentoML, 2025); the slowest registry gets
# three times as long.
_SECONDS_AN_IMAGE = 1800


class ImagePull(pulumi.ComponentResource):
    """A DaemonSet on the nodes of `target` that pulls `images`; exports `ready`, after which all
    current nodes have them.
    """

    ready: pulumi.Resource

    def __init__(
        self,
        name: str,
        images: Sequence[str],
        *,
        target: NodeTarget,
        namespace: pulumi.Input[str],
        pull_secrets: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "inferplan:nodes:ImagePull",
            name,
            {"spec": {"pool": target.pool, "images": list(images)}},
            opts,
        )
        limit = f"{_SECONDS_AN_IMAGE * len(images)}s"
        self.ready = apps.DaemonSet(
            name,
            metadata={
                "name": bounded(target.pool, "images"),
                "namespace": namespace,
                "labels": labels(COMPONENT, target.pool),
            },
            spec=_daemon_set(images, target, pull_secrets),
            opts=pulumi.ResourceOptions(
                parent=self, custom_timeouts=pulumi.CustomTimeouts(create=limit, update=limit)
            ),
        )
        self.register_outputs({"images": list(images)})


def _daemon_set(
    images: Sequence[str], target: NodeTarget, pull_secrets: Sequence[str]
) -> apps.DaemonSetSpecArgsDict:
    own = selector(COMPONENT, target.pool)
    pod: core.PodSpecArgsDict = {
        "automount_service_account_token": False,
        "image_pull_secrets": [
            core.LocalObjectReferenceArgsDict(name=each) for each in pull_secrets
        ]
        or None,
        "enable_service_links": False,
        "termination_grace_period_seconds": 1,
        "node_selector": dict(target.node_selector),
        "tolerations": tolerations_of(target.taints),
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": USER,
            "run_as_group": USER,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        # A shell, which the READY check of every server needs too.
        "init_containers": [
            _container(f"image-{number}", image, ["sh", "-c", ":"])
            for number, image in enumerate(images)
        ],
        "containers": [_container("pause", PAUSE_IMAGE, ["/pause"])],
    }
    return {
        "selector": {"match_labels": own},
        # Nothing is served from here, so all nodes may pull at once.
        "update_strategy": {"type": "RollingUpdate", "rolling_update": {"max_unavailable": "100%"}},
        "template": {"metadata": {"labels": own}, "spec": present(pod)},
    }


def _container(name: str, image: str, command: list[str]) -> core.ContainerArgsDict:
    return {
        "name": name,
        "image": image,
        "image_pull_policy": "IfNotPresent",
        "command": command,
        "working_dir": "/",
        "env": no_devices(),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "security_context": container_security(),
    }
