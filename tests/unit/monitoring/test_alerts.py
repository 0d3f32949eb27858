"""Every alert fires when it must and stays silent on a healthy week, by Prometheus's own evaluation
(promtool test rules).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from inferplan.components.monitoring.objectives import (
    WatchedModel,
    approximated,
    objectives,
    unmeasured,
)
from inferplan.components.monitoring.pod_monitors import pod_monitors
from inferplan.components.monitoring.rules import WatchedStack, rule_groups
from inferplan.components.monitoring.slo_spec import SloSpec
from inferplan.components.monitoring.spec import MonitoringSpec, ScrapeSpec
from inferplan.components.monitoring.vocabulary import engine_metrics, factor_of, sources_of
from inferplan.tables import table
from tests.lanes import in_full

ROOT = Path(__file__).resolve().parents[3]
CASES = yaml.safe_load((Path(__file__).parent / "alert_cases.yaml").read_text())
ALERTS = table("components/monitoring/alerts.toml")
SAMPLE = (
    "CertificateExpires",
    "KvCacheFull",
    "ObjectiveBurnsFast",
    "PodsPending",
    "SpendAbovePace",
)
SLO = SloSpec.model_validate({"ttft": "1s", "availability": 99.5})
CHAT = WatchedModel(
    name="chat", engine="vllm", min_replicas=1, max_replicas=4, slo=SLO, counted=True
)
PAIR = WatchedModel(
    name="pair", engine="vllm", min_replicas=2, max_replicas=2, slo=None, counted=True
)
# Prometheus's tests begin at the epoch: this key ends 14 days later, so its alert fires at once.
STACK = WatchedStack(
    namespace="inference",
    models=[CHAT, PAIR],
    expiries={("team", 1): date(1970, 1, 14)},
    monthly_usd=1000,
    node_prices=[(1.0, ["chat"])],
    exporters=("amd",),
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
    done = subprocess.run(
        [promtool, "check", "rules", str(file)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return file


def outcome(
    promtool: str,
    rules: Path,
    name: str,
    series: dict[str, str],
    times: list[dict[str, Any]],
    every: str,
) -> str:
    """What promtool says against `times`, the expected alerts by minute; "" if it agrees. Rules are
    evaluated each `every`.
    """
    document = yaml.safe_load(rules.read_text())
    for group in document["groups"]:
        for each in group["rules"]:
            # Annotations would have to be expected word by word.
            each.pop("annotations", None)
    plain, file = (rules.with_name(f"{name}.{kind}.yml") for kind in ("rules", "test"))
    plain.write_text(yaml.safe_dump(document, sort_keys=False))
    samples = [{"series": key, "values": values} for key, values in series.items()]
    test = {"interval": "1m", "input_series": samples, "alert_rule_test": times}
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(plain)], "evaluation_interval": every, "tests": [test]},
            sort_keys=False,
        )
    )
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], check=False, capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def expected(alert: str, minute: str, *labels: dict[str, str]) -> dict[str, Any]:
    return {
        "eval_time": minute,
        "alertname": f"Inferplan{alert}",
        "exp_alerts": [{"exp_labels": each} for each in labels],
    }


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
    healthy = {
        name: values.replace("10080", str(last + 5)).replace("10076", str(last))
        for name, values in CASES["healthy"].items()
    }
    times = [expected(alert, case["quiet"]), expected(alert, case["at"], case["labels"])]
    assert (
        outcome(
            promtool,
            rules,
            alert,
            {**healthy, **case["series"]},
            times,
            "1m" if last < 300 else "4m",
        )
        == ""
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("minutes", [720, *in_full(10080)])
def test_every_alert_is_silent_while_all_is_healthy(promtool, rules, minutes):
    """For half a day, and in the whole suite for a week."""
    series = {
        name: values.replace("10080", str(minutes)).replace("10076", str(minutes))
        for name, values in CASES["healthy"].items()
    }
    # The key of the stack ends soon, so its alert fires all the time.
    silent = sorted(set(ALERTS) - {"KeyExpires"})
    # Rules look back 5 minutes, so they are evaluated more often than that.
    assert (
        outcome(
            promtool,
            rules,
            "healthy",
            series,
            [expected(alert, f"{minutes}m") for alert in silent],
            "4m",
        )
        == ""
    )


def test_an_objective_that_no_metric_measures_has_no_rule():
    model = WatchedModel(
        name="words",
        engine="pytriton",
        min_replicas=1,
        max_replicas=1,
        slo=SloSpec.model_validate({"itl": "50ms"}),
        counted=False,
    )
    assert list(objectives(model, "inference")) == []


def limited(engine: str, slo: str, time: str) -> WatchedModel:
    written = SloSpec.model_validate({slo: time, "percentile": 95})
    return WatchedModel(
        name="chat", engine=engine, min_replicas=1, max_replicas=1, slo=written, counted=False
    )


@pytest.mark.parametrize(
    ("slo", "time", "bound"),
    [
        ("ttft", "1s", "1(\\\\.0)?"),
        ("ttft", "800ms", "1(\\\\.0)?"),
        ("ttft", "3s", "5(\\\\.0)?"),
        ("itl", "40ms", "0\\\\.05"),
        ("itl", "50ms", "0\\\\.05"),
    ],
)
def test_the_next_bound_of_the_histogram_is_read_so_that_a_kept_objective_never_burns(
    slo, time, bound
):
    assert f'le=~"{bound}"' in list(objectives(limited("vllm", slo, time), "inference"))[1]["expr"]


def test_an_objective_beyond_the_last_bound_has_no_rule_and_is_named_as_unmeasured():
    model = limited("vllm", "itl", "90s")
    assert list(objectives(model, "inference")) == []
    assert unmeasured(model) == ["itl"]


def test_the_bound_that_stands_for_an_objective_is_said():
    assert list(approximated(limited("vllm", "itl", "40ms"))) == [("itl", 0.05)]
    assert list(approximated(limited("vllm", "itl", "50ms"))) == []


HISTOGRAMS = [
    (engine, slo, source.partition("{")[0], bound)
    for engine in ("vllm", "triton", "tensorrt-llm", "ray-serve", "pytriton")
    for slo in ("ttft", "itl")
    for source in sources_of(f"{slo}_seconds", [engine])[:1]
    for bound in engine_metrics(engine)["bounds"][source.partition("{")[0]]
]


@pytest.mark.parametrize("engine", sorted({each[0] for each in HISTOGRAMS}))
def test_both_sides_of_every_bound(promtool, tmp_path, engine):
    """With an objective just above the bound before, requests at the bound are kept; requests in
    the next bucket are missed.
    """
    for slo in ("ttft", "itl"):
        rows = [
            (name, bound) for of, part, name, bound in HISTOGRAMS if (of, part) == (engine, slo)
        ]
        source = (sources_of(f"{slo}_seconds", [engine]) or [""])[0]
        matchers = source.partition("{")[2].rstrip("}").replace("!~", "=").replace("=~", "=")
        for (before, (name, bound)), (_, after) in zip(
            zip([0.0, *(each for _, each in rows)], rows, strict=False), rows[1:], strict=False
        ):
            limit = (before + bound) / 2 / factor_of(source) * 1000
            model = limited(engine, slo, f"{max(1, round(limit))}ms")
            if (
                not before * 1000 / factor_of(source)
                < max(1, round(limit))
                <= bound * 1000 / factor_of(source)
            ):
                continue  # an objective has whole milliseconds
            [share] = [
                each["expr"]
                for each in objectives(model, "inference")
                if each["record"].endswith("ratio_rate5m")
            ]
            labels = f'namespace="inference",model="chat"{"," if matchers else ""}{matchers}'
            for le, expected_share in ((bound, 0), (after, 1)):
                counts = {each: int(each >= le) for _, each in rows}
                series = [
                    {"series": f'{name}_bucket{{{labels},le="{each}"}}', "values": f"0+{count}x20"}
                    for each, count in counts.items()
                ]
                series.append({"series": f"{name}_count{{{labels}}}", "values": "0+1x20"})
                times = [
                    {
                        "expr": share,
                        "eval_time": "15m",
                        "exp_samples": [{"labels": "{}", "value": expected_share}],
                    }
                ]
                test = {
                    "rule_files": [],
                    "evaluation_interval": "1m",
                    "tests": [
                        {"interval": "1m", "input_series": series, "promql_expr_test": times}
                    ],
                }
                file = tmp_path / "bounds.yml"
                file.write_text(yaml.safe_dump(test, sort_keys=False))
                done = subprocess.run(
                    [promtool, "test", "rules", str(file)],
                    check=False,
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == 0, (slo, bound, le, done.stdout + done.stderr)


@pytest.mark.parametrize(("requests", "fires"), [(10, False), (40, True)])
def test_an_objective_burns_only_with_enough_requests(promtool, rules, requests, fires):
    """Half of them slow, in the last hour."""
    name, labels = (
        "vllm:time_to_first_token_seconds",
        'namespace="inference",model="chat",pod="chat-0"',
    )
    every = 60 // requests if requests <= 60 else 1
    values = " ".join(str(minute // every) for minute in range(130))
    slow = " ".join(str(minute // every // 2) for minute in range(130))
    series = {f"{name}_count{{{labels}}}": values, f'{name}_bucket{{{labels},le="1.0"}}': slow}
    alerts = (
        [{"namespace": "inference", "model": "chat", "slo": "ttft", "severity": "page"}]
        if fires
        else []
    )
    assert (
        outcome(
            promtool,
            rules,
            f"few-{requests}",
            series,
            [expected("ObjectiveBurnsFast", "120m", *alerts)],
            "1m",
        )
        == ""
    )


JOB = '{namespace="inference",job_name="chat-preheat-0a1b2c3d4e"}'
FAILED = (
    'kube_job_failed{namespace="inference",condition="true",job_name="chat-preheat-0a1b2c3d4e"}'
)


@pytest.mark.parametrize(
    ("series", "fires"),
    [
        # A Job that a queue suspends never starts, so it reaches no deadline of its own.
        pytest.param({}, True, id="not started"),
        pytest.param({f"kube_job_status_completion_time{JOB}": "2400x100"}, False, id="complete"),
        pytest.param({FAILED: "1x100"}, False, id="failed"),
        pytest.param(
            {f"kube_job_spec_active_deadline_seconds{JOB}": "7200x100"}, False, id="has time"
        ),
    ],
)
def test_a_preheat_is_late_by_the_time_since_its_job_was_created(promtool, rules, series, fires):
    """No preheat has a schedule: its Job is created by an update, and must be complete within its
    deadline, wherever the time goes.
    """
    created = {
        f"kube_job_created{JOB}": "0x100",
        f"kube_job_spec_active_deadline_seconds{JOB}": "3600x100",
    }
    labels = {"namespace": "inference", "job_name": "chat-preheat-0a1b2c3d4e", "severity": "ticket"}
    times = [
        expected("PreheatLate", "47m"),
        expected("PreheatLate", "49m", *([labels] if fires else [])),
    ]
    name = f"late-{len(series)}-{fires}-{'-'.join(series)[:20]}"
    assert outcome(promtool, rules, name, {**created, **series}, times, "1m") == ""


def test_each_metric_that_an_exporter_is_scraped_for_is_read_by_an_alert_or_a_panel():
    """A monitor keeps the names of the vocabulary alone, so nothing else of an exporter is stored."""
    read = (
        yaml.safe_dump(ALERTS)
        + (ROOT / "inferplan/components/monitoring/dashboards.toml").read_text()
    )
    spec = MonitoringSpec.model_validate(
        {
            "prometheus": {"namespace": "watch", "url": "http://prometheus.watch.svc:9090"},
            "scrape": {
                "exporters": {
                    "keda": "keda",
                    "dcgm": "gpu",
                    "gaudi": "habana",
                    "amd": "kube-amd-gpu",
                }
            },
        }
    )
    monitors = pod_monitors(spec, [], preheats=False)
    for exporter in table("components/monitoring/exporters.toml"):
        (endpoint,) = monitors[f"exporter-{exporter}"]["podMetricsEndpoints"]
        (keep,) = endpoint["metricRelabelings"]
        names = keep["regex"].split("|")
        assert keep == {"sourceLabels": ["__name__"], "regex": "|".join(names), "action": "keep"}
        assert len(names) >= 1
        assert [name for name in names if not re.search(rf"\b{name}\b", read)] == []


def test_every_window_has_room_for_the_scrapes_of_the_longest_interval():
    with pytest.raises(ValidationError, match="intervalSeconds"):
        ScrapeSpec.model_validate({"intervalSeconds": 61})
    assert ScrapeSpec.model_validate({"intervalSeconds": 60}).interval_seconds * 5 <= 300
