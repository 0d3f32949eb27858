"""Models that the library lacks have forecasts from our table or from a config.json of the project,
without a network.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.unit.predict.facts import library, model, stack
from tests.unit.serving.models import vllm

library()

from inferplan.predict.configurations import stated_config  # noqa: E402 - after the skip
from inferplan.predict.forecast import Forecast, forecasts  # noqa: E402 - after the skip
from inferplan.predict.words import notes  # noqa: E402 - after the skip
from inferplan.tables import table  # noqa: E402 - after the skip

# As published for Qwen/Qwen3-14B.
SIZES = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 40,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 17408,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
OWN = "models/mine/config.json"


def made(root: Path, name: str, accelerator: str = "nvidia-h100") -> Forecast:
    [each] = forecasts(stack(model(traffic={"model": name}), accelerator=accelerator), root)
    return each


def of_file(root: Path, **changes: object) -> Forecast:
    path = root / OWN
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(SIZES | changes))
    return made(root, OWN)


DENSE = [
    pytest.param(name, marks=() if name in {"phi-4", "Qwen2.5-0.5B"} else pytest.mark.full)
    for name, row in table("predict/data/models.toml")["models"].items()
    if "intermediate_size" in row
]


@pytest.mark.parametrize("name", DENSE)
def test_every_dense_model_of_the_table_has_a_forecast(name, monkeypatch):
    asked: list[object] = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda request, **_: asked.append(request))
    each = made(Path(), f"org/{name}")
    assert each.source == "predicted", each.reason
    assert each.fatal or each.speed is not None or (each.utilization or 0) > 1
    assert asked == []


def test_a_config_of_the_project_has_the_forecast_of_the_same_sizes_in_the_table(tmp_path):
    own, listed = of_file(tmp_path), made(tmp_path, "Qwen/Qwen3-14B")
    assert own.speed == listed.speed
    assert own.speed is not None
    assert own.band == listed.band
    assert of_file(tmp_path / "deeper", num_hidden_layers=80).speed != own.speed


def test_an_unknown_architecture_has_the_speed_of_plain_layers_and_twice_the_band(tmp_path):
    plain = of_file(tmp_path / "plain", architectures=["LlamaForCausalLM"])
    own = of_file(tmp_path / "own", architectures=["AcmeForCausalLM"])
    assert own.speed == plain.speed
    assert own.band is not None
    assert plain.band is not None
    assert own.band.ttft == 2 * plain.band.ttft
    assert "no published measurement covers such layers" in " ".join(notes([own]))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_routed_experts": 64}, "are not of one kind"),
        ({"layer_types": ["full_attention", "mamba"]}, "are not of one kind"),
    ],
)
def test_layers_of_several_kinds_have_a_reason(tmp_path, changes, reason):
    each = of_file(tmp_path, architectures=["AcmeForCausalLM"], **changes)
    assert each.source == "unknown"
    assert reason in each.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "is not a config.json"),
        ('{"text_config": []}', "lacks hidden_size"),
        ('{"text_config": [1]}', "is not a config.json"),
        ("{", "is not a config.json"),
        ('{"hidden_size": "4096"}', "hidden_size is '4096', not a positive integer"),
        ('{"num_key_value_heads": "8"}', "num_key_value_heads is '8', not a positive integer"),
        ('{"num_hidden_layers": true}', "num_hidden_layers is True, not a positive integer"),
        ('{"layer_types": 5}', "layer_types is 5, not a list of words"),
        ('{"architectures": [["x"]]}', "not a list of words"),
        ('{"num_attention_heads": 0}', "num_attention_heads is 0, not a positive integer"),
    ],
)
def test_a_damaged_configuration_has_a_reason(content, reason, tmp_path):
    (tmp_path / "config.json").write_text(content)
    assert reason in made(tmp_path, "config.json").reason


def test_a_file_that_is_no_configuration_is_named(tmp_path):
    assert "is not a config.json" in made(tmp_path, OWN).reason
    (tmp_path / "config.json").write_text("{}")
    each = made(tmp_path, "config.json")
    assert "lacks hidden_size, num_attention_heads, num_hidden_layers, vocab_size" in each.reason


@pytest.mark.parametrize("path", ["../config.json", "/etc/config.json"])
def test_a_config_outside_of_the_project_is_an_error(path):
    traffic = {"requestsPerSecond": 6, "inputTokens": 9, "outputTokens": 9, "model": path}
    with pytest.raises(ValidationError, match="traffic"):
        vllm(traffic=traffic)


def test_a_folder_named_like_a_quantization_changes_nothing(tmp_path):
    folder = tmp_path / "my-fp8-stack"
    folder.mkdir()
    assert of_file(folder).source != "unknown"


@pytest.mark.parametrize(
    "name", ["microsoft/Phi-4-multimodal-instruct", "microsoft/Phi-4-mini-flash-reasoning"]
)
def test_a_model_that_only_begins_like_another_has_no_row(name):
    assert stated_config(name) is None
    assert stated_config(name.replace("multimodal-", "").replace("flash-", "")) is not None
