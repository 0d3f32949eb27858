"""Images from their registries, where this machine reaches them: containerd's own client pulls them,
and their digests are compared with those of the stack and of the image catalogue.
"""

import tomllib
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Final

from inferplan.errors import RehearsalError, one_line
from inferplan.images.catalogue import facts_of
from inferplan.images.mirror import full_name
from inferplan.rehearsal.node.programs import run_ctr

HOSTS: Final = Path("/etc/containerd/certs.d")
"""The mirrors of registries on this machine, as containerd reads them."""
_API_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
_PROBE_SECONDS: Final = 3.0


def reaches(image: str) -> bool:
    """True if this machine reaches the registry of `image`, or a mirror of it, by HTTP."""
    return _reaches(full_name(image).partition("/")[0], HOSTS)


@cache
def _reaches(registry: str, hosts: Path) -> bool:
    return any(map(_answers, _addresses(registry, hosts)))


def _addresses(registry: str, hosts: Path) -> list[str]:
    """The addresses that containerd asks for images of `registry`, its mirrors first. Raises
    RehearsalError if their file cannot be read.
    """
    file = next(
        (
            each
            for name in (registry, "_default")
            if (each := hosts / name / "hosts.toml").is_file()
        ),
        None,
    )
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError) as error:
        raise RehearsalError(
            f"{file} cannot be read: {one_line(error)}",
            f"containerd reads the mirrors of {registry} there. Repair the file, or remove it",
        ) from error
    own = f"https://{_API_HOSTS.get(registry, registry)}"
    return [*entries.get("host", ()), entries.get("server", own)]


def _answers(address: str) -> bool:
    if not address.startswith(("https://", "http://")):
        address = f"https://{address}"
    try:
        # Through the proxy of the environment, as containerd's client.
        urllib.request.urlopen(f"{address}/v2/", timeout=_PROBE_SECONDS).close()  # noqa: S310 - two schemes
    except urllib.error.HTTPError:
        return True  # most registries want a token first
    except OSError:
        return False
    return True


def pull(socket: Path, image: str) -> str:
    """Pull `image` into the containerd at `socket` and return its digest. Raises RehearsalError with
    containerd's words, or with both digests if the catalogue has another one for the same tag.
    """
    name, _, digest = image.partition("@")
    # The kubelet asks for an image with a digest by its name without the tag.
    tagless = name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]
    reference = full_name(f"{tagless}@{digest}" if digest else name)
    hosts = ["--hosts-dir", str(HOSTS)] if HOSTS.is_dir() else []
    run_ctr(socket, "pull", *hosts, reference)
    rows = run_ctr(socket, "ls", f"name=={reference}").splitlines()[1:]
    pulled = next(word for row in rows for word in row.split() if word.startswith("sha256:"))
    facts = facts_of(image)
    if not digest and facts is not None and facts.digest not in (None, pulled):
        run_ctr(socket, "rm", reference)
        raise RehearsalError(
            f"{image}: the registry has {pulled}, but the catalogue has {facts.digest}",
            f"the tag has moved. Pin the digest in the stack file: {image}@{facts.digest}",
        )
    return pulled
