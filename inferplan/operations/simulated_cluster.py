"""The simulated cluster, as commands use it: its programs, its life, and the events of its start and of an update."""

from inferplan.rehearsal import progress
from inferplan.rehearsal.cluster import Cluster, delete, start, status
from inferplan.rehearsal.cluster.karpenter import purchases
from inferplan.rehearsal.engine.wait import object_events
from inferplan.rehearsal.toolchain import ensure

__all__ = ["Cluster", "delete", "ensure", "object_events", "progress", "purchases", "start", "status"]
