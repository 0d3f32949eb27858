"""Warnings about valid stack files: what a user probably forgot or misspelt. They stop nothing."""

import re
from collections.abc import Callable, Iterator

from inferplan.components.nodes.pool import Pool
from inferplan.components.platforms.node_counts import shared_nodes
from inferplan.components.serving.pod_settings import PodSettings
from inferplan.components.storage.fields import Store
from inferplan.components.stores import WeightsSpec
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.kube.quantity import cpu_quantity, size_quantity
from inferplan.stackfile.checks.egress import free_values
from inferplan.stackfile.stack import StackSettings

_TOKEN = re.compile(r"(_KEY|_TOKEN|_PASSWORD)$")
# Public repositories whose own code fails with the libraries of current images: the code of
# ChatGLM's tokenizers has no padding_side, which transformers passes since 4.49
# (zai-org/ChatGLM2-6B issue 685, zai-org/GLM-4 issue 732; read 2026-11).
_OLD_CODE = {
    re.compile(r"(THUDM|zai-org)/(chatglm|glm-4v?-9b)", re.IGNORECASE): "transformers 4.48 or older"
}
_SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?keys?|key|token|secret|pw|pwd|pass|password|passwd|credentials?)$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|sk-[\w-]{16,}|gh[pousr]_\w{20,}|AKIA[A-Z0-9]{16}|nvapi-[\w-]{20,})|://[^/\s:@]*:[^/\s:@$]+@"
)
_HARMLESS = re.compile(r"true|false|[0-9.]{0,4}|\$\(\w+\)|<.*>|(/[\w.-]+)+|file:.+|", re.IGNORECASE)
_SHORTENED_COMMIT = re.compile(r"[0-9a-f]{7,39}")

# Keys of older releases, below an entry of a section, with the keys of today.
_RENAMED = (
    ("nodePools", (), "machine", "instanceType"),
    ("models", ("affinity",), "beside", "podAffinity"),
    ("models", ("affinity",), "apartFrom", "podAntiAffinity"),
    ("models", ("build",), "cards", "accelerators"),
)


def renamed_keys(
    written_keys: Callable[..., frozenset[str]], settings: StackSettings
) -> Iterator[SpecError]:
    """Name the old keys among `written_keys`, which returns the keys of a mapping of the file."""
    for path, new in renames(written_keys, settings):
        yield SpecError(
            path, f"{path[-1]!r} is now called {new!r}. The old key still works. Rename it."
        )


def renames(
    written_keys: Callable[..., frozenset[str]], settings: StackSettings
) -> Iterator[tuple[KeyPath, str]]:
    """The path of each old key, and its name today."""
    for section, inner, old, new in _RENAMED:
        for name in settings.node_pools if section == "nodePools" else settings.models:
            if old in written_keys(section, name, *inner):
                yield (section, name, *inner, old), new


def advice(settings: StackSettings) -> Iterator[SpecError]:
    yield from plain_secrets(settings)
    yield from _shared_nodes(settings)
    for name, model in settings.models.items():
        here = ("models", name)
        if (
            settings.gateway is not None
            and not settings.models[model.whole(name)].consumers
            and not any(name in each.models for each in settings.public_routes.values())
        ):
            yield SpecError(
                (*here, "consumers"),
                "No consumer can call this model through the gateway. Add consumers: [<name>].",
            )
        if settings.gateway is not None and model.upload_bytes > settings.gateway.largest_body:
            yield SpecError(
                ("gateway", "maxBodySize"),
                f"models.{name} gets files of up to {model.upload_bytes // 10**6} MB, and the gateway"
                " rejects them. Write maxBodySize: 32Mi, or more.",
            )
        if model.logs_usage and not (settings.gateway and settings.gateway.logs_consumers):
            yield SpecError(
                (*here, "usageLog"),
                "The usage has no consumers: only the nginx gateway logs who sent a request. Add a"
                " gateway with implementation: nginx, or remove usageLog.",
            )
        for each in model.doubts_on(settings.node_pools[model.pool].target(model.pool)):
            yield SpecError((*here, *each.path), each.message)
        if model.weights is not None:
            store, pool = settings.storage[model.weights.store], settings.node_pools[model.pool]
            yield from _weights((*here, "weights"), model.weights, store, pool, model.image)
        if not any(model.egress.edges()):
            yield from _tokens((*here, "env"), model)


