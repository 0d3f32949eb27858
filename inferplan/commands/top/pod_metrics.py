"""The figures of models straight from the metrics pages of their pods, through the API server."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from inferplan.components.handles import Endpoint
from inferplan.components.monitoring.vocabulary import factor_of, sources_of
from inferplan.kube.names import COMPONENT_LABEL, INSTANCE_LABEL
from inferplan.kube.objects import is_true, label
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.live import Get

_SAMPLE = re.compile(r'([A-Za-z_:][A-Za-z0-9_:]*)(?:\{((?:[^"}]|"(?:\\.|[^"\\])*")*)\})?\s+(\S+)')
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)(=~|!=|=)"((?:\\.|[^"\\])*)"')
_QUANTILE = 0.95
Sample = tuple[str, Mapping[str, str], float]


class PodMetrics:
    """Reads every ready pod. Rates and quantiles are those between two reads, so the first read has
    none.
    """

    name = "pods"

    def __init__(
        self,
        settings: StackSettings,
        endpoints: Mapping[str, Endpoint],
        page: Callable[[str, str], str],
        get: Get,
    ) -> None:
        self._settings, self._endpoints, self._page, self._get = settings, endpoints, page, get
        self._before: dict[str, tuple[float, float, dict[float, float]]] = {}

    def figures(self) -> Mapping[str, Mapping[str, float]]:
        samples: dict[str, list[Sample]] = defaultdict(list)
        space = self._settings.namespace
        for pod in self._get(f"/api/v1/namespaces/{space}/pods").get("items", []):
            model, name = label(pod, INSTANCE_LABEL), pod["metadata"]["name"]
            endpoint = self._endpoints.get(model)
            if (
                endpoint is not None
                and label(pod, COMPONENT_LABEL) == "model"
                and is_true(pod, "Ready")
            ):
                samples[model] += parsed(
                    self._page(name, f"{endpoint.metrics_port}/proxy{endpoint.metrics_path}")
                )
        return {model: dict(self._of(model, each)) for model, each in samples.items()}

    def _of(self, model: str, samples: list[Sample]) -> Iterator[tuple[str, float]]:
        engine = self._settings.models[model].engine

        def values(term: str) -> list[float]:
            return [
                value
                for source in sources_of(term, [engine])
                for _, value in chosen(samples, source)
            ]

        for figure in ("running_requests", "waiting_requests"):
            if numbers := values(figure):
                yield figure, sum(numbers)
        if numbers := values("kv_cache"):
            yield "kv_cache", sum(numbers) / len(numbers)
        now, tokens, buckets = (
            time.monotonic(),
            values("output_tokens"),
            _buckets(samples, sources_of("ttft_seconds", [engine])),
        )
        then, tokens_then, buckets_then = self._before.get(model, (now, 0.0, buckets))
        self._before[model] = (now, sum(tokens), buckets)
        if now > then and tokens:
            yield "output_tokens_per_second", max(0.0, sum(tokens) - tokens_then) / (now - then)
        if (
            quantile := quantile_of(
                {bound: count - buckets_then.get(bound, 0) for bound, count in buckets.items()}
            )
        ) is not None:
            yield "ttft_seconds_p95", quantile


def parsed(page: str) -> Iterator[Sample]:
    """Yield the samples of a page in Prometheus's text format."""
    for line in page.splitlines():
        if (match := _SAMPLE.match(line)) is not None:
            yield (
                match[1],
                {name: value for name, _, value in _LABEL.findall(match[2] or "")},
                float(match[3]),
            )


def chosen(
    samples: Iterable[Sample], selector: str, suffix: str = ""
) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of each sample that `selector` selects, as Prometheus would, with
    `suffix` on the name of its metric.
    """
    name, _, matchers = selector.partition("{")
    wanted = _LABEL.findall(matchers)
    for metric, labels, value in samples:
        if metric == f"{name}{suffix}" and all(
            _matches(labels.get(key, ""), operator, text) for key, operator, text in wanted
        ):
            yield labels, value


def _matches(value: str, operator: str, text: str) -> bool:
    if operator == "=~":
        return re.fullmatch(text, value) is not None
    return (value == text) == (operator == "=")


def _buckets(samples: list[Sample], sources: Iterable[str]) -> dict[float, float]:
    counts: dict[float, float] = defaultdict(float)
    for source in sources:
        for labels, value in chosen(samples, source, "_bucket"):
            counts[float(labels["le"]) / factor_of(source)] += value
    return counts


def quantile_of(buckets: Mapping[float, float]) -> float | None:
    """Return the 95th percentile of cumulative `buckets`, linear within a bucket as Prometheus has
    it; None without requests.
    """
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return None
    rank, lower, below = _QUANTILE * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            return (
                lower
                if bound == float("inf")
                else lower + (bound - lower) * (rank - below) / (buckets[bound] - below)
            )
        lower, below = bound, buckets[bound]
    return None
