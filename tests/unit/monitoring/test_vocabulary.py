"""The vocabulary rests on pinned metrics only, and every rule and alert reads metrics that are
pinned or recorded.
"""

from __future__ import annotations

import dataclasses
import re

import pytest
import yaml

from inferplan.components.handles import Endpoint
from inferplan.components.monitoring.pod_monitors import pod_monitors
from inferplan.components.monitoring.rules import rule_groups
from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.components.monitoring.spec import MonitoringSpec
from inferplan.components.monitoring.vocabulary import PREFIX, engine_metrics, vocabulary
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.stackfile.reader import read_stack
from inferplan.tables import table
from tests.unit.gateway.whole_stack import refusals
from tests.unit.monitoring.test_alerts import CHAT, STACK
from tests.unit.monitoring.test_scraping import whole

VOCABULARY = table("components/monitoring/vocabulary.toml")
# Words of PromQL that a name of a metric may look like.
_LANGUAGE = re.compile(
    "sum|avg|count|max|min|by|on|and|or|unless|group_left|rate|increase|deriv|vector|time|clamp_(max|min)|histogram_quantile|label_replace|"
    "avg_over_time|ignoring|without|bool|offset"
)
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


def names_in(expression: str) -> set[str]:
    """The metrics that a PromQL expression reads."""
    bare = re.sub(
        r"\b(by|on|without|ignoring|group_left)\s*\([^)]*\)",
        " ",
        re.sub(r'"(\\.|[^"])*"', " ", expression),
    )
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare)
    return {
        each
        for each in re.findall(r"[A-Za-z_:][A-Za-z0-9_:]*", bare)
        if not _LANGUAGE.fullmatch(each)
    }


def readable(engines) -> set[str]:
    pinned = [VOCABULARY["metrics"], *(engine_metrics(engine)["metrics"] for engine in engines)]
    return {
        f"{name}{suffix}"
        for each in pinned
        for name, kind in each.items()
        for suffix in _SUFFIXES.get(kind, ("",))
    }


@pytest.mark.parametrize("engine", sorted(MODEL_SPECS))
def test_terms_of_an_engine_read_its_pinned_metrics(engine):
    pinned = engine_metrics(engine)
    assert set(pinned["terms"]) <= set(VOCABULARY["terms"])
    kinds = {"sum": "gauge", "mean": "gauge", "rate": "counter", "quantiles": "histogram"}
    for term, selectors in pinned["terms"].items():
        for selector in selectors:
            assert (
                pinned["metrics"][selector.partition("{")[0]]
                == kinds[VOCABULARY["terms"][term]["form"]]
            ), (term, selector)
    timed = [*pinned["terms"].get("ttft_seconds", ()), *pinned["terms"].get("itl_seconds", ())]
    assert {each.partition("{")[0] for each in timed} <= set(pinned["bounds"])
    raw = table(f"components/serving/{engine.replace('-', '_')}/metrics.toml")
    assert all(
        re.fullmatch(r"20[0-9]{2}-[01][0-9]", raw[key]) if key == "read" else raw[key]
        for key in ("version", "source", "read")
    )


def test_metrics_without_an_engine_have_a_source():
    prefixes = tuple(VOCABULARY["sources"])
    assert [name for name in VOCABULARY["metrics"] if not name.startswith(prefixes)] == []


def test_a_stack_has_no_rule_of_an_engine_that_it_lacks():
    assert not any(
        "nv_" in each["expr"] or "ray_" in each["expr"]
        for each in vocabulary("inference", {"vllm"})
    )
    assert {each["record"] for each in vocabulary("inference", {"pytriton"})} >= {
        f"{PREFIX}requests:rate5m",
        f"{PREFIX}waiting_requests:sum",
    }


