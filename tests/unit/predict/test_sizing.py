"""The cheapest way to meet an objective, and what the others give up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.commands import main
from inferplan.predict.forecast import forecast
from inferplan.predict.sizing import candidates, gives_up
from inferplan.workspace import project
from tests.unit.predict.facts import BATCHING, POOL, library, model

library()

H100 = {
    **POOL,
    "accelerator": "nvidia-h100",
    "accelerators": 8,
    "machines": ["p5.48xlarge"],
    "maxNodes": 1,
}
L40S = {**POOL, "accelerators": 8, "machines": ["g6e.48xlarge"]}
GAUDI = {**POOL, "accelerator": "gaudi-2"}


def found(facts, **pools) -> Any:
    return candidates("chat", {name: (facts, pool) for name, pool in pools.items()})


def test_the_cheapest_candidate_meets_the_objective_and_fewer_replicas_do_not():
    facts = model(traffic={"requestsPerSecond": 12})
    (best, *others), reasons = found(facts, l40s=L40S, h100=H100, gaudi=GAUDI)
    limits = best.forecast.objective
    assert best.forecast.speed.ttft <= limits.ttft
    assert best.forecast.speed.itl <= limits.itl
    assert best.monthly == min(each.monthly for each in (best, *others))
    fewer = forecast(
        "chat",
        facts | {"replicas": best.replicas - 1, "accelerators": best.parallel},
        L40S if best.pool == "l40s" else H100,
        Path(),
    )
    assert (
        best.replicas == 1
        or fewer.speed is None
        or fewer.speed.itl > limits.itl
        or fewer.speed.ttft > limits.ttft
    )
    assert all(
        any("more a month" in text for text in gives_up(each, best))
        for each in others
        if each.monthly > best.monthly
    )
    assert any(
        each.startswith("gaudi: aiconfigurator 0.12.0 has no measured kernels for gaudi-2")
        for each in reasons
    )


def test_an_objective_that_nothing_meets_has_no_candidate_and_says_what_is_possible():
    best, reasons = found(model(slo={"itl": "1ms"}), l40s=L40S)
    assert best == []
    assert any("no number of replicas meets the objective: TTFT" in each for each in reasons)


def test_weights_need_the_parallel_size_that_they_fit():
    facts = model(
        traffic={"model": "meta-llama/Llama-3.1-70B-Instruct"}, slo={"itl": "200ms", "ttft": "5s"}
    )
    best, reasons = found(facts | {"batching": BATCHING}, l40s=L40S)
    assert {each.parallel for each in best} <= {4, 8}
    assert best
    assert any("leaves no KV cache" in each for each in reasons)


def test_the_printed_lines_make_a_valid_stack_also_where_the_pool_was_too_small(
    tmp_path, monkeypatch, capsys
):
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main.run(arguments)
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return out

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)
    monkeypatch.setattr(project, "SELECTION", project.Selection())
    run("init", "shop", "--where", "local", "--consumer", "web")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", str(tmp_path / "shop" / ".passphrase"))
    file = tmp_path / "shop" / "stacks" / "Pulumi.local.yaml"
    stack = yaml.safe_load(file.read_text())
    stack["config"]["inferplan:models"]["qwen-3-8b"] |= {
        "traffic": {"requestsPerSecond": 6, "inputTokens": 2000, "outputTokens": 300}, "slo": {"ttft": "800ms", "itl": "40ms"}
    }  # fmt: skip
    file.write_text(yaml.safe_dump(stack))
    out = run("size", "qwen-3-8b", "--stack", "local", "--project", "shop")
    assert "needs 5 nodes, pool l40s has at most 1" in " ".join(out.split())
    pasted = yaml.safe_load(out[out.index("  inferplan:models:") :])
    assert pasted["inferplan:nodePools"] == {"l40s": {"nodes": 5}}
    for section, entries in pasted.items():
        for name, fields in entries.items():
            stack["config"][section][name] |= fields
    file.write_text(yaml.safe_dump(stack))
    assert run("validate", "local", "--project", "shop").startswith("ok")
