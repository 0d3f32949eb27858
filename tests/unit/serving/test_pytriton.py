from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferplan.components.serving.pytriton.service import script_files, server
from inferplan.components.serving.pytriton.spec import PyTritonSpec
from tests.unit.serving.models import GAUDI2, L40S, container_of, declared, site


def pytriton(**fields: Any) -> PyTritonSpec:
    given = {
        "engine": "pytriton",
        "weights": {"store": "w", "path": "llama"},
        "pool": "p",
        "image": "docker.io/acme/pytriton:1",
    }
    return PyTritonSpec.model_validate({**given, **fields})


def test_the_workspace_lies_on_the_cache_volume_so_that_the_root_may_be_read_only():
    container = container_of(pytriton(), target=GAUDI2)
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["PYTRITON_HOME"].startswith("/cache/")
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_shipped_script_runs_on_its_settings_and_a_users_own_without():
    assert container_of(pytriton())["args"] == ["/bind/serve.py", "/bind/settings.json"]
    assert container_of(pytriton(scriptFile="serve/bind.py"))["args"] == [
        "/models/chat/serve/bind.py"
    ]


def test_other_settings_are_another_config_map_so_that_pods_of_before_keep_theirs():
    kind = "kubernetes:core/v1:ConfigMap"
    names = {
        declared(pytriton(maxTokens=tokens)).one(kind).inputs["metadata"]["name"]
        for tokens in (1, 2)
    }
    assert len(names) == 2


def test_more_cards_than_the_shipped_script_uses_are_refused():
    [fault] = pytriton(accelerators=2).errors_on(L40S)
    assert "uses one accelerator" in fault.message
    assert list(pytriton(accelerators=2, script="pass").errors_on(L40S)) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"script": "a", "generator": "b"},
            "script and library, generator or generatorFile name two sources",
        ),
        ({"script": "a", "scriptFile": "b"}, "script and scriptFile name two sources"),
        ({"library": "vllm", "generatorFile": "b"}, "library and generatorFile name two sources"),
        (
            {"maxBatchSize": 4, "dynamicBatching": {"preferredBatchSize": [8]}},
            "is above maxBatchSize 4",
        ),
        (
            {"streaming": True, "dynamicBatching": {"preferredBatchSize": [2]}},
            "streamed answers are not batches",
        ),
        ({"ports": {"http": 8001}}, "are not three ports"),
    ],
)
def test_what_pytriton_would_only_find_out_on_a_card_is_refused(fields, said):
    with pytest.raises(ValidationError, match=said):
        pytriton(**fields)


def test_parameters_reach_the_generator_by_its_settings_and_a_script_of_ones_own_by_a_variable():
    shipped = pytriton(parameters={"style": "short"})
    assert json.loads(script_files(shipped, site(), weights="/models/chat")["settings.json"])[
        "parameters"
    ] == {"style": "short"}
    own = server("chat", pytriton(parameters={"style": "short"}, script="print()"), site())
    assert json.loads(own.env["PARAMETERS"]) == {"style": "short"}
    assert "PARAMETERS" not in server("chat", shipped, site()).env


def test_answers_in_pieces_are_given_side_by_side_and_whole_ones_in_batches():
    def settings(**fields: Any) -> dict[str, Any]:
        return json.loads(
            script_files(pytriton(maxBatchSize=8, **fields), site(), weights="/models/chat")[
                "settings.json"
            ]
        )

    assert (
        settings()["max_batch_size"],
        settings(streaming=True)["max_batch_size"],
        settings(streaming=True)["streams"],
    ) == (8, 1, 8)


def test_vllm_generates_where_it_is_asked_to():
    made = script_files(
        pytriton(library="vllm", engineArgs={"seed": 7}),
        site(target=GAUDI2),
        weights="/models/chat",
    )
    assert "AsyncLLM" in made["generator.py"]
    told = json.loads(json.loads(made["settings.json"])["parameters"]["engine_args"])
    assert told == {"block_size": 128, "dtype": "bfloat16", "seed": 7}
