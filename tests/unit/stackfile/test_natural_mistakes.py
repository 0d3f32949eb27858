"""Mistakes that people make in their first stack file, and the correction that each message must
show.

The table was written from the user's side: what they typed, at which path, and the words that put
them right.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate

ROOT = Path(__file__).parents[3]
VLLM, POOL = "models.llama-3-8b", "nodePools.l40s"
NFS, S3 = "storage.shared", "storage.weights"
ONPREM_POOL = "nodePools.gaudi2"

# Stack, path of the value, what the user typed (YAML), words of the message.
MISTAKES: list[tuple[str, str, str, tuple[str, ...]]] = [
    # Lists of other tools.
    (
        "local",
        f"{VLLM}.tolerations",
        "['team/night:NoSchedule']",
        ("{key: team/night, operator: Exists, effect: NoSchedule}",),
    ),
    (
        "local",
        f"{VLLM}.tolerations",
        "['team=search:NoExecute']",
        ("{key: team, value: 'search', effect: NoExecute}",),
    ),
    (
        "local",
        f"{VLLM}.egress",
        "{to: ['qdrant.vectors.svc:6333']}",
        ("Write {host: qdrant.vectors.svc, ports: [6333]}",),
    ),
    (
        "local",
        f"{VLLM}.egress",
        "{to: ['https://api.x.example:443']}",
        ("{host: api.x.example, cidrs: [<networks of its servers>], ports: [443]}",),
    ),
    ("local", "gateway.autoscaling", "{maxReplicas: 4, cpuPercent: 60%}", ("cpuPercent: 60.",)),
    # Sizes.
    ("local", f"{VLLM}.weights.size", "142GB", ("'142GB'", "142Gi")),
    ("local", f"{VLLM}.weights.size", "140gb", ("'140gb'", "140Gi")),
    ("local", f"{VLLM}.weights.size", "17g", ("'17g'", "17Gi")),
    ("local", f"{VLLM}.weights.size", "18 Gi", ("'18 Gi'", "18Gi")),
    ("local", f"{VLLM}.weights.size", "19GiB", ("'19GiB'", "19Gi")),
    ("local", f"{VLLM}.weights.size", "20", ("20", "20Gi")),
    ("local", f"{VLLM}.weights.size", "-21Gi", ("'-21Gi'", "21Gi")),
    ("local", f"{VLLM}.weights.size", "1,5Ti", ("'1,5Ti'", "1.5Ti")),
    ("local", f"{NFS}.capacity", "2TB", ("'2TB'", "2Ti")),
    ("local", f"{NFS}.capacity", "500mb", ("'500mb'", "500Mi")),
    ("local", f"{VLLM}.resources", "{memory: 64GB}", ("'64GB'", "64Gi")),
    ("local", f"{VLLM}.resources", "{cpu: 4 cores}", ("'4 cores'", "cpu: '4'")),
    ("local", f"{VLLM}.resources", "{cpu: 500M}", ("'500M'", "cpu: 500m")),
    # Durations.
    ("local", f"{VLLM}.drainSeconds", "10m", ("'10m'", "600")),
    ("local", f"{VLLM}.drainSeconds", "30s", ("'30s'", "30")),
    ("local", f"{VLLM}.preheat", "{into: shared, timeoutSeconds: 2h}", ("'2h'", "7200")),
    ("local", "gateway.readTimeoutSeconds", "5 minutes", ("'5 minutes'", "300")),
    # Numbers and flags.
    ("local", f"{VLLM}.replicas", "'2'", ("'2'", "Remove the quotes")),
    ("local", f"{VLLM}.replicas", "two", ("'two'", "whole number")),
    ("local", f"{VLLM}.replicas", "-1", ("-1", "at least 0")),
    ("local", f"{VLLM}.replicas", "2.5", ("2.5", "whole number")),
    ("local", f"{VLLM}.gpuMemoryUtilization", "90%", ("'90%'", "0.9")),
    ("local", f"{VLLM}.gpuMemoryUtilization", "90", ("90", "0.9")),
    ("local", f"{VLLM}.maxModelLen", "32k", ("'32k'", "32768")),
    ("local", "gateway.insecure", "'true'", ("'true'", "Remove the quotes")),
    ("local", "budget", "{monthlyUsd: 120k}", ("'120k'", "120000")),
    ("local", "budget", "{monthlyUsd: $5000}", ("'$5000'", "5000")),
    ("local", f"{VLLM}.maxModelLen", "'32,768'", ("maxModelLen: 32768.",)),
    ("local", "budget", "{monthlyUsd: 120,125}", ("write the number without commas",)),
    # Names and forms of other tools and clouds.
    ("prod", "cluster.create.version", "'1.35'", ("Did you mean 'kubernetesVersion'?",)),
    (
        "prod",
        "cluster.create.availabilityZones",
        "[us-east-1a, us-east-1b]",
        ("Did you mean 'zones'?",),
    ),
    ("prod", f"{POOL}.minSize", "4", ("Write size: {min: 4, max: 4}.",)),
    (
        "prod",
        "nodePools.h100.capacityReservation",
        "cr-0123456789abcdef0",
        ("{id: cr-0123456789abcdef0, zone: <its zone>}",),
    ),
    ("prod", f"{S3}.prefix", "/llm/", ("Write prefix: llm.",)),
    (
        "local",
        f"{VLLM}.weights",
        "s3://acme-weights/llm/llama-3-8b/",
        ("{store: <a store of this bucket>, path: llm/llama-3-8b}",),
    ),
    (
        "local",
        f"{VLLM}.weights",
        "Qwen/Qwen3-8B",
        ("{store: <a store of kind huggingface>, path: Qwen/Qwen3-8B}",),
    ),
    ("local", f"{VLLM}.replicas", "{minReplicas: 1, maxReplicas: 2}", ("Did you mean 'min'?",)),
    ("local", f"{VLLM}.replicas", "{min: 1, max: 2, cpu: 70}", ("Write on: {cpu: 70}.",)),
    (
        "local",
        f"{VLLM}.replicas",
        "{min: 1, max: 2, metric: queue}",
        ("Write on: {requestsInFlight: 8}.",),
    ),
    ("local", f"{VLLM}.preheat", "{store: shared}", ("Did you mean 'into'?",)),
    ("local", f"{VLLM}.contextLength", "32768", ("Did you mean 'maxModelLen'?",)),
    ("local", f"{VLLM}.memory", "64Gi", ("Write resources: {memory: 64Gi}.",)),
    ("local", f"{VLLM}.livenessProbe", "{periodSeconds: 5}", ("warmupSeconds: 600",)),
    ("local", f"{NFS}.size", "2Ti", ("Did you mean 'capacity'?",)),
    ("prod", f"{NFS}.capacity", "2Ti", ("Remove capacity.",)),
    ("onprem", "cluster.kubeconfig", "~/.kube/config", ("Did you mean 'context'?",)),
    ("local", "users", "{app: {keys: [1]}}", ("Did you mean 'consumers'?",)),
    # Hosts and addresses.
    (
        "local",
        "gateway.host",
        "https://llm.acme.example",
        ("without the scheme", "llm.acme.example"),
    ),
    ("local", "gateway.host", "llm.acme.example/", ("llm.acme.example",)),
    ("local", "gateway.host", "llm.acme.example:8080", ("without the port", "llm.acme.example")),
    ("local", "gateway.host", "LLM.acme.example", ("lower case", "llm.acme.example")),
    ("local", f"{NFS}.server", "nfs://nfs.storage.svc", ("without the scheme", "nfs.storage.svc")),
    ("local", f"{NFS}.server", "nfs.storage.svc:/export", ("path: /export", "nfs.storage.svc")),
    ("local", f"{NFS}.path", "export/models", ("/export/models",)),
    ("local", f"{S3}.bucket", "s3://acme-weights", ("bucket: acme-weights",)),
    ("local", f"{S3}.bucket", "s3://acme-weights/llm", ("bucket: acme-weights", "prefix: llm")),
    ("local", f"{S3}.bucket", "acme-weights/llm", ("bucket: acme-weights", "prefix: llm")),
    ("local", f"{S3}.endpoint", "minio.storage.svc:9000", ("http://minio.storage.svc:9000",)),
    ("local", f"{VLLM}.weights.path", "/llama-3-8b", ("'/llama-3-8b'", "llama-3-8b")),
    ("prod", "cluster.create.publicAccessCidrs", "[198.51.100.7]", ("198.51.100.7/32",)),
    # Names of things that exist.
    ("local", f"{VLLM}.engine", "vLLM", ("'vLLM'", "'vllm'")),
    ("local", f"{VLLM}.engine", "tensorrtllm", ("'tensorrtllm'", "'tensorrt-llm'")),
    ("local", f"{POOL}.accelerator", "l40s", ("'l40s'", "nvidia-l40s")),
    ("local", f"{POOL}.accelerator", "NVIDIA-L40S", ("nvidia-l40s",)),
    ("local", "nodePools.gaudi2.accelerator", "gaudi2", ("'gaudi2'", "gaudi-2")),
    ("local", f"{POOL}.instanceType", "g6e.12xl", ("'g6e.12xl'", "g6e.12xlarge")),
    ("local", f"{VLLM}.pool", "l40", ("'l40'", "'l40s'")),
    ("local", f"{VLLM}.weights.store", "weigths", ("'weigths'", "'weights'")),
    ("local", f"{VLLM}.consumers", "[chatt]", ("'chatt'", "'chat'")),
    ("local", f"{VLLM}.weights.revision", "main", ("'main'", "commit")),
    ("local", "namespace", "Inference_Prod", ("'Inference_Prod'", "inference-prod")),
    ("local", "models.Llama_3", "{engine: vllm}", ("'Llama_3'", "llama-3")),
    ("prod", f"{POOL}.capacityTypes", "[spot]", ("'spot'", "SPOT")),
    ("prod", f"{POOL}.instanceTypes", "[g6e.4xl]", ("'g6e.4xl'", "g6e.4xlarge")),
    ("prod", "cluster.region", "us-east", ("'us-east'", "us-east-1")),
    ("prod", "cluster.create.zones", "[a, b]", ("'a'", "us-east-1a")),
    ("prod", "cluster.create.kubernetesVersion", "1.35", ("Quote it", "'1.35'")),
    ("prod", "cluster.create.kubernetesVersion", "v1.35", ("'v1.35'", "'1.35'")),
    (
        "prod",
        "cluster.create.kubernetesVersion",
        "'1.30'",
        ("'1.30' is not in the range", "Use 1.32 to 1.36"),
    ),
    ("prod", "cluster.create.kubernetesVersion", "v1.30", ("'v1.30'", "Use 1.32 to 1.36")),
    ("prod", "cluster.autoscaler", "true", ("Expected install, existing or none",)),
    ("prod", "consumers.chat.issued", "{'2': 2026/11/02}", ("'2026/11/02'", "2026-11-02")),
    # Shapes.
    ("local", f"{VLLM}.consumers", "chat", ("'chat'", "[chat]")),
    ("local", f"{VLLM}.preheat", "shared", ("'shared'", "{into: shared}")),
    ("local", f"{VLLM}.preheat", "true", ("true", "{into: ")),
    ("local", "consumers.chat.keys", "2", ("2", "[2]")),
    ("local", "consumers.chat.keys", "[v1]", ("whole number",)),
    ("prod", f"{POOL}.size", "4", ("4", "{min: 4, max: 4}")),
    ("prod", f"{POOL}.instanceTypes", "g6e.4xlarge", ("'g6e.4xlarge'", "[g6e.4xlarge]")),
    ("local", f"{VLLM}.extraArgs", "--enforce-eager", ("'--enforce-eager'", "[--enforce-eager]")),
    (
        "local",
        f"{VLLM}.affinity",
        "{requiredNodes: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-c]}]}",
        ("zone-c", "Zones of the pool: zone-a, zone-b"),
    ),
    (
        "prod",
        f"{VLLM}.affinity",
        "{requiredNodes: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1d]}]}",
        ("us-east-1a",),
    ),
    # A range of replicas, and the number of nodes.
    ("local", f"{VLLM}.replicas", "1-3", ("'1-3'", "Write replicas: {min: 1, max: 3}")),
    ("local", f"{VLLM}.replicas", "1..3", ("'1..3'", "Write replicas: {min: 1, max: 3}")),
    ("local", f"{VLLM}.replicas", "[1, 3]", ("A list of 2", "Write replicas: {min: 1, max: 3}")),
    ("local", f"{VLLM}.replicas", "3-1", ("'3-1'", "Write replicas: {min: 1, max: 3}")),
    (
        "local",
        f"{VLLM}.replicas",
        "auto",
        ("a whole number or a range, for example {min: 1, max: 3}",),
    ),
    ("local", f"{VLLM}.minReplicas", "2", ("'minReplicas'", "Write replicas: {min: 2, max: ")),
    ("local", f"{VLLM}.maxReplicas", "5", ("'maxReplicas'", "Write replicas: {min: ", "max: 5}")),
    (
        "prod",
        f"{POOL}.nodes",
        "3",
        ("3 is not valid", "autoMode or nodeGroup", "size: {min: 3, max: 3}"),
    ),
    ("onprem", f"{ONPREM_POOL}.size", "2", ("'size'", "Write nodes: 2.")),
    ("onprem", f"{ONPREM_POOL}.size", "{min: 2, max: 4}", ("'size'", "Write nodes: 4.")),
    # Values that do not fit another field, named at their own line.
    (
        "prod",
        "cluster.create.zones",
        "[us-east-1a, eu-west-1a]",
        ("zones[1]: Zone eu-west-1a is not in region us-east-1",),
    ),
    (
        "prod",
        "cluster.create.zones",
        "[eu-west-1a, eu-west-1b]",
        ("zones[0]: Zones eu-west-1a, eu-west-1b are not in region",),
    ),
    (
        "local",
        f"{VLLM}.replicas",
        "{min: 1, max: 2, 'on': {queueMilliseconds: 3}}",
        ("replicas.on.queueMilliseconds: ", "waitingRequests"),
    ),
    (
        "prod",
        f"{POOL}.instanceTypes",
        "[g6e.4xlarge, g6.4xlarge]",
        ("instanceTypes[1]: g6.4xlarge carries nvidia-l4",),
    ),
    # One typo of a required field is one error.
    (
        "local",
        f"{VLLM}.replicas",
        "{minimum: 1, max: 2, 'on': {cpu: 70}}",
        ("replicas.minimum: ", "Did you mean 'min'?"),
    ),
    # Fields of other tools.
    ("local", f"{VLLM}.replica", "2", ("'replica'", "'replicas'")),
    ("local", f"{VLLM}.gpus", "2", ("'gpus'", "'accelerators'")),
    ("local", f"{VLLM}.replicaCount", "2", ("'replicaCount'", "'replicas'")),
    (
        "local",
        f"{VLLM}.tensor_parallel_size",
        "2",
        ("'tensor_parallel_size'", "'tensorParallelSize'"),
    ),
    (
        "local",
        f"{VLLM}.nodeSelector",
        "{a: b}",
        ("'nodeSelector'", "affinity: {requiredNodes: [{key: "),
    ),
    (
        "local",
        f"{VLLM}.autoscaling",
        "{min: 1, max: 4}",
        ("'autoscaling'", "write replicas: {min: 1, max: 4}"),
    ),
    (
        "local",
        f"{VLLM}.resources",
        "{limits: {nvidia.com/gpu: 1}}",
        ("'limits'", "resources: {cpu: '4', memory: 16Gi}"),
    ),
    ("local", f"{VLLM}.traffic", "{rps: 4}", ("'rps'", "'requestsPerSecond'")),
    (
        "local",
        f"{VLLM}.weights.path",
        "https://huggingface.co/Qwen/Qwen3-8B",
        ("huggingface.co", "Write path: Qwen/Qwen3-8B."),
    ),
    (
        "local",
        "nodePools.l40s.accelerator",
        "l40s",
        ("'l40s' is not a known accelerator. Did you mean 'nvidia-l40s'?",),
    ),
    ("local", f"{VLLM}.image", "vllm/vllm-openai", ("'vllm/vllm-openai'", "tag")),
    ("local", f"{VLLM}.image", "vllm/vllm-openai:latest", ("'latest'", "tag")),
]


def mistaken(stack: str, path: str, typed: str) -> dict[str, Any]:
    """The settings of `stack` with the value at `path` replaced by what the user typed."""
    tree = yaml.load(
        (ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(), Loader=yaml.CSafeLoader
    )
    config: Any = tree["config"]
    section, *keys = path.split(".")
    keys = [f"inferplan:{section}", *keys]
    for key in keys[:-1]:
        config = config[key]
    if typed:
        config[keys[-1]] = yaml.safe_load(typed)
    else:
        del config[keys[-1]]
    return tree


@pytest.mark.parametrize(
    ("stack", "path", "typed", "words"),
    MISTAKES,
    ids=[f"{path}={typed}" for _, path, typed, _ in MISTAKES],
)
def test_the_message_names_the_value_and_shows_the_correction(
    tmp_path, stack: str, path: str, typed: str, words: tuple[str, ...]
):
    file = tmp_path / f"Pulumi.{stack}.yaml"
    file.write_text(
        yaml.dump(mistaken(stack, path, typed), Dumper=yaml.CSafeDumper, sort_keys=False)
    )
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    lines = [line for line in error.value.lines if f" {path}" in line]
    assert lines, f"no error at {path}: {error.value.lines}"
    for word in words:
        assert word in lines[0], f"{word} is missing in: {lines[0]}"
    assert error.value.lines == tuple(lines), "one mistake causes no error elsewhere"


# What this release does not have: stack, path, what people typed, what they can write instead.
WISHES: list[tuple[str, str, tuple[str, ...], str]] = [
    ("prod", "cluster.region", ("us-gov-west-1", "cn-north-1", "eusc-de-east-1"), "existing"),
    ("prod", "nodePools.l40s.accelerator", ("trn1", "aws-trainium", "inferentia2"), "nvidia-l40s"),
    ("prod", "nodePools.l40s.accelerator", ("nvidia-gb200", "gb300"), "nvidia-b200"),
    (
        "prod",
        "nodePools.l40s.accelerator",
        ("MI325X", "mi355x", "amd", "mi250x", "rocm"),
        "amd-mi300x",
    ),
    ("prod", "nodePools.l40s.accelerator", ("tpu-v5e", "google-tpu"), "nvidia-l4"),
    ("prod", "nodePools.l40s.instanceTypes[0]", ("trn2.48xlarge", "inf2.48xlarge"), "nvidia-l40s"),
    ("prod", "nodePools.l40s.instanceTypes[0]", ("p6e-gb200.36xlarge",), "nvidia-b200"),
    ("prod", "nodePools.l40s.instanceTypes[0]", ("g4ad.4xlarge",), "g6e.4xlarge"),
    ("prod", "storage.weights.kind", ("lustre", "fsx-lustre"), "kind: fsx"),
    ("prod", "storage.weights.kind", ("weka", "beegfs"), "kind: pvc"),
    ("prod", "storage.weights.kind", ("gcs", "minio", "r2"), "kind: s3"),
    ("prod", "storage.weights.kind", ("azureBlob",), "kind: http"),
    ("prod", "storage.weights.kind", ("image", "modelcar"), "kind: oci"),
    ("prod", "cluster.provider", ("gke", "aks", "openshift", "k3s"), "provider: existing"),
    ("prod", "storage.weights.kind", ("mountpoint", "mountpoint-s3", "s3-csi"), "kind: pvc"),
    ("prod", "nodePools.l40s.provider", ("karpenter", "EC2NodeClass"), "nodes: autoMode"),
    ("prod", "cluster.create.nat", ("none", "disabled"), "cluster.subnets"),
    ("local", "cluster.provider", ("minikube", "kind"), "provider: existing"),
    ("local", f"{VLLM}.engine", ("tgi", "lmdeploy", "llama.cpp", "ollama"), "engine: vllm"),
    ("local", f"{VLLM}.engine", ("onnxruntime", "torchserve"), "engine: triton"),
]


@pytest.mark.parametrize(
    ("stack", "path", "typed", "instead"),
    [(stack, path, each, instead) for stack, path, all_, instead in WISHES for each in all_],
)
def test_what_is_not_supported_is_answered_with_what_is(
    tmp_path, stack: str, path: str, typed: str, instead: str
):
    field = path.removesuffix("[0]")
    file = tmp_path / f"Pulumi.{stack}.yaml"
    tree = mistaken(stack, field, json.dumps([typed] if field != path else typed))
    file.write_text(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    (line,) = [each for each in error.value.lines if f" {path}:" in each]
    assert f"{typed!r} is not supported." in line
    assert instead in line
    assert "Did you mean" not in line


# Fields that AWS users expect and this release does not have, and what they can do instead.
FIELDS: list[tuple[str, str, str]] = [
    ("nodePools.l40s.rootVolume.kmsKeyArn", "arn:aws:kms:us-east-1:111122223333:key/1", "ebs-default-kms"),
    ("cluster.create.kmsKeyArn", "arn:aws:kms:us-east-1:111122223333:key/1", "without create"),
    ("cluster.create.logKmsKeyArn", "arn:aws:kms:us-east-1:111122223333:key/1", "logGroup: existing"),
    ("cluster.create.ipFamily", "ipv6", "provider: existing"),
    ("cluster.rolePath", "/platform/", "permissionsBoundary"),
    ("nodePools.h100.capacityReservation.resourceGroupArn", "arn:aws:resource-groups:us-east-1:111122223333:group/h100", "each reservation"),
    ("cluster.create.secondaryCidrs", "[100.64.0.0/16]", "cluster.subnets"),
    ("cluster.customNetworking", "true", "cluster.subnets"),
    ("gateway.alb.wafAclArn", "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/x/1", "associate-web-acl"),
    ("gateway.hostedZoneId", "Z0123456789", "external-dns"),
    ("cluster.create.viewers", "[arn:aws:iam::111122223333:role/readers]", "AmazonEKSViewPolicy"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "typed", "instead"), FIELDS)
def test_a_field_that_is_not_supported_is_answered_with_the_way_round(
    tmp_path, path: str, typed: str, instead: str
):
    file = tmp_path / "Pulumi.prod.yaml"
    parent, _, key = path.rpartition(".")
    edit = (path, typed) if key != "kmsKeyArn" else (parent, json.dumps({key: typed}))
    if parent == "cluster.create":
        edit = (path, typed)
    tree = mistaken("prod", *edit)
    file.write_text(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    (line,) = [each for each in error.value.lines if f" {path}:" in each]
    assert f"{path.rpartition('.')[2]} is not supported." in line
    assert instead in line
    assert "Did you mean" not in line


# Valid, and yet probably not what the user meant: path, what was typed ("" removes the key), words
# of the warning.
SUSPICIONS: list[tuple[str, str, tuple[str, ...]]] = [
    (f"{VLLM}.consumers", "[]", ("No consumer",)),
    (f"{VLLM}.weights.size", "", ("size: 16Gi",)),
    (f"{VLLM}.weights.revision", "8afb486", ("'8afb486'", "40")),
    (
        f"{VLLM}.weights.path",
        "THUDM/chatglm3-6b",
        ("transformers 4.48 or older", "inferplan docs stories"),
    ),
]


def warnings_of(directory: Path, path: str, typed: str) -> list[str]:
    file = directory / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(mistaken("local", path, typed), sort_keys=False))
    parsed = read_stack(file)
    return list(advised(validate(parsed), parsed))


@pytest.mark.parametrize(
    ("path", "typed", "words"), SUSPICIONS, ids=[f"{path}={typed}" for path, typed, _ in SUSPICIONS]
)
def test_a_suspicious_value_is_named_with_its_line(
    tmp_path, path: str, typed: str, words: tuple[str, ...]
):
    [warning] = warnings_of(tmp_path, path, typed)
    assert re.search(rf"Pulumi\.local\.yaml:\d+:\d+: {re.escape(path)}: ", warning), warning
    for word in words:
        assert word in warning, f"{word} is missing in: {warning}"


@pytest.mark.parametrize(
    "typed",
    ["[--enforce-eager]", "['--compilation-config.mode=3']", "['--max_cpu_loras=2']", "[-O3]"],
)
def test_options_of_vllm_cause_no_warning(tmp_path, typed: str):
    assert warnings_of(tmp_path, f"{VLLM}.extraArgs", typed) == []


def test_errors_of_every_kind_appear_in_one_pass(tmp_path):
    tree = mistaken("local", f"{VLLM}.replicas", "two")
    config = tree["config"]
    llama, large = (config["inferplan:models"][name] for name in ("llama-3-8b", "llama-3-70b"))
    llama |= {"pool": "l40", "consumers": ["chatt"]}
    large |= {"tensorParallelSize": 16, "preheat": {"into": "nowhere"}}
    large["weights"]["store"] = "weigths"
    config["inferplan:storage"]["shared"]["capacity"] = "2TB"
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(file))
    assert [line.split(" ")[1].rstrip(":") for line in error.value.lines] == [
        "storage.shared.capacity",
        "models.llama-3-8b.pool",
        "models.llama-3-8b.replicas",
        "models.llama-3-8b.consumers[0]",
        "models.llama-3-70b.weights.store",
        "models.llama-3-70b.preheat.into",
        "models.llama-3-70b.tensorParallelSize",
    ]
