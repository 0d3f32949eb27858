"""The AWS account that `inferplan doctor` examines, asked with the user's own credentials. It reads
and never changes anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.components.platforms.aws.prerequisites.account import Ask, AskOnce
from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.pulumi_engine.recording import Recording
from inferplan.stackfile.stack import StackSettings


@dataclass(frozen=True)
class ExaminedAccount:
    settings: StackSettings
    cluster: EksCluster
    recording: Recording
    ask: Ask
    stack: str

    def __post_init__(self) -> None:
        if not isinstance(self.ask, AskOnce):
            object.__setattr__(self, "ask", AskOnce(self.ask))

    @property
    def region(self) -> str:
        return self.cluster.region

    @cached_property
    def world(self) -> World:
        return World(self.cluster, self.settings, self.recording.stack, self.ask)

    @cached_property
    def caller(self) -> Mapping[str, Any]:
        return self.ask("sts", "get_caller_identity")
