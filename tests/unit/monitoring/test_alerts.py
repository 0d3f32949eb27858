"""Every alert fires when it must and stays silent on a healthy week, by Prometheus's own evaluation (promtool test rules)."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.components.monitoring.objectives import WatchedModel, objectives
from inferplan.components.monitoring.rules import WatchedStack, rule_groups
from inferplan.components.serving.traffic_spec import SloSpec
from inferplan.tables import table
from tests.lanes import in_full

ROOT = Path(__file__).resolve().parents[3]
CASES = yaml.safe_load((Path(__file__).parent / "alert_cases.yaml").read_text())
ALERTS = table("components/monitoring/alerts.toml")
SAMPLE = ("CertificateExpires", "KvCacheFull", "ObjectiveBurnsFast", "PodsPending", "SpendAbovePace")
SLO = SloSpec.model_validate({"ttft": "1s", "availability": 99.5})
CHAT = WatchedModel(name="chat", engine="vllm", min_replicas=1, max_replicas=4, slo=SLO, counted=True)
# Prometheus's tests begin at the epoch: this key ends 14 days later, so its alert fires at once.
STACK = WatchedStack(
    namespace="inference",
    models=[CHAT],
    expiries={("team", 1): date(1970, 1, 14)},
    monthly_usd=1000,
    node_prices=[(1.0, ["chat"])],
)


@pytest.fixture(scope="module")
def promtool():
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not installed; apt-get install prometheus")
    return path


@pytest.fixture(scope="module")
def rules(tmp_path_factory, promtool):
    file = tmp_path_factory.mktemp("rules") / "rules.yml"
    file.write_text(yaml.safe_dump(rule_groups(STACK), sort_keys=False))
    done = subprocess.run([promtool, "check", "rules", str(file)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return file


def outcome(promtool: str, rules: Path, name: str, series: dict[str, str], times: list[dict[str, Any]], every: str) -> str:
    """What promtool says against `times`, the expected alerts by minute; "" if it agrees. Rules are evaluated each `every`."""
    document = yaml.safe_load(rules.read_text())
    for group in document["groups"]:
        for each in group["rules"]:
            # Annotations would have to be expected word by word.
            each.pop("annotations", None)
    plain, file = (rules.with_name(f"{name}.{kind}.yml") for kind in ("rules", "test"))
    plain.write_text(yaml.safe_dump(document, sort_keys=False))
    samples = [{"series": key, "values": values} for key, values in series.items()]
    test = {"interval": "1m", "input_series": samples, "alert_rule_test": times}
    file.write_text(yaml.safe_dump({"rule_files": [str(plain)], "evaluation_interval": every, "tests": [test]}, sort_keys=False))
    done = subprocess.run([promtool, "test", "rules", str(file)], check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def expected(alert: str, minute: str, *labels: dict[str, str]) -> dict[str, Any]:
    return {"eval_time": minute, "alertname": f"Inferplan{alert}", "exp_alerts": [{"exp_labels": each} for each in labels]}


def test_every_alert_has_a_case_and_a_runbook():
    assert set(CASES["cases"]) == set(ALERTS)
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert {row["runbook"] for row in ALERTS.values()} == pages
    for page in pages:
        text = (ROOT / "docs" / "runbooks" / f"{page}.md").read_text()
        named = {name for name, row in ALERTS.items() if row["runbook"] == page}
        assert all(f"`Inferplan{name}`" in text for name in named), page
        assert re.search(r"```console\n\$ ", text), page


@pytest.mark.parametrize("alert", [*SAMPLE, *in_full(*sorted({*ALERTS} - {*SAMPLE}))])
def test_an_alert_fires_when_it_must_and_not_before(promtool, rules, alert):
    case = CASES["cases"][alert]
    last = int(case["at"].removesuffix("m"))
    # A series of a case is as long as the case, so that no test evaluates a week.
    healthy = {name: values.replace("10080", str(last + 5)).replace("10076", str(last)) for name, values in CASES["healthy"].items()}
    times = [expected(alert, case["quiet"]), expected(alert, case["at"], case["labels"])]
    assert outcome(promtool, rules, alert, {**healthy, **case["series"]}, times, "1m" if last < 300 else "4m") == ""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("minutes", [720, *in_full(10080)])
def test_every_alert_is_silent_while_all_is_healthy(promtool, rules, minutes):
    """For half a day, and in the whole suite for a week."""
    series = {name: values.replace("10080", str(minutes)).replace("10076", str(minutes)) for name, values in CASES["healthy"].items()}
    # The key of the stack ends soon, so its alert fires all the time.
    silent = sorted(set(ALERTS) - {"KeyExpires"})
    # Rules look back 5 minutes, so they are evaluated more often than that.
    assert outcome(promtool, rules, "healthy", series, [expected(alert, f"{minutes}m") for alert in silent], "4m") == ""


def test_an_objective_that_no_metric_measures_has_no_rule():
    model = WatchedModel(
        name="words", engine="pytriton", min_replicas=1, max_replicas=1, slo=SloSpec.model_validate({"itl": "50ms"}), counted=False
    )
    assert list(objectives(model, "inference")) == []


@pytest.mark.parametrize(("ttft", "bound"), [("1s", "1(\\\\.0)?"), ("800ms", "0\\\\.75"), ("0.5ms", "0\\\\.001")])
def test_the_bound_below_the_objective_is_read(ttft, bound):
    model = WatchedModel(
        name="chat", engine="vllm", min_replicas=1, max_replicas=1, slo=SloSpec.model_validate({"ttft": ttft}), counted=False
    )
    assert f'le=~"{bound}"' in list(objectives(model, "inference"))[1]["expr"]
