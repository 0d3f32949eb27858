"""The latency and the failures of stubs, as an option of a command states them:
`ttft=300ms,itl=30ms,tokensPerSecond=2000,failEvery=0`.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, ValidationError

from inferplan.components.monitoring.slo_spec import Duration
from inferplan.components.spec import Spec
from inferplan.documents.errors import unknown
from inferplan.errors import RequestError


class Profile(Spec):
    """Times of an idle replica, tokens per second of a busy one, and the failures of a model."""

    ttft: Duration = "300ms"
    itl: Duration = "30ms"
    tokens_per_second: Annotated[float, Field(gt=0, lt=1e9)] = 2000
    fail_every: Annotated[int, Field(ge=0)] = 0
    """Each request with a multiple of this number fails; 0 means none."""

    def __str__(self) -> str:
        values = self.model_dump(by_alias=True).items()
        return ",".join(
            f"{key}={value if isinstance(value, str) else f'{value:g}'}" for key, value in values
        )


def profiles_of(options: Iterable[str], models: Iterable[str]) -> dict[str, Profile]:
    """The profile of each of `models`. An option changes all of them, or with `MODEL:` one. Raises
    RequestError with every mistake.
    """
    profiles, errors = dict.fromkeys(models, Profile()), []
    for option in options:
        model, colon, text = option.rpartition(":")
        if colon and model not in profiles:
            errors.append(f"--profile: {unknown('model', model, profiles, owner='this stack')}")
            continue
        settings = {
            key: value for key, _, value in (each.partition("=") for each in text.split(","))
        }
        for name in [model] if colon else list(profiles):
            try:
                profiles[name] = Profile.model_validate(
                    {**profiles[name].model_dump(by_alias=True), **settings}
                )
            except ValidationError as error:
                errors += [
                    _message(each["loc"], each["msg"]) for each in error.errors(include_url=False)
                ]
    if errors:
        raise RequestError("; ".join(dict.fromkeys(errors)))
    return profiles


def _message(place: tuple[int | str, ...], text: str) -> str:
    key = str(place[0])
    if key not in (keys := [each.alias or name for name, each in Profile.model_fields.items()]):
        return f"--profile: {unknown('key', key, keys, owner='a profile')}"
    return f"--profile: {key}: {text.removeprefix('Value error, ')}"
