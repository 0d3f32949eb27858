"""Settings of vLLM that need or exclude each other, by `combinations.toml`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from inferplan.components.serving.vllm import values
from inferplan.components.serving.vllm.engine_args import VLLM_OPTIONS
from inferplan.documents.errors import SpecError
from inferplan.tables import table

Place = tuple[str | int, ...]
_TABLE = "components/serving/vllm/combinations.toml"


class _Settings(dict[str, str]):
    """The values of engine arguments by name, those of JSON options with dots, and their places in
    the stack file.
    """

    def __init__(self, arguments: Sequence[str], fields: Mapping[str, Any], release: str) -> None:
        super().__init__()
        self.places: dict[str, Place] = {}
        for field, value in fields.items():
            self._add(field, value, (to_camel(field),))
        for each in values.parsed(arguments, release):
            name, value = each.name, each.value
            if values.row_of(name, release).get("takes") in ("flag", "switch"):
                value = str(not name.startswith("--no-")).lower()
                name = name.replace("--no-", "--", 1)
            key = name.lstrip("-").replace("-", "_") + (f".{each.key}" if each.key else "")
            loaded = values.loaded(value or "")
            self._add(key, loaded if isinstance(loaded, dict) else value, ("extraArgs", each.index))

    def _add(self, key: str, value: Any, place: Place) -> None:
        self[key] = str(value).lower() if isinstance(value, bool) else str(value)
        self.places[key] = place
        if isinstance(value, dict):
            for name, item in value.items():
                self._add(f"{key}.{name}", item, place)

    def hold(self, condition: Mapping[str, Sequence[str]]) -> list[bool]:
        """Each part of the `condition`: the allowed values of a key, "*" for any."""
        return [
            key in self and ("*" in allowed or self[key] in allowed)
            for key, allowed in condition.items()
        ]

    def place_of(self, *keys: str) -> Place:
        """The place of the first of `keys` in extraArgs, else of the last."""
        places = [self.places[key] for key in keys]
        return next((each for each in places if each[0] == "extraArgs"), places[-1])


def contradictions(
    arguments: Sequence[str], fields: Mapping[str, Any], release: str
) -> Iterator[SpecError]:
    """Yield the combinations that vLLM `release` rejects in its `arguments` and in the engine
    arguments that `fields` set by name.
    """
    settings, rows = _Settings(arguments, fields, release), table(_TABLE)
    for row in rows["ordered"]:
        low, high = row["low"], row["high"]
        least, most = (values.amount(settings.get(key)) for key in (low, high))
        if least and most and most < least and all(settings.hold(row.get("when", {}))):
            says = row["says"].replace("LOW", str(least)).replace("HIGH", str(most))
            problem = (
                f"{_spoken(high)} ({most}) is less than {_spoken(low)} ({least}). Raise"
                f" {_spoken(high)} to at least {least}, or lower {_spoken(low)}."
            )
            place = settings.place_of(*row.get("when", {}), low, high)
            yield SpecError(place, f"{problem} vLLM says: {says}")
    for row in rows["rejected"]:
        if all(settings.hold(row["when"])) and not any(settings.hold(row.get("unless", {}))):
            problem = f"{row['problem']} vLLM says: {row['says']}"
            yield SpecError(settings.place_of(*row["when"]), problem)


def _spoken(key: str) -> str:
    """The word of a stack file for an engine argument."""
    if key in VLLM_OPTIONS:
        return to_camel(key)
    option, _, field = key.rpartition(".")
    return field if option else f"--{key.replace('_', '-')}"
