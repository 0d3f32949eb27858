"""The facts of a stack as typed data with a version, stated by the thing that decides each; never a
secret, never unknown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, ClassVar, TypeAlias

STACK_TYPE = "pulumi:pulumi:Stack"
STATED_CONTENT = re.compile(
    r"inferplan:(gateway|preheat|serving|storage|benchmark|queue|monitoring):.*"
)
"""Types of components whose ConfigMaps and Secrets are written from what facts and pod templates
state: keys, limits, routes, settings.
"""
STATED_SIZE = re.compile(r"inferplan:nodes:.*")
"""Types of components whose number of nodes facts state as a whole."""
STATED_WATCH = re.compile(r"inferplan:monitoring:.*")
"""Types of components that watch others: what goes with them is not needless."""
OUTPUT = "facts"
_LONGEST = 500
VERSION = 1
"""Raised when a fact gets another meaning, so that a report never compares what cannot be compared.
"""

Subjects: TypeAlias = dict[tuple[str, str], dict[str, Any]]
"""Facts by the kind and the name of their subject."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one subject. `settings` is whatever else the user set, so that no setting is
    outside the facts.
    """

    kind: ClassVar[str]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StackFacts(Facts):
    """`previous_seed` is True while keys of the previous seed are valid too; `key_history` has the
    versions that consumers ever had.
    """

    kind: ClassVar[str] = "stack"
    namespace: str
    previous_seed: bool = False
    key_history: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClusterFacts(Facts):
    """`target` says which cluster it is; `api_networks` may reach its API server from the internet."""

    kind: ClassVar[str] = "cluster"
    provider: str
    target: str
    account: str | None = None
    kubernetes_version: str | None = None
    support: str | None = None
    zones: Sequence[str] = ()
    api_networks: Sequence[str] = ()
    admins: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class GatewayFacts(Facts):
    """`entry_point` is the object or controller that clients reach; `networks` may connect to it,
    () for all that reach its address; `serves_grpc` is True if a model speaks gRPC and its calls
    pass.
    """

    kind: ClassVar[str] = "gateway"
    implementation: str
    exposure: str
    entry_point: str
    host: str | None
    scheme: str
    certificate: str | None
    internet: bool
    networks: Sequence[str]
    serves_grpc: bool = False
    hashes_keys: bool
    enforces_expiry: bool
    enforces_limits: bool
    counts_requests: bool
    web_origins: Sequence[str]
    read_timeout_seconds: int
    drain_seconds: int | None = None
    max_body_size: str | None = None
    replicas: int | None = None
    max_replicas: int | None = None
    cpu_percent: int | None = None


@dataclass(frozen=True, kw_only=True)
class ConsumerFacts(Facts):
    """`keys` are the valid versions, `imported_keys` those of them that are imported, `expires` the
    last day of each.
    """

    kind: ClassVar[str] = "consumer"
    keys: Sequence[int]
    imported_keys: Sequence[int]
    expires: Mapping[str, Any]
    requests_per_minute: int | None
    burst: int | None
    concurrent_requests: int | None
    tokens_per_day: int | None = None


@dataclass(frozen=True, kw_only=True)
class RouteFacts(Facts):
    """A public name of models: `shares` are percentages of its requests by model; `testing` models
    get requests by a header only.
    """

    kind: ClassVar[str] = "route"
    consumers: Sequence[str]
    aliases: Sequence[str]
    shares: Mapping[str, float]
    testing: Sequence[str]
    fallback: str | None


@dataclass(frozen=True, kw_only=True)
class FilesFacts:
    """A directory of a store: `location` is where the store is."""

    store: str
    location: str
    path: str
    revision: str | None
    files: Mapping[str, str | None]
    size: str | None


@dataclass(frozen=True, kw_only=True)
class ModelFacts(Facts):
    """`names` and `routes` are what clients call; `parts` are files inside the weights or artifacts
    that single names are served from.

    `prompt_tokens` limit prompts, by the name of the limit; `accelerators` are those of one
    replica; `code` is set if the model's own Python files run. `signals` decide the number of
    replicas between `replicas` and `max_replicas`. `traffic`, `slo` and `batching` are what
    predictions read.
    """

    kind: ClassVar[str] = "model"
    engine: str
    consumers: Sequence[str]
    names: Sequence[str]
    routes: Sequence[str]
    protocols: Sequence[str]
    weights: FilesFacts | None
    artifacts: Mapping[str, FilesFacts]
    parts: Mapping[str, str] = field(default_factory=dict)
    preheat: Mapping[str, Any]
    code: Mapping[str, str] = field(default_factory=dict)
    pool: str
    queue: str | None
    queue_priority: str | None
    accelerators: int
    replicas: int
    max_replicas: int
    signals: Mapping[str, float]
    rollout: str
    drain_seconds: int
    prompt_tokens: Mapping[str, Any] = field(default_factory=dict)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    slo: Mapping[str, Any] = field(default_factory=dict)
    batching: Mapping[str, Any] = field(default_factory=dict)
    router: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PoolFacts(Facts):
    """`adopted` nodes exist without this stack. `accelerators` and `memory_bytes` are those that
    one node offers to pods.
    """

    kind: ClassVar[str] = "pool"
    provider: str
    adopted: bool
    machines: Sequence[str]
    accelerator: str | None
    resource: str | None
    accelerators: int
    memory_bytes: int
    min_nodes: int
    max_nodes: int
    capacity_types: Sequence[str] = ()
    zones: Sequence[str] = ()
    usd_per_hour: float | None = None
    spot_usd_per_hour: float | None = None
    node_labels: Mapping[str, str]
    taints: Sequence[str]
    runtime_class: str | None


@dataclass(frozen=True, kw_only=True)
class StoreFacts(Facts):
    """`location` is where the files are; `secret_name` names the Secret of its readers, who may
    call `networks`, () for any.

    `protected` is False for data that goes with the stack, None for data that the stack does not
    create.
    """

    kind: ClassVar[str] = "store"
    type: str
    location: str
    networks: Sequence[str] = ()
    secret_name: str | None = None
    authority: str | None = None
    protected: bool | None = None
    backup: bool | None = None
    old_versions_days: int | None = None
    open_to: str | None = None


def document(subjects: Iterable[tuple[str, Facts]]) -> dict[str, Any]:
    """The facts of named `subjects` as plain data. What is empty is left out; equal facts give
    equal documents.
    """
    by_kind: dict[str, Any] = {}
    for name, facts in subjects:
        by_kind.setdefault(facts.kind, {})[name] = _plain(facts)
    return {"version": VERSION, **by_kind}


def _plain(value: Any) -> Any:
    # The policy pack reads facts and states none: it starts without pydantic.
    from pydantic.alias_generators import to_camel
    from pydantic_core import to_jsonable_python

    if isinstance(value, Facts | FilesFacts):
        value = {to_camel(each.name): _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {
            str(key): part
            for key, item in sorted(value.items())
            if (part := _plain(item)) not in (None, {}, [])
        }
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"sha256:{sha256(value.encode()).hexdigest()}"  # of a program, only that it changes
    return to_jsonable_python(value)


def read(outputs: Mapping[str, Any]) -> Subjects | None:
    """The facts in the outputs of a stack, None if it states none. Raises ValueError for facts of
    another version, or damaged ones.
    """
    stated = outputs.get(OUTPUT)
    if stated is None:
        return None
    version = stated.get("version") if isinstance(stated, dict) else None
    if version != VERSION:
        raise ValueError(f"facts of version {version!r}; expected {VERSION}")
    kinds = [(kind, named) for kind, named in stated.items() if kind != "version"]
    if not all(
        isinstance(named, dict) and all(isinstance(each, dict) for each in named.values())
        for _, named in kinds
    ):
        raise ValueError("damaged facts")
    return {(str(kind), str(name)): facts for kind, named in kinds for name, facts in named.items()}
