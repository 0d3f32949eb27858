"""The Job that copies a model onto a share and verifies it, and the mount that servers get from it.

It runs on CPU nodes only and asks for no accelerator. What happens inside the Job is the payload's business.
"""

from __future__ import annotations

import pulumi

from components.handles import ModelMount, ObjectStore, VolumeClaim
from components.naming import content_key
from components.preheat.spec import PreheatSpec
from components.storage.spec import WeightsSpec


class PreheatJob(pulumi.ComponentResource):
    """Makes the files of `weights` present and verified in `target`; lends `mount`, whose gate is the Job.

    The Job's name carries what it would copy and how, so an unchanged stack does nothing, and a changed source,
    revision, round or payload makes a new Job before the old one goes.
    """

    mount: ModelMount

    def __init__(
        self,
        name: str,
        weights: WeightsSpec,
        preheat: PreheatSpec,
        *,
        source: ObjectStore | VolumeClaim,
        target: VolumeClaim,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("inferplan:preheat:PreheatJob", name, {"weights": weights.intent(), "preheat": preheat.intent()}, opts)
        self.mount = ModelMount(claim=target, sub_path=cache_path(weights, preheat, source))
        raise NotImplementedError("the Job follows with its payload")


def cache_path(weights: WeightsSpec, preheat: PreheatSpec, source: ObjectStore | VolumeClaim) -> str:
    """The directory on the share that holds these files: model, content key and round, so that nothing is overwritten."""
    key = content_key(_origin(source, weights), weights.revision or "", *preheat.include, "\x01", *preheat.exclude)
    return f"{weights.path.rpartition('/')[2]}/{key}-r{preheat.round}"


def _origin(source: ObjectStore | VolumeClaim, weights: WeightsSpec) -> str:
    if isinstance(source, VolumeClaim):
        return f"pvc:{source.name}/{weights.path}"
    return f"s3:{source.endpoint or ''}/{source.bucket}/{source.prefix}/{weights.path}"
