"""The rules of a stack for Prometheus: the vocabulary, what the stack file says as series,
objectives, and alerts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from inferplan.components.monitoring.objectives import WatchedModel, objectives
from inferplan.components.monitoring.vocabulary import Rule, rule, vocabulary
from inferplan.tables import table

RULES = "inferplan-rules"
_RUNBOOKS = "docs/runbooks"


@dataclass(frozen=True, kw_only=True)
class WatchedStack:
    """A stack as rules see it: key versions with their last day, the budget, and the list price of
    a node with the models of its pool, and the exporters that the stack scrapes.
    """

    namespace: str
    models: Sequence[WatchedModel]
    expiries: Mapping[tuple[str, int], date]
    monthly_usd: int | None
    node_prices: Sequence[tuple[float, Sequence[str]]]
    runbooks: str | None = None
    exporters: Collection[str] = ()


def rule_groups(stack: WatchedStack) -> dict[str, Any]:
    """Return the groups of rules, as rule files and PrometheusRules have them."""
    models = stack.models
    groups = {
        "inferplan-vocabulary": vocabulary(
            stack.namespace,
            {each.engine for each in models},
            counted=any(each.counted for each in models),
        ),
        "inferplan-stack": list(_declared(stack)),
        "inferplan-objectives": [
            each for model in models for each in objectives(model, stack.namespace)
        ],
        "inferplan-alerts": list(_alerts(stack)),
    }
    return {"groups": [{"name": name, "rules": rules} for name, rules in groups.items() if rules]}


def _declared(stack: WatchedStack) -> Iterator[Rule]:
    """Yield what the stack file says as series, so that alerts can compare it with what happens."""
    own = {"namespace": stack.namespace}
    for model in stack.models:
        yield rule("min_replicas", f"vector({model.min_replicas})", **own, model=model.name)
        yield rule("max_replicas", f"vector({model.max_replicas})", **own, model=model.name)
    for (consumer, version), last in sorted(stack.expiries.items()):
        end = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
        yield rule(
            "key_expiry_timestamp_seconds",
            f"vector({end.timestamp():.0f})",
            **own,
            consumer=consumer,
            version=str(version),
        )
    if stack.node_prices:
        yield rule(
            "spend:usd_per_hour",
            " + ".join(_spend(usd, models, stack.namespace) for usd, models in stack.node_prices),
            **own,
        )
        if stack.monthly_usd is not None:
            yield rule("budget:usd_per_month", f"vector({stack.monthly_usd})", **own)


def _spend(usd: float, models: Sequence[str], namespace: str) -> str:
    """Return the price of the nodes that run a pod of `models`. Nodes without one have no series
    that names their pool.
    """
    pods = f'kube_pod_info{{namespace="{namespace}",node!="",pod=~"({"|".join(models)})-.+"}}'
    return f"{usd:g} * (count(count by (node) ({pods})) or vector(0))"


def _alerts(stack: WatchedStack) -> Iterator[Rule]:
    where, exported = (
        f'{label}="{stack.namespace}"' for label in ("namespace", "exported_namespace")
    )
    for name, row in table("components/monitoring/alerts.toml").items():
        if row.get("exporter", "") not in ("", *stack.exporters):
            continue
        page = f"{row['runbook']}.md"
        link = (
            {"runbook": f"{_RUNBOOKS}/{page}"}
            if stack.runbooks is None
            else {"runbook_url": f"{stack.runbooks.rstrip('/')}/{page}"}
        )
        yield {
            "alert": f"Inferplan{name}",
            "expr": " ".join(
                row["expr"].replace("WHERE", where).replace("EXPORTED", exported).split()
            ),
            "for": row["for"],
            "labels": {"severity": row["severity"]},
            "annotations": {"summary": row["summary"], **link},
        }
