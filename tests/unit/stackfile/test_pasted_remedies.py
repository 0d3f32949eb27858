"""Sixty natural mistakes: the message shows a remedy, and the file with the remedy pasted in place
of the mistake is valid.

Written from the user's side: stack, path, what was typed, and what to paste. A pasted mapping
replaces the mistaken key in its mapping, another value replaces the mistaken value, and None says
that the message tells to remove the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.unit.stackfile.test_natural_mistakes import ROOT

M, P, S, G = "models.llama-3-8b", "nodePools.l40s", "storage.weights", "gateway"

Row = tuple[str, str, str, str | None]
MISTAKES: list[Row] = [
    # Sizes, numbers and flags.
    ("local", f"{M}.resources.cpu", "6", "cpu: '6'"),
    ("local", f"{M}.resources.cpu", "2.5", "cpu: '2.5'"),
    ("local", f"{M}.resources.cpu", "3500", "cpu: 3500m"),
    ("local", f"{M}.resources.cpu", "8 vCPU", "cpu: '8'"),
    ("local", f"{M}.resources.memory", "96", "memory: 96Gi"),
    ("local", f"{M}.resources.memory", "96GB", "memory: 96Gi"),
    ("local", f"{M}.sharedMemory", "4 gb", "sharedMemory: 4Gi"),
    ("local", f"{M}.weights.size", "15gb", "size: 15Gi"),
    ("local", f"{M}.weights.size", "15", "size: 15Gi"),
    ("local", "storage.shared.capacity", "3TB", "capacity: 3Ti"),
    ("local", f"{M}.drainSeconds", "5min", "drainSeconds: 300"),
    ("local", f"{G}.readTimeoutSeconds", "1h", "readTimeoutSeconds: 3600"),
    ("local", f"{M}.gpuMemoryUtilization", "85%", "gpuMemoryUtilization: 0.85"),
    ("local", f"{M}.maxModelLen", "16k", "maxModelLen: 16384"),
    ("local", f"{G}.insecure", "'true'", "insecure: true"),
    ("local", "budget", "70000", "budget: {monthlyUsd: 70000}"),
    ("local", "budget.monthlyUsd", "$70000", "monthlyUsd: 70000"),
    ("local", f"{M}.env.DEBUG", "true", "'true'"),
    ("local", f"{M}.env.PORT_BASE", "8080", "'8080'"),
    ("local", f"{M}.dtype", "fp16", "dtype: float16"),
    ("local", f"{M}.dtype", "bf16", "dtype: bfloat16"),
    # Networks: an address without a prefix length would close more than was meant.
    ("local", f"{S}.networks", "192.168.7.0", "networks: [192.168.7.0/24]"),
    ("local", f"{S}.networks", "[192.168.7.0]", "networks: [192.168.7.0/24]"),
    ("local", f"{S}.networks", "192.168.7.9", "networks: [192.168.7.9/32]"),
    ("prod", f"{G}.alb.inboundCidrs", "[192.168.7.0]", "inboundCidrs: [192.168.7.0/24]"),
    ("prod", f"{G}.alb.inboundCidrs", "192.168.7.0/24", "inboundCidrs: [192.168.7.0/24]"),
    (
        "prod",
        "cluster.create.publicAccessCidrs",
        "192.168.7.9",
        "publicAccessCidrs: [192.168.7.9/32]",
    ),
    # Hosts, images and stores.
    ("local", f"{G}.host", "https://ai.fabrik.test/v1", "host: ai.fabrik.test"),
    ("local", f"{G}.host", "ai.fabrik.test:443", "host: ai.fabrik.test"),
    (
        "local",
        f"{M}.image",
        "https://docker.io/vllm/vllm-openai:v0.33.0",
        "image: docker.io/vllm/vllm-openai:v0.33.0",
    ),
    ("local", "images.mirror", "https://registry.fabrik.test", "registry.fabrik.test"),
    ("local", f"{S}.bucket", "s3://fabrik-models", "bucket: fabrik-models"),
    ("local", f"{S}.endpoint", "ceph.storage.svc:7480", "endpoint: http://ceph.storage.svc:7480"),
    ("local", "storage.shared.path", "srv/models", "path: /srv/models"),
    ("local", "storage.shared.kind", "NFS", "nfs"),
    ("local", f"{M}.weights.path", "/llama-3-8b", "path: llama-3-8b"),
    ("local", f"{M}.weights.store", "weihgts", "weights"),
    ("local", f"{M}.preheat", "shared", "preheat: {into: shared}"),
    ("local", f"{M}.preheat", "{to: shared}", "into: shared"),
    ("local", f"{M}.preheat.into", "shraed", "shared"),
    # Keys in clear text.
    (
        "local",
        f"{S}.credentials",
        "{accessKeyId: AKIAX, secretAccessKey: wJalrX}",
        "credentials: {secretName: minio}",
    ),
    ("local", f"{S}.secretKey", "wJalrX", "credentials: {secretName: minio}"),
    # Shapes.
    ("local", "cluster", "simulated", "cluster: {provider: simulated}"),
    (
        "local",
        f"{G}.cors",
        "['https://app.fabrik.test']",
        "cors: {origins: [https://app.fabrik.test]}",
    ),
    (
        "local",
        f"{G}.cors",
        "{origins: 'https://app.fabrik.test'}",
        "origins: [https://app.fabrik.test]",
    ),
    ("local", f"{M}.env", "[{name: LEVEL, value: info}]", "env: {LEVEL: info}"),
    ("local", f"{M}.replicas", "'3'", "replicas: 3"),
    ("local", f"{M}.consumers", "batch", "consumers: [batch]"),
    ("local", f"{M}.consumers", "[bacth]", "batch"),
    ("local", "consumers.chat", "[2, 1]", "chat: {keys: [2, 1]}"),
    ("local", "consumers.batch.keys", "1", "keys: [1]"),
    ("local", "consumers.chat.expires", "'2028-01-31'", "expires: {'1': '2028-01-31'}"),
    ("local", "consumers.chat.limits", "250", "limits: {requestsPerMinute: 250}"),
    ("local", "consumers.chat.limits", "{requestsPerMinute: 250/min}", "requestsPerMinute: 250"),
    ("local", "consumers.chat.limits", "{rpm: 250}", "requestsPerMinute: 250"),
    ("local", "monitoring.prometheus", "observability", "prometheus: {namespace: observability}"),
    ("local", f"{M}.preheat.exclude", "'*.onnx'", 'exclude: ["*.onnx"]'),
    (
        "local",
        "storage.shared.mountOptions",
        "'nfsvers=4.1,hard'",
        "mountOptions: [nfsvers=4.1, hard]",
    ),
    (
        "local",
        f"{M}.volumes",
        "[{name: words, configMap: {name: words}, mountPath: /w}]",
        "volumes: {words: {configMap: {name: words}, mountPath: /w}}",
    ),
    (
        "local",
        "monitoring.prometheus",
        "http://prom.watch.svc:9090",
        "prometheus: {namespace: watch, url: 'http://prom.watch.svc:9090'}",
    ),
    # Names of other tools.
    ("local", f"{M}.shmSize", "4Gi", "sharedMemory: 4Gi"),
    ("local", f"{M}.port", "8000", None),
    ("local", f"{M}.serviceAccountName", "default", None),
    ("local", f"{P}.count", "2", "nodes: 2"),
]


def _parents(tree: dict[str, Any], path: str) -> tuple[Any, Any]:
    section, *keys = path.split(".")
    *parents, last = [f"inferplan:{section}", *keys]
    place = tree["config"]
    for key in parents:
        place = place.setdefault(key, {})
    return place, last


def _errors(tree: dict[str, Any], file: Path) -> tuple[str, ...]:
    file.write_text(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False))
    try:
        validate(read_stack(file))
    except InvalidStack as error:
        return error.lines
    return ()


def _shown(pasted: str | None) -> list[str]:
    """Words of the message that a person copies; a name is enough where the value stays."""
    if pasted is None:
        return ["Remove "]
    value = pasted.partition(": ")[2] or pasted
    return [pasted, value.strip("[]{}'"), repr(pasted.partition(": ")[0])]


@pytest.mark.parametrize(
    ("stack", "path", "typed", "pasted"),
    MISTAKES,
    ids=[f"{path}={typed}" for _, path, typed, _ in MISTAKES],
)
def test_the_pasted_remedy_is_valid(
    tmp_path, stack: str, path: str, typed: str, pasted: str | None
):
    file = tmp_path / f"Pulumi.{stack}.yaml"
    tree = yaml.load((ROOT / f"stacks/Pulumi.{stack}.yaml").read_text(), Loader=yaml.CSafeLoader)
    place, last = _parents(tree, path)
    sound = place.get(last)
    place[last] = yaml.safe_load(typed)
    lines = _errors(tree, file)
    assert lines, "the mistake is accepted"
    assert all(f" {path}" in line for line in lines), f"an error elsewhere: {lines}"
    assert any(words in line for line in lines for words in _shown(pasted)), (
        f"{pasted} is not shown: {lines}"
    )
    value = None if pasted is None else yaml.safe_load(pasted)
    if pasted is None:
        del place[last]
    elif not isinstance(value, dict):
        place[last] = (
            [value] if isinstance(place[last], list) and isinstance(sound, list) else value
        )
    elif {*value} == {last} or last not in ("limits", "preheat", "cors", "credentials"):
        del place[last]
        place |= value
    else:
        place[last] = value
    assert _errors(tree, file) == ()


@pytest.mark.parametrize("typed", ["tensorparallelsize", "tp", "tensor_parallel_size"])
def test_a_misspelt_field_causes_no_error_about_its_default(tmp_path, typed: str):
    tree = yaml.safe_load((ROOT / "stacks/Pulumi.local.yaml").read_text())
    model = tree["config"]["inferplan:models"]["llama-3-70b"]
    model[typed] = model.pop("tensorParallelSize")
    [line] = _errors(tree, tmp_path / "Pulumi.local.yaml")
    assert (
        f"models.llama-3-70b.{typed}: Unknown field '{typed}'. Did you mean 'tensorParallelSize'?"
        in line
    )


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (
            "./code",
            (
                "Write the URL of a .zip archive, or build the code into the image and remove"
                " workingDir."
            ),
        ),
        (
            "/opt/code",
            (
                "Write the URL of a .zip archive, or build the code into the image and remove"
                " workingDir."
            ),
        ),
        (
            "file:///srv/fabrik/code",
            (
                "Write the URL of a .zip archive that pods on any node can fetch: pack the folder"
                " (zip -r code.zip .), and upload the archive to s3:// or https://."
            ),
        ),
        (
            "git@github.com:fabrik/code.git",
            "Write workingDir: https://github.com/fabrik/code/archive/<commit>.zip.",
        ),
        (
            "https://github.com/fabrik/code",
            "Write workingDir: https://github.com/fabrik/code/archive/<commit>.zip.",
        ),
        (
            "https://files.fabrik.test/code.tar.gz",
            (
                "Write workingDir: https://files.fabrik.test/code.zip, the only archive that Ray"
                " reads."
            ),
        ),
    ],
)
def test_a_working_dir_of_another_form_gets_the_form_that_ray_reads(
    tmp_path, typed: str, words: str
):
    tree = yaml.safe_load((ROOT / "docs/engines/Pulumi.ray-serve.yaml").read_text())
    tree["config"]["inferplan:models"]["tuned"]["applications"]["rag"]["workingDir"] = typed
    [line] = _errors(tree, tmp_path / "Pulumi.ray-serve.yaml")
    assert words in line


def test_most_mistakes_are_of_their_own_kind():
    assert len(MISTAKES) >= 60
    assert len({(path, typed) for _, path, typed, _ in MISTAKES}) == len(MISTAKES)
