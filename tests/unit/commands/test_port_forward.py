"""The port-forward that `call` prints names ports that the gateway's Service has, and the context."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from inferplan.client.target import check_reachable
from inferplan.errors import OperationError
from inferplan.pulumi_engine.values import reveal
from inferplan.workspace.workspace import open_workspace

ENGINES = Path(__file__).parents[3] / "docs" / "engines"


@pytest.mark.parametrize(("engine", "local"), [("vllm", [8080]), ("triton", [8080, 8082])])
def test_the_printed_port_forward_exists_and_has_the_context(engine, local, tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    document = yaml.safe_load((ENGINES / f"Pulumi.{engine}.yaml").read_text())
    config = document["config"]
    config["inferplan:cluster"] = {"provider": "existing", "context": "rack"}
    config["inferplan:gateway"] = {"exposure": "internal"}
    for pool in config["inferplan:nodePools"].values():
        pool.pop("zones", None)
        pool["provider"] = "existing"
    path = tmp_path / "Pulumi.forwarded.yaml"
    path.write_text(yaml.safe_dump(document))
    workspace = open_workspace(str(path))
    with pytest.raises(OperationError) as error:
        check_reachable(workspace, None)
    command = str(error.value)
    assert "kubectl --context rack -n inference port-forward service/gateway " in command
    pairs = [tuple(map(int, each)) for each in re.findall(r" (\d+):(\d+)\b", command)]
    [service] = [
        reveal(each.inputs)
        for each in workspace.record()
        if each.inputs.get("kind") == "Service" and each.inputs["metadata"]["name"] == "gateway"
    ]
    assert [each for each, _ in pairs] == local
    assert {port for _, port in pairs} == {each["port"] for each in service["spec"]["ports"]}
