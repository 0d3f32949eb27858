"""Options of `vllm serve` that a field or inferplan itself sets."""

from collections.abc import Iterable, Mapping
from functools import cache

from pydantic.alias_generators import to_camel

from inferplan.components.serving.vllm.engine_args import DECIDED, VLLM_OPTIONS

# Options that inferplan sets: others would contradict the Service, the probes, the mount or the
# key.
_OURS = (
    *(
        "--host",
        "--port",
        "--api-key",
        "--served-model-name",
        "--load-format",
        "--shutdown-timeout",
    ),
    *(
        "--root-path",
        "--ssl-keyfile",
        "--ssl-certfile",
        "--config",
        "--uds",
        "--grpc",
        "--no-enable-lora",
        "--lora-modules",
    ),
    *("--node-rank", "-r", "--master-addr", "--master-port", "--headless"),
)


def repeated(arguments: Iterable[str]) -> list[str]:
    """Return each option in `arguments` that is reserved, with the field to use or the reason."""
    return [
        f"{option} ({'' if option == meant else f'which is {meant}: '}{_reserved()[meant]})"
        for option in (
            each.partition("=")[0].replace("_", "-") for each in arguments if each.startswith("-")
        )
        if (meant := _meant(option, _reserved())) is not None
    ]


@cache
def _reserved() -> dict[str, str]:
    options = {**VLLM_OPTIONS, "nnodes": ("--nnodes", "-n")}
    fields = {
        spelling: f"use the field {to_camel(name)}"
        for name, spellings in options.items()
        for spelling in spellings
    }
    decided = {f"--{name.replace('_', '-')}": reason for name, reason in DECIDED.items()}
    return {**fields, **dict.fromkeys(_OURS, "inferplan sets it"), **decided}


def _meant(option: str, reserved: Mapping[str, str]) -> str | None:
    """Return the reserved option that vLLM takes `option` for: itself, the full name of an
    abbreviation, or a letter joined to its value (-n2).
    """
    if option in reserved:
        return option
    if option.startswith(("--data-parallel-", "-dp")):
        return "--data-parallel-size"
    if (
        option.strip("-")
        and (full := next((each for each in reserved if each.startswith(option)), None)) is not None
    ):
        return full
    return option[:2] if option[:2] in reserved else None
