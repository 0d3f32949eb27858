"""Imports only the resources of `pulumi_aws` that a stack uses, not the two hundred others of the
same service.

`import pulumi_aws.ec2` runs 179 modules for the ten classes that a stack declares: 0.4 s of every
plan (7.51.1, 2 cores, 2026-11). Here each name of a service package is imported on first use, from
the file that the generator's naming gives. Any other name loads the whole package, as an ordinary
import does. No class changes, and packages that are already loaded are left alone.
"""

import re
import sys
from importlib import import_module, machinery, util
from importlib.abc import Loader
from pathlib import Path
from types import ModuleType
from typing import Any

from pulumi import RunError

SERVICES = ("cloudwatch", "ec2", "efs", "eks", "fsx", "iam", "kms", "s3")
_PACKAGE = "pulumi_aws"
_SUFFIXES = ("Args", "ArgsDict", "Result")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def install() -> None:
    """Install a lazy package for each of `SERVICES` that is not loaded yet. Raises RunError if
    pulumi_aws is missing.
    """
    package_spec = util.find_spec(_PACKAGE)
    if package_spec is None or package_spec.submodule_search_locations is None:
        raise RunError(
            "A cluster of EKS needs the package pulumi-aws, which is not installed. Install"
            " inferplan's wheel with the extra aws: inferplan docs installing"
        )
    for service in SERVICES:
        name = f"{_PACKAGE}.{service}"
        spec = machinery.PathFinder.find_spec(name, package_spec.submodule_search_locations)
        if name not in sys.modules and spec is not None and spec.loader is not None:
            package = _Lean(name)
            package._loader = package.__loader__ = spec.loader  # noqa: SLF001 - created here, next to its class
            package.__spec__ = spec
            package.__file__ = spec.origin
            package.__package__ = name
            package.__path__ = list(spec.submodule_search_locations or [])
            sys.modules[name] = package


class _Lean(ModuleType):
    """A package whose names are imported, one file at a time, on first use."""

    _loader: Loader

    def __getattr__(self, name: str) -> Any:
        """Return `name` from the generated file that defines it. Raises AttributeError as any
        module does.
        """
        # `outputs` imports itself from its package; the import system handles that.
        if name.startswith("_") or f"{self.__name__}.{name}" in sys.modules:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name == "outputs":
            return import_module(f"{self.__name__}.{name}")
        for file in _files(name):
            if (Path(self.__path__[0]) / f"{file}.py").exists():
                self._take(file)
                if name in self.__dict__:
                    return self.__dict__[name]
        self._loader.exec_module(self)
        if name not in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return self.__dict__[name]

    def _take(self, file: str) -> None:
        """Import as `from .file import *` does, which is all that the packages themselves do."""
        module = import_module(f"{self.__name__}.{file}")
        self.__dict__.update({each: getattr(module, each) for each in module.__all__})


def _files(name: str) -> list[str]:
    """Return files that may define `name`, the most likely first."""
    stems = [name.removesuffix(suffix) for suffix in ("", *_SUFFIXES) if name.endswith(suffix)]
    return [*dict.fromkeys(_WORDS.sub("_", stem).lower() for stem in reversed(stems)), "_inputs"]
