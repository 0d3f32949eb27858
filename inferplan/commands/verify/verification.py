"""The check of preheated model files by their READY manifests, on any computer."""

from inferplan.components.preheat.payload.manifest import walk
from inferplan.components.preheat.payload.progress import size
from inferplan.components.preheat.verify import Verdict, caches, verify

__all__ = ["Verdict", "caches", "size", "verify", "walk"]
