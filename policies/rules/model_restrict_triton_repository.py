"""Loading models into a running Triton requires a key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.words import Word

API = "model-repository"
DOORS = (("--allow-http", "--http-restricted-api"), ("--allow-grpc", "--grpc-restricted-protocol"))
OFF = ("false", "0")
# Triton reads a bucket over HTTP where its address says so; inside the cluster the network policy says who listens.
IN_CLEAR = re.compile(r"s3://http://(?![\w.-]+\.svc(\.cluster\.local)?[:/])")


def _check(container: Container, _: Parameters) -> Findings:
    for server in _servers(container):
        yield from (
            found(word.field, "downloads models over a connection without TLS") for word, value in _pairs(server) if IN_CLEAR.match(value)
        )
        mode = _told(server, "--model-control-mode")
        if mode is None or mode[1] == "none":
            continue
        if mode[1] == "poll":
            yield found(mode[0].field, "loads every model that appears in the repository")
        for door, restriction in DOORS:
            allowed = _told(server, door)
            open_ = allowed is None or allowed[1].lower() not in OFF
            if (
                mode[1] == "explicit"
                and open_
                and not any(API in value.partition(":")[0].split(",") for value in _all(server, restriction))
            ):
                yield found(mode[0].field, f"allows loading models without a key, past {restriction}")


def _servers(container: Container) -> Iterator[list[Word]]:
    """The words of each tritonserver that a command line starts: one for a rank under mpirun."""
    words = list(container.arguments)
    starts = [place for place, word in enumerate(words) if word.text.rpartition("/")[2] == "tritonserver"]
    for place, start in enumerate(starts):
        yield words[start : starts[place + 1] if place + 1 < len(starts) else len(words)]


def _all(server: list[Word], option: str) -> list[str]:
    return [value for word, value in _pairs(server) if word.text.partition("=")[0] == option]


def _told(server: list[Word], option: str) -> tuple[Word, str] | None:
    """The last value of an option, and where it stands."""
    return next(((word, value) for word, value in reversed(_pairs(server)) if word.text.partition("=")[0] == option), None)


def _pairs(server: list[Word]) -> list[tuple[Word, str]]:
    following = [*(word.text for word in server[1:]), ""]
    return [(word, word.text.partition("=")[2] if "=" in word.text else behind) for word, behind in zip(server, following, strict=True)]


RULE = Rule(
    id="model-restrict-triton-repository",
    title="Loading models into a running Triton requires a key",
    severity=Severity.CRITICAL,
    refs=("inference", "Triton: Secure Deployment Considerations"),
    why="A model of Triton's Python backend is a program. Anyone who can load one can run code with access to the weights and keys",
    remedy=(
        "set --model-control-mode=none, or protect model-repository with --http-restricted-api and --grpc-restricted-protocol, "
        "or disable the protocol with --allow-http=false or --allow-grpc=false"
    ),
    subject=CONTAINERS,
    check=_check,
)