def _shared_nodes(settings: StackSettings) -> Iterator[SpecError]:
    """A warning if models leave no room on nodes that they share with the gateway and preheats."""
    if (shared := shared_nodes(settings)) is None:
        return
    name, offered, rows = shared
    for resource, shown in (("cpu", cpu_quantity), ("memory", size_quantity)):
        total = sum(int(each[resource]) for each in rows.values())
        if total > offered[resource]:
            parts = ", ".join(
                f"{what} {shown(int(each[resource]))}"
                for what, each in rows.items()
                if each[resource]
            )
            count = settings.node_pools[name].initial_nodes
            yield SpecError(
                ("nodePools", name),
                f"Its {count} node{'' if count == 1 else 's'} offer"
                f"{'s' if count == 1 else ''} {shown(int(offered[resource]))} {resource} to every pod, and"
                f" pods request {shown(total)}: {parts}. Unless the cluster has other nodes, updates or preheats wait for room. Set"
                f" resources.{resource} of the models, or add a node.",
            )


def _tokens(path: tuple[str | int, ...], model: PodSettings) -> Iterator[SpecError]:
    for variable, value in model.env.items():
        if (
            not isinstance(value, str)
            and _TOKEN.search(variable)
            and variable not in model.egress.not_called
        ):
            text = (
                f"If {variable} is for another server, add egress: the model's pods reach DNS and"
                " their model store only."
            )
            yield SpecError((*path, variable), text)


def plain_secrets(settings: StackSettings) -> Iterator[SpecError]:
    """A warning for each value of a model that looks like a secret."""
    problem = (
        "The value looks like a secret in plain text, which plans and everyone with this file can"
        " read. The policy pack blocks it."
    )
    for name, model in settings.models.items():
        for below, key, text in free_values(model):
            if (_SECRET_KEY.search(key) and not _HARMLESS.fullmatch(text)) or _SECRET_TEXT.search(
                text
            ):
                remedy = f"env: {{{key.lstrip('-')}: {{secretName: <name>, key: <key>}}}}."
                yield SpecError(
                    ("models", name, *below),
                    f"{problem} Replace the secret, and refer to the new one: {remedy}",
                )


def _weights(
    path: KeyPath, weights: WeightsSpec, store: Store, pool: Pool, image: str | None
) -> Iterator[SpecError]:
    needed = next(
        (libraries for code, libraries in _OLD_CODE.items() if code.match(weights.path)), None
    )
    if needed is not None and image is None:
        copy = (
            "Serve a reviewed copy with adapted code (inferplan docs stories), or name an image that has"
            " it in image"
        )
        yield SpecError(
            (*path, "path"),
            f"The code of {weights.path} needs {needed}, and the default image has a newer one."
            f" {copy}.",
        )
    if weights.size is None and pool.accelerator is not None:
        text = (
            "Without a size, nothing checks that the weights fit into the accelerators' memory. Add"
            " size, for example size: 16Gi."
        )
        yield SpecError((*path, "size"), text)
    if weights.revision is None and not store.pinned and not store.is_volume:
        text = (
            "Without a revision, a restart can load other files than those that were tested. Add"
            " revision: <version of the files>."
        )
        yield SpecError((*path, "revision"), text)
    if (
        not store.pinned
        and weights.revision is not None
        and _SHORTENED_COMMIT.fullmatch(weights.revision)
    ):
        text = (
            f"{weights.revision!r} looks like a shortened commit. A store of kind {store.kind}"
            " compares revisions as text. Write all 40 digits, so that it matches what other"
            " stacks use."
        )
        yield SpecError((*path, "revision"), text)
