"""Checks that a model's pods can reach what its variables and arguments call: URLs, proxies, hubs,
indexes, services by token.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from inferplan.components.hosts import ANYWHERE, namespace_of, networks_of
from inferplan.components.serving.pod_settings import PodSettings
from inferplan.components.serving.spec import ModelSpec
from inferplan.documents.errors import KeyPath, SpecError, shown
from inferplan.stackfile.stack import StackSettings
from inferplan.tables import table

_HUB = "huggingface.co"
# Fields that programs read as they are.
_FREE = frozenset(
    {
        "env",
        "extraArgs",
        "args",
        "parameters",
        "engineArgs",
        "engineKwargs",
        "llmArgs",
        "userConfig",
        "workingDir",
        "scriptFile",
    }
)
_URL = re.compile(
    r"(?<![\w+])([a-z][a-z0-9]*)(?:\+[a-z0-9]+)?://(?:[^/@\s]*@)?\[?([0-9a-fA-F:]+(?=\])|[A-Za-z0-9.-]+)\]?(?::([0-9]{1,5}))?"
)
_HOST_AND_PORT = re.compile(r"([A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?)(?::([0-9]{2,5}))?")
_ADDRESS_KEY = re.compile(
    r"(^|[_.-])(host|hostname|servers?|brokers?|endpoint|address|addr|url|uri|dsn|proxy)$",
    re.IGNORECASE,
)
_NOT_CALLED = re.compile(r"origin|cors|public|referer|redirect|schema|no_?proxy$", re.IGNORECASE)
_HUB_KEY = re.compile(
    r"-*(?!served)([a-z_-]*[_-])?(model|tokenizer|repo|pretrained)([_-](id|name|repo|name_or_path))*",
    re.IGNORECASE,
)
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_HUB_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE")
_HUB_ACCESS = (
    "Name the Secret under credentials of a store of kind huggingface, whose preheat downloads with"
    " it, and remove it here. To let the pods download themselves, add egress: {proxy: {url:"
    ' <proxy>}} and env: {HF_HUB_OFFLINE: "0"}'
)
_PROXIED = ("http", "https", "ws", "wss", "s3", "gs")


class _Call(NamedTuple):
    """A server that the value at `path` calls, as `problem` says, on `port` (None if it is not
    known).
    """

    path: KeyPath
    problem: str
    host: str
    port: int | None = 443
    scheme: str = "https"
    remedy: str = ""


def errors(settings: StackSettings) -> Iterator[SpecError]:
    for name, model in settings.models.items():
        here, edges = ("models", name), [*model.egress.edges(), *_other_edges(model, settings)]
        calls = [
            *_addresses(model),
            *_services(model),
            *_hub_ids(name, model),
            *_packages(name, model),
        ]
        moved = {
            host
            for host, variables in table("stackfile/checks/outgoing.toml")["elsewhere"].items()
            if any(each in model.env for each in variables)
        }
        for each in (each for each in calls if each.host not in moved):
            if not _allows(model, edges, each):
                remedy = each.remedy or _remedy(name, model, each)
                yield SpecError(
                    (*here, *each.path),
                    f"{each.problem}, which the model's pods cannot reach. {remedy}",
                )
            elif each.host == _HUB and model.env.get("HF_HUB_OFFLINE") != "0":
                remedy = f'Add env: {{HF_HUB_OFFLINE: "0"}} to models.{name}'
                yield SpecError(
                    (*here, *each.path),
                    f"{each.problem}, but HF_HUB_OFFLINE=1 is set in every pod. {remedy}",
                )
        for variable in model.env:
            if model.egress.proxy is not None and re.fullmatch(
                "(https?|no)_proxy", variable, re.IGNORECASE
            ):
                yield SpecError(
                    (*here, "env", variable),
                    f"egress.proxy sets {variable} too. Remove it here; noProxy adds hosts to"
                    " NO_PROXY",
                )


def _values(
    value: Any, path: KeyPath = (), *, free: bool = False, key: str = ""
) -> Iterator[tuple[KeyPath, str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _values(each, (*path, name), free=free or name in _FREE, key=name)
    elif isinstance(value, list):
        option = key
        for index, each in enumerate(value):
            yield from _values(each, (*path, index), free=free, key=option)
            named = isinstance(each, str) and each.startswith("-")
            option = each.partition("=")[0] if named else key
    elif isinstance(value, str) and free:
        option, _, argument = (
            value.partition("=") if re.match("--[a-z-]+=", value) else (key, "", value)
        )
        yield path, option, argument
        if argument.startswith(("{", "[")):
            with suppress(ValueError):
                yield from (
                    (path, *each[1:])
                    for each in _values(json.loads(argument), free=True, key=option)
                )


def free_values(model: PodSettings) -> list[tuple[KeyPath, str, str]]:
    """The path, key and text of each value of `model` that its programs read as it is; the key of
    an argument is its option.
    """
    return [each for each in _values(model.intent()) if each[0][-1] not in ("secretName", "key")]


def _called_values(model: ModelSpec) -> Iterator[tuple[KeyPath, str, str]]:
    return (
        each
        for each in free_values(model)
        if each[1] not in model.egress.not_called and not _NOT_CALLED.search(each[1])
    )


def _addresses(model: ModelSpec) -> Iterator[_Call]:
    """The servers in URLs, and in values such as host:port."""
    ports, buckets = (
        table("stackfile/checks/outgoing.toml")["ports"],
        table("stackfile/checks/outgoing.toml")["buckets"],
    )
    for path, key, text in _called_values(model):
        for scheme, host, port in (
            match.groups() for match in _URL.finditer(text) if match[1] in ports
        ):
            called, number = buckets.get(scheme, host), int(port or ports[scheme])
            problem = (
                f"{shown(f'{scheme}://{host}')} is"
                f" {'a server' if called == host else f'on {called}'}"
            )
            yield _Call(path, problem, called, number, scheme)
        pair, is_address = _HOST_AND_PORT.fullmatch(text), _ADDRESS_KEY.search(key) is not None
        if (
            pair
            and re.search("[A-Za-z.]", pair[1])
            and (is_address or (pair[2] and "." in pair[1]))
        ):
            yield _Call(
                path,
                f"{shown(text)} is a server",
                pair[1],
                int(pair[2]) if pair[2] else None,
                "tcp",
            )


def _services(model: ModelSpec) -> Iterator[_Call]:
    """The services that tokens open, and those whose addresses are in Secrets."""
    for variable, value in model.env.items():
        if variable in model.egress.not_called:
            continue
        if host := table("stackfile/checks/outgoing.toml")["variables"].get(variable):
            yield _Call(
                ("env", variable),
                f"{variable} is for {host}",
                host,
                remedy=_HUB_ACCESS if host == _HUB else "",
            )
        elif not isinstance(value, str) and _ADDRESS_KEY.search(variable):
            yield _Call(
                ("env", variable), f"{variable} is the address of a server", "<its host>", None
            )


def _hub_ids(name: str, model: ModelSpec) -> Iterator[_Call]:
    remedy = (
        "Copy it with a preheat: add hub: {kind: huggingface} to storage, and weights: {store:"
        " hub, path: <owner/name>, revision: <commit>} and preheat: {into: <share>} to"
        f" models.{name}; the path is then /models/{name}. If the image contains it, set"
        " env.HF_HOME to its cache"
    )
    for path, key, text in _called_values(model):
        if (
            _HUB_KEY.fullmatch(key)
            and _HUB_ID.fullmatch(text)
            and not any(each in model.env for each in _HUB_CACHES)
        ):
            yield _Call(path, f"{shown(text)} is the id of a model on {_HUB}", _HUB, remedy=remedy)


def _packages(name: str, model: ModelSpec) -> Iterator[_Call]:
    remedy = (
        f"Build the packages into the image and remove pip, or add to models.{name}: egress:"
        " {proxy: {url: <proxy>}}"
    )
    for key, application in getattr(model, "applications", {}).items():
        if application.pip and "PIP_INDEX_URL" not in application.env:
            yield _Call(
                ("applications", key, "pip"),
                "pip installs packages from pypi.org",
                "pypi.org",
                remedy=remedy,
            )


def _other_edges(
    model: ModelSpec, settings: StackSettings
) -> Iterator[tuple[str, tuple[str, ...], list[int]]]:
    """The servers that a model reaches without `egress`: its bucket, if it reads that itself, and
    Ray's Redis.
    """
    store = (
        settings.storage.get(model.stored_files.store)
        if model.stored_files is not None and model.preheat is None
        else None
    )
    if store is not None and store.called_url is not None:
        match = _URL.match(store.called_url)
        if match is not None:
            yield (
                match[2],
                (),
                [int(match[3] or table("stackfile/checks/outgoing.toml")["ports"][match[1]])],
            )
    if (redis := getattr(model, "gcs_fault_tolerance", None)) is not None:
        yield redis.redis[0], (), [redis.redis[1]]


def _allows(
    model: ModelSpec, edges: list[tuple[str, tuple[str, ...], list[int]]], call: _Call
) -> bool:
    host = call.host.lower().rstrip(".")
    if host in ("localhost", "0.0.0.0", "::1", "::") or host.startswith("127."):  # noqa: S104 - addresses that are not called
        return True
    if host.startswith("<"):
        return bool(edges)
    if (
        model.egress.proxy is not None
        and call.scheme in _PROXIED
        and (networks_of(host) or namespace_of(host) is None)
    ):
        return True
    return any(
        _covers(name.lower(), cidrs, host) and call.port in (None, *ports)
        for name, cidrs, ports in edges
    )


def _covers(name: str, networks: tuple[str, ...], host: str) -> bool:
    """True if the servers `name` and `networks` include `host`."""
    if networks_of(host):
        return any(ip_address(host) in ip_network(each) for each in (*networks, *networks_of(name)))
    if (namespace := namespace_of(host)) is not None and not networks:
        # The edge to a Service opens its whole namespace.
        return bool(name) and namespace_of(name) == namespace
    return host == name.rstrip(".") or ANYWHERE in networks


def _remedy(name: str, model: ModelSpec, call: _Call) -> str:
    has_networks, port = (
        networks_of(call.host) or namespace_of(call.host) is not None,
        "<port>" if call.port is None else call.port,
    )
    if str(call.path[-1]).lower() in ("http_proxy", "https_proxy", "all_proxy"):
        networks = "" if has_networks else ", cidrs: [<networks of the proxy>]"
        return (
            f"Replace it in models.{name} by egress: {{proxy: {{url:"
            f' "http://{call.host}:{port}"{networks}}}}}'
        )
    where, end = (
        (f"Add to models.{name}.egress.to: ", "")
        if model.egress.to
        else (f"Add to models.{name}: egress: {{to: [", "]}")
    )
    networks = (
        "" if has_networks or call.host.startswith("<") else ", cidrs: [<networks of its servers>]"
    )
    why = (
        f". If the addresses of {call.host} change, use egress.proxy: a NetworkPolicy cannot match"
        " host names"
        if networks
        else ""
    )
    return f"{where}{{host: {call.host}{networks}, ports: [{port}]}}{end}{why}"
