"""Rows for `inferplan top`: replicas, queues, speed, accelerators and cost of each model right now.

Replicas come from the cluster, by the same reads as `inferplan status`. Figures of the engines come
from Prometheus, or from the metrics pages of the pods through the API server, which needs the right
to get pods/proxy.
"""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferplan.client.local_gateway.stubs import METRICS
from inferplan.commands.top.pod_metrics import PodMetrics
from inferplan.components.monitoring.vocabulary import PREFIX, vocabulary
from inferplan.errors import OperationError, RequestError
from inferplan.rehearsal.cluster import start, status
from inferplan.rehearsal.serving.programs import answer_of, answering_ports
from inferplan.stackfile.stack import StackSettings
from inferplan.status.status import read_state
from inferplan.workspace.contract import contract_of
from inferplan.workspace.kubectl import Kubectl
from inferplan.workspace.live import Get
from inferplan.workspace.workspace import Workspace

TERMS = {
    "running_requests": "running_requests:sum",
    "waiting_requests": "waiting_requests:sum",
    "output_tokens_per_second": "output_tokens:rate5m",
    "ttft_seconds_p95": "ttft_seconds:p95",
    "kv_cache": "kv_cache:mean",
}
"""The figures of a model, by the terms of the vocabulary."""
_SECONDS = 15
Figures = Mapping[str, Mapping[str, float]]
"""Values by model and figure."""


@dataclass(frozen=True, kw_only=True)
class TopRow:
    """A model, with a figure for each of TERMS, None where nothing measures it. The cost is the
    list price of the accelerators that ready replicas hold.
    """

    name: str
    engine: str
    pool: str
    ready: int
    wanted: int
    accelerators: int
    usd_per_hour: float | None
    figures: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Top:
    stack: str
    namespace: str
    source: str
    models: tuple[TopRow, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The rows as JSON, in camelCase."""
        from pydantic.alias_generators import to_camel

        models = [
            {
                to_camel(key): value
                for key, value in {**vars(row), **row.figures}.items()
                if key != "figures"
            }
            for row in self.models
        ]
        return {"version": 1, **vars(self), "models": models}


class PrometheusSource:
    """Figures by queries of the vocabulary's own expressions, so that no rule has to be loaded."""

    def __init__(self, settings: StackSettings, url: str, authorization: str | None = None) -> None:
        self.name = "prometheus"
        self._url = url.rstrip("/")
        self._headers = {} if authorization is None else {"Authorization": authorization}
        rules = vocabulary(settings.namespace, {model.engine for model in settings.models.values()})
        self._queries = {rule["record"].removeprefix(PREFIX): rule["expr"] for rule in rules}

    def figures(self) -> Figures:
        by_model: dict[str, dict[str, float]] = {}
        for figure, term in TERMS.items():
            for sample in self._ask(self._queries[term]) if term in self._queries else ():
                by_model.setdefault(sample["metric"].get("model", ""), {})[figure] = float(
                    sample["value"][1]
                )
        return by_model

    def _ask(self, query: str) -> list[dict[str, Any]]:
        address = f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        request = urllib.request.Request(address, headers=self._headers)  # noqa: S310 - the pattern of the option allows http and https
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
                return json.load(answer)["data"]["result"]
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            code = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
            raise OperationError(
                f"Prometheus at {self._url} did not answer a query: {code}{reason}. Forward its port "
                "(kubectl -n monitoring port-forward svc/prometheus-operated 9090) and use --prometheus http://127.0.0.1:9090."
            ) from None


Source = PrometheusSource | PodMetrics


def reader_of(workspace: Workspace, context: str | None) -> Get:
    """The reads of the cluster that `inferplan status` would read. Raises OperationError if there
    is none.
    """
    if context is None and status(workspace.cluster) == "running":
        return start(workspace.cluster).get
    if (name := context or workspace.context) is not None:
        return Kubectl(name).get
    raise OperationError(
        f"{workspace.stack} has no simulated cluster, and its file names no other. "
        f"Bring it up with: inferplan up {workspace.rehearsal_arguments}, or name a cluster with --context."
    )


def pod_source(workspace: Workspace, context: str | None, *, required: bool) -> PodMetrics | None:
    """The metrics pages of the pods, those of the stubs in a rehearsal that answers. Raises
    RequestError, or returns None unless `required`.
    """
    settings, contract = workspace.settings, contract_of(workspace.settings)
    endpoints = {name: contract.endpoint_of(name) for name in settings.models}
    if context is None and (port := answering_ports(workspace.cluster).get(METRICS)) is not None:
        get = start(workspace.cluster).get
        return PodMetrics(
            settings,
            endpoints,
            lambda pod, _: answer_of(f"http://127.0.0.1:{port}/pods/{pod}/metrics") or "",
            get,
        )
    if not required:
        return None
    if (name := context or workspace.context) is None:
        raise RequestError(
            "--pods reads pods of a real cluster or of a rehearsal that answers, and the stack has neither. Add --context NAME."
        )
    cluster, pods = Kubectl(name), f"/api/v1/namespaces/{settings.namespace}/pods"
    return PodMetrics(
        settings, endpoints, lambda pod, place: cluster.text(f"{pods}/{pod}:{place}"), cluster.get
    )


def read_top(workspace: Workspace, get: Get, source: Source | None) -> Top:
    """The current rows. Without `source` they have no figures of the engines."""
    settings = workspace.settings
    figures: Figures = {} if source is None else source.figures()
    rows = []
    for row in read_state(settings, contract_of(settings), get).models:
        model, pool = settings.models[row.name], settings.node_pools[settings.models[row.name].pool]
        accelerators = (
            row.ready * model.accelerators_per_pod * model.pods if pool.capacity.accelerators else 0
        )
        price = settings.cluster.node_usd_per_hour(pool)
        cost = (
            None
            if price is None or not pool.capacity.accelerators
            else round(price * accelerators / pool.capacity.accelerators, 4)
        )
        own = figures.get(row.name, {})
        rows.append(
            TopRow(
                name=row.name,
                engine=row.engine,
                pool=row.pool,
                ready=row.ready,
                wanted=row.wanted,
                accelerators=accelerators,
                usd_per_hour=cost,
                figures={figure: own.get(figure) for figure in TERMS},
            )
        )
    if source is None:
        notes = [
            "queues and speed are not read: name a Prometheus with --prometheus URL, or read the pods with --pods"
        ]
    else:
        silent = [row.name for row in rows if row.ready and row.name not in figures]
        notes = [f"{source.name} has no figures of {', '.join(silent)}"] if silent else []
    name = "none" if source is None else source.name
    return Top(
        stack=workspace.stack,
        namespace=settings.namespace,
        source=name,
        models=tuple(rows),
        notes=tuple(notes),
    )