def test_rules_and_alerts_read_what_is_pinned_or_recorded():
    rules = [rule for group in rule_groups(STACK)["groups"] for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    for rule in rules:
        assert names_in(rule["expr"]) <= readable({"vllm"}) | recorded, rule


@pytest.fixture(scope="module")
def ruled():
    return whole(
        scrape={}, rules={"runbooks": "https://runbooks.acme.example/"}, labels={"release": "stack"}
    )


def test_rules_are_an_object_that_the_operator_selects_and_policies_accept(ruled):
    made = ruled.one("kubernetes:monitoring.coreos.com/v1:PrometheusRule").inputs
    assert made["metadata"]["labels"]["release"] == "stack"
    alerts = {
        rule["alert"]: rule
        for group in made["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert (
        alerts["InferplanErrors"]["annotations"]["runbook_url"]
        == "https://runbooks.acme.example/errors.md"
    )
    assert refusals(ruled) == refusals(whole())


def test_an_objective_needs_traffic_or_alerts(tmp_path):
    from inferplan.stackfile.settings import validate
    from inferplan.workspace.project import stack_files
    from tests.unit.gateway.whole_stack import ROOT

    tree = yaml.safe_load((stack_files(ROOT)["local"]).read_text())
    model = tree["config"]["inferplan:models"]["llama-3-8b"]

    def messages(slo, monitoring=None):
        model["slo"] = slo
        tree["config"].pop("inferplan:monitoring", None)
        if monitoring is not None:
            tree["config"]["inferplan:monitoring"] = monitoring
        file = tmp_path / "Pulumi.test.yaml"
        file.write_text(yaml.safe_dump(tree))
        try:
            validate(read_stack(file))
        except Exception as error:  # noqa: BLE001 - the message is what is tested
            return str(error)
        return ""

    prometheus = {"prometheus": {"namespace": "watch"}}
    assert "slo is an objective for traffic or for alerts, and the model has neither" in messages(
        {"ttft": "1s"}
    )
    assert "Only alerts watch availability" in messages({"availability": 99.5}, prometheus)
    assert messages({"ttft": "1s", "availability": 99.5}, {**prometheus, "rules": {}}) == ""


def test_a_pool_of_a_cloud_has_a_price_and_a_rack_none():
    from inferplan.stackfile.settings import validate
    from inferplan.stackfile.watched import watched
    from inferplan.workspace.project import stack_files
    from tests.unit.gateway.whole_stack import ROOT

    prod = stack_files(ROOT)["prod"]
    [(usd, models), *_] = watched(validate(read_stack(prod))).node_prices
    assert usd > 0.5
    assert models
    assert watched(validate(read_stack(stack_files(ROOT)["local"]))).node_prices == []


def exposed_by_stubs(engine):
    own = table(f"components/serving/{engine.replace('-', '_')}/metrics.toml")
    if "stub" not in own:
        return exposed_by_stubs(own["extends"])
    return {each["name"] for each in own["stub"]["metrics"]}


@pytest.mark.parametrize("engine", sorted(MODEL_SPECS))
def test_stubs_of_a_rehearsal_expose_pinned_metrics_and_answer_the_terms(engine):
    pinned, needs = (
        engine_metrics(engine),
        table(f"components/serving/{engine.replace('-', '_')}/metrics.toml").get("needs", {}),
    )
    exposed = exposed_by_stubs(engine)
    assert exposed <= pinned["metrics"].keys()
    # What an engine has only with a setting, or in another of its servers, no stub exposes.
    others = (
        {name for name in pinned["metrics"] if name.startswith(("nv_", "vllm:"))}
        if engine in {"tensorrt-llm", "pytriton"}
        else set()
    )
    for term, selectors in pinned["terms"].items():
        names = {each.partition("{")[0] for each in selectors} - needs.keys() - others
        assert names <= exposed, term


@pytest.mark.parametrize("engine", sorted(MODEL_SPECS))
def test_what_prometheus_keeps_of_an_engine_is_what_rules_and_scalers_read(engine):
    """In both directions: nothing is stored that nothing reads, and nothing read is dropped."""
    spec = MonitoringSpec.model_validate({"prometheus": {"namespace": "watch"}, "scrape": {}})
    endpoint = Endpoint(
        model="m",
        engine=engine,
        host="m.inference.svc",
        protocols=(),
        health_path="/health",
        metrics_path="/metrics",
        metrics_port=8000,
        served_names=(),
        consumers=(),
        server_key=None,
    )
    (monitor,) = pod_monitors(spec, [endpoint], preheats=False).values()
    (endpoints,) = monitor["podMetricsEndpoints"]
    (keep,) = endpoints["metricRelabelings"]
    kept = {
        f"{name}{suffix}"
        for name, kind in engine_metrics(engine)["metrics"].items()
        for suffix in _SUFFIXES.get(kind, ("",))
        if re.fullmatch(keep["regex"], f"{name}{suffix}")
    }
    slo = {"availability": 99.5}
    timed = {"ttft_seconds": "ttft", "itl_seconds": "itl"}
    slo |= {key: "1s" for term, key in timed.items() if engine_metrics(engine)["terms"].get(term)}
    model = dataclasses.replace(CHAT, engine=engine, slo=SloSpec.model_validate(slo))
    groups = rule_groups(dataclasses.replace(STACK, models=[model]))["groups"]
    expressions = [rule["expr"] for group in groups for rule in group["rules"]]
    expressions += [each.text for each in MODEL_SPECS[engine].scaling_queries.values()]
    own = {name for name in names_in(" ".join(expressions)) if not name.startswith(PREFIX)}
    assert kept == own - VOCABULARY["metrics"].keys() - {
        f"{name}_bucket" for name in VOCABULARY["metrics"]
    }
