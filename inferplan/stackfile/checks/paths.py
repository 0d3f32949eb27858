"""Checks that no volume of a model's pods hides a file of the image that the model's settings name."""

import re
from collections.abc import Iterator

from inferplan.documents.errors import SpecError, shown
from inferplan.stackfile.checks.egress import free_values
from inferplan.stackfile.stack import StackSettings

_PATH = re.compile(r"(?<![\w/.$)-])(/(?!/)[\w./-]+|~/[\w./-]*)")
# What programs write, which is not in the image.
_WRITTEN = re.compile(
    r"cache|te?mp(?!l)|home|log|out|dump|sock|scratch|spill|profil|trace|save|export|write|download|work|lock|recipe",
    re.IGNORECASE,
)


def errors(settings: StackSettings) -> Iterator[SpecError]:
    for name, model in settings.models.items():
        pool = settings.node_pools.get(model.pool)
        vendor = None if pool is None else pool.vendor
        volumes = [
            *model.scratch_paths.values(),
            "/dev/shm",  # noqa: S108 - paths in a container
            *([vendor.log_directory] if vendor and vendor.log_directory else []),
        ]
        for path, key, text in free_values(model):
            for file in [] if _WRITTEN.search(key) else _PATH.findall(text):
                volume = next(
                    (each for each in volumes if f"{file}/".startswith(f"{each}/")),
                    "HOME" if file.startswith("~") else None,
                )
                if volume is not None:
                    problem = (
                        f"{shown(file)} is below {volume}, where a volume of the pods hides the"
                        " files of the image"
                    )
                    remedy = (
                        f"Add scratch: /scratch to models.{name}, which moves the volume; or use"
                        " another path"
                    )
                    if volume == "HOME":
                        remedy = "Write the whole path in the image"
                    yield SpecError(("models", name, *path), f"{problem}. {remedy}")
