"""Rows for `inferplan top`: replicas, queues, speed, accelerators and cost of each model right now.

Replicas come from the cluster, by the same reads as `inferplan status`. Figures of the engines come from Prometheus, or from the metrics pages of
the pods through the API server, which needs the right to get pods/proxy.
"""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from inferplan.components.monitoring.vocabulary import PREFIX, vocabulary
from inferplan.operations.contract import contract_of
from inferplan.operations.errors import OperationError, RequestError
from inferplan.operations.kubectl import Kubectl
from inferplan.operations.live import Get
from inferplan.operations.local_gateway.stubs import METRICS
from inferplan.operations.monitoring.pod_metrics import PodMetrics
from inferplan.operations.simulated_cluster import start, status
from inferplan.operations.status.status import read_state
from inferplan.operations.workspace import Workspace
from inferplan.rehearsal.serving.programs import answer_of, answering_ports
from inferplan.stackfile.stack import StackSettings

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


class Source(Protocol):
    """Reads the figures of the engines. Raises OperationError."""

    name: str

    def figures(self) -> Figures: ...


@dataclass(frozen=True, kw_only=True)
class TopRow:
    """A model; None where nothing measures a figure. The cost is the list price of the accelerators that ready replicas hold."""

    name: str
    engine: str
    pool: str
    ready: int
    wanted: int
    accelerators: int
    usd_per_hour: float | None
    running_requests: float | None = None
    waiting_requests: float | None = None
    output_tokens_per_second: float | None = None
    ttft_seconds_p95: float | None = None
    kv_cache: float | None = None


@dataclass(frozen=True, kw_only=True)
class Top:
    stack: str
    namespace: str
    source: str
    rows: tuple[TopRow, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)

    def document(self) -> dict[str, Any]:
        """The rows as JSON, in camelCase."""
        from pydantic.alias_generators import to_camel

        models = [{to_camel(key): value for key, value in asdict(row).items()} for row in self.rows]
        return {
            "version": 1,
            "stack": self.stack,
            "namespace": self.namespace,
            "source": self.source,
            "models": models,
            "notes": [*self.notes],
        }


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
                by_model.setdefault(sample["metric"].get("model", ""), {})[figure] = float(sample["value"][1])
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


def reader_of(workspace: Workspace, context: str | None) -> Get:
    """The reads of the cluster that `inferplan status` would read. Raises OperationError if there is none."""
    if context is None and status(workspace.stack) == "running":
        return start(workspace.stack).get
    if (name := context or workspace.context) is not None:
        return Kubectl(name).get
    raise OperationError(
        f"{workspace.stack} has no simulated cluster, and its file names no other. "
        f"Bring it up with: inferplan up {workspace.rehearsal_arguments}, or name a cluster with --context."
    )


def pod_source(workspace: Workspace, context: str | None, *, required: bool) -> PodMetrics | None:
    """The metrics pages of the pods, those of the stubs in a rehearsal that answers. Raises RequestError, or returns None unless `required`."""
    settings, endpoints = workspace.settings, contract_of(workspace.settings).endpoints
    if context is None and (port := answering_ports(workspace.stack).get(METRICS)) is not None:

        def page(path: str) -> str:
            # /api/v1/namespaces/NAMESPACE/pods/NAME:PORT/proxy/PATH
            pod = path.split("/")[6].partition(":")[0]
            return answer_of(f"http://127.0.0.1:{port}/pods/{pod}/metrics") or ""

        return PodMetrics(settings, endpoints, page, start(workspace.stack).get)
    if not required:
        return None
    if (name := context or workspace.context) is None:
        raise RequestError(
            "--pods reads pods of a real cluster or of a rehearsal that answers, and the stack has neither. Add --context NAME."
        )
    cluster = Kubectl(name)
    return PodMetrics(settings, endpoints, cluster.text, cluster.get)


def read_top(workspace: Workspace, get: Get, source: Source | None) -> Top:
    """The current rows. Without `source` they have no figures of the engines."""
    settings = workspace.settings
    figures: Figures = {} if source is None else source.figures()
    rows = []
    for row in read_state(settings, contract_of(settings), get).models:
        model, pool = settings.models[row.name], settings.node_pools[settings.models[row.name].pool]
        accelerators = row.ready * model.accelerators_per_pod * model.pods if pool.capacity.accelerators else 0
        price = settings.cluster.node_usd_per_hour(pool)
        cost = None if price is None or not pool.capacity.accelerators else round(price * accelerators / pool.capacity.accelerators, 4)
        own = {figure: value for figure, value in figures.get(row.name, {}).items() if figure in TERMS}
        rows.append(
            TopRow(
                name=row.name,
                engine=row.engine,
                pool=row.pool,
                ready=row.ready,
                wanted=row.wanted,
                accelerators=accelerators,
                usd_per_hour=cost,
                **own,
            )
        )
    silent = [row.name for row in rows if source is not None and row.ready and row.name not in figures]
    notes = [f"{source.name} has no figures of {', '.join(silent)}"] if silent and source is not None else []
    return Top(
        stack=workspace.stack,
        namespace=settings.namespace,
        source="none" if source is None else source.name,
        rows=tuple(rows),
        notes=tuple(notes),
    )
