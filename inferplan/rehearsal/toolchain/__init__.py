"""The programs of the control plane, built once from pinned Go modules, and the
CustomResourceDefinitions of API groups.
"""

from inferplan.rehearsal.toolchain.build import Toolchain, built, ensure
from inferplan.rehearsal.toolchain.crds import crd_documents, crd_files, crd_groups

__all__ = ["Toolchain", "built", "crd_documents", "crd_files", "crd_groups", "ensure"]
