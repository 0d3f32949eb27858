"""Declares Kubernetes objects of the user's own, so that policies, rehearsal and report see them
like all others.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pulumi

from inferplan.components.objects.spec import is_namespaced
from inferplan.kube.contents import CONTAINERS


class ExtraObjects(pulumi.ComponentResource):
    def __init__(
        self,
        name: str,
        objects: Mapping[str, dict[str, Any]],
        *,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:objects:ExtraObjects", name, {"objects": list(objects)}, opts)
        for key, manifest in objects.items():
            metadata = dict(manifest["metadata"])
            if is_namespaced(manifest):
                metadata.setdefault("namespace", namespace)
            version = str(manifest["apiVersion"])
            token = (
                f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
            )
            # Others may have objects in it, which Pulumi would delete too: inferplan deletes it
            # when it is empty.
            options = pulumi.ResourceOptions(
                parent=self, retain_on_delete=True if manifest["kind"] in CONTAINERS else None
            )
            pulumi.CustomResource(token, key, {**deepcopy(manifest), "metadata": metadata}, options)
        self.register_outputs({})
