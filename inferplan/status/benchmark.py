"""Reads the result of a stack's benchmark from the log of its newest Job."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from inferplan.components.benchmark.payload.compare import COLUMNS, PERCENTILES
from inferplan.errors import OperationError, RequestError, UnsettledError
from inferplan.status.jobs import newest, pods_of
from inferplan.workspace.kubectl import real_cluster
from inferplan.workspace.workspace import Workspace

BenchmarkState = Literal["running", "complete", "failed"]
_SELECTOR = "labelSelector=app.kubernetes.io%2Fcomponent%3Dbenchmark"
_CONTAINER, _LINES = "compare", 10_000
_FAILED = "FAILED "


@dataclass(frozen=True)
class Measurement:
    """One row of the table. Latencies are in milliseconds by percentile; None was not measured."""

    model: str
    prompt_tokens: int
    concurrency: int
    requests: int
    errors: int
    tokens_per_second: float | None
    ttft: Mapping[str, float | None]
    itl: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult:
    """The newest benchmark Job. `last_line` is the newest line of its log, `failures` are the
    measurements that failed.
    """

    job: str
    state: BenchmarkState
    measurements: tuple[Measurement, ...]
    failures: tuple[str, ...]
    last_line: str

    def document(self) -> dict[str, Any]:
        """The result as JSON: job, state, failures and one object per measurement, latencies in
        milliseconds.
        """
        names = {
            "prompt_tokens": "promptTokens",
            "tokens_per_second": "tokensPerSecond",
            "ttft": "ttftMs",
            "itl": "itlMs",
        }
        rows = [
            {names.get(name, name): value for name, value in asdict(each).items()}
            for each in self.measurements
        ]
        return {
            "version": 1,
            "job": self.job,
            "state": self.state,
            "measurements": rows,
            "failures": list(self.failures),
        }

    def check(self) -> None:
        if self.state == "running":
            raise UnsettledError(
                f"The benchmark {self.job} is still"
                f" running{f': {self.last_line}' if self.last_line else ''}."
            )
        if self.state == "failed" or self.failures:
            reason = (
                f"{len(self.failures)} measurements failed"
                if self.failures
                else self.last_line or "its log is empty"
            )
            raise OperationError(
                f"The benchmark {self.job} failed: {reason}. To repeat it, delete the Job and"
                " run up."
            )


def read_benchmark(workspace: Workspace, *, context: str | None) -> BenchmarkResult:
    """The newest benchmark on the cluster of `context`, by default the stack's own. Raises
    OperationError if there is none to read.
    """
    settings = workspace.settings
    if settings.benchmark is None:
        raise RequestError(
            f"{workspace.stack} has no benchmark. Add inferplan:benchmark to"
            f" {workspace.file.shown_path} (inferplan docs benchmark)."
        )
    command = f"inferplan benchmark {workspace.typed}"
    cluster = real_cluster(
        workspace, context, otherwise="a benchmark measures nothing there", command=command
    )
    namespace, again = settings.namespace, f"inferplan up {workspace.typed}"
    jobs = cluster.get(f"/apis/batch/v1/namespaces/{namespace}/jobs?{_SELECTOR}")["items"]
    if not jobs:
        raise OperationError(
            f"There is no benchmark Job in namespace {namespace}. Run it with: {again}"
        )
    job = newest(jobs)
    name = job["metadata"]["name"]
    conditions = {
        each["type"]
        for each in job.get("status", {}).get("conditions", ())
        if each.get("status") == "True"
    }
    state: BenchmarkState = (
        "complete"
        if "Complete" in conditions
        else "failed"
        if conditions & {"Failed", "FailureTarget"}
        else "running"
    )
    pods = pods_of(job, cluster.get(f"/api/v1/namespaces/{namespace}/pods?{_SELECTOR}")["items"])
    if not pods:
        if state == "running":
            raise OperationError(
                f"The benchmark {name} has no pod yet. inferplan status says what it waits for."
            )
        raise OperationError(
            f"The pod of the benchmark {name} is gone, and its result with it. Delete the Job and"
            f" run: {again}"
        )
    try:
        log = cluster.log(namespace, pods[0]["metadata"]["name"], _CONTAINER, _LINES)
    except OperationError:
        if state != "running":
            raise
        log = ""
    lines = log.splitlines()
    return BenchmarkResult(
        job=name,
        state=state,
        measurements=tuple(_measurements(lines)),
        failures=tuple(line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED)),
        last_line=lines[-1] if lines else "",
    )


def _measurements(lines: list[str]) -> Iterator[Measurement]:
    header = next(
        (
            index
            for index, line in enumerate(lines)
            if tuple(line.split()[: len(COLUMNS)]) == COLUMNS
        ),
        None,
    )
    if header is None:
        return
    # A line of dashes follows the header, an empty line the last row.
    for line in lines[header + 2 :]:
        cells = line.split()
        if len(cells) != len(COLUMNS) + 2 * len(PERCENTILES):
            return
        throughput, *latencies = (None if cell == "-" else float(cell) for cell in cells[5:])
        ttft, itl = (
            dict(zip(PERCENTILES, each, strict=True))
            for each in (latencies[: len(PERCENTILES)], latencies[len(PERCENTILES) :])
        )
        prompt, concurrency, requests, errors = map(int, cells[1:5])
        yield Measurement(cells[0], prompt, concurrency, requests, errors, throughput, ttft, itl)
