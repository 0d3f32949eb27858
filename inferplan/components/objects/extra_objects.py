"""Declares Kubernetes objects of the user's own, so that policies, rehearsal and report see them like all others."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pulumi

from inferplan.components.objects.spec import is_namespaced


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
            token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
            pulumi.CustomResource(token, key, {**deepcopy(manifest), "metadata": metadata}, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})
