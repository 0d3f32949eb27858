"""Labels, annotations, resources and their vendors: names on which several rooms agree."""

import hashlib
import re
from collections.abc import Container
from itertools import count

DOMAIN = "inferplan.dev"
POOL_LABEL = f"{DOMAIN}/pool"
ISSUED = f"{DOMAIN}/issued"
"""Annotation: the date of a key."""
MODEL_SIZE = f"{DOMAIN}/model-size"
"""Annotation: the bytes that a server loads when it starts."""
MODEL_REVISION = f"{DOMAIN}/model-revision"
"""Annotation: the revision of the weights that a server reads from their store itself, so that
another one restarts it.
"""
MONTHLY_BUDGET = f"{DOMAIN}/monthly-budget-usd"
SERVER_KEY = f"{DOMAIN}/server-key"
"""Annotation: a digest of the key between gateway and model server."""
GATEWAY_KEYS = f"{DOMAIN}/keys"
"""Annotation: a digest of the keys that the gateway accepts."""
SECRET_DIGESTS = (SERVER_KEY, GATEWAY_KEYS)

COMPONENT_LABEL = "app.kubernetes.io/component"
INSTANCE_LABEL = "app.kubernetes.io/instance"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
PART_OF_LABEL = "app.kubernetes.io/part-of"
HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"

POOL_LABELS = (
    POOL_LABEL,
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
)
"""Labels that name the pool of a node, the most specific first."""

KUEUE_API = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
KUEUE_GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate of a pod that Kueue has not admitted."""

HUGEPAGES = "hugepages-2Mi"
EPHEMERAL_STORAGE = "ephemeral-storage"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
"""The resource of the EFA device plugin: one per EFA interface of a node."""
IDENTITY_POLICY = "inferplan-pack"
"""The policy by which our policy pack states its version, rules and content. Pulumi's engine tells
only the version.
"""
PRETEND = "pretend-"
"""Start of the names of resources that a rehearsal adds for what exists where the stack really
runs.
"""
REHEARSED_VOLUMES = "/var/lib/inferplan"
"""Directory on nodes with the volumes that stand for those of provisioners and shares in a
rehearsal; only a real node has it.
"""
STUB_IMAGES = "inferplan.dev/stub-images"
"""Annotation of a rehearsal's real node: the images that stubs stand for, with spaces between."""
FAKE_NODE = "kwok.x-k8s.io/node"
"""Annotation of a fake node, which has no kubelet."""

RESOURCE_VENDORS = {
    "nvidia.com/gpu": "nvidia",
    "nvidia.com/gpu.shared": "nvidia",
    "habana.ai/gaudi": "habana",
    "amd.com/gpu": "amd",
    "aws.amazon.com/neuron": "aws",
    "aws.amazon.com/neuroncore": "aws",
    "aws.amazon.com/neurondevice": "aws",
    "google.com/tpu": "google",
    "gpu.intel.com/i915": "intel",
    "gpu.intel.com/xe": "intel",
}
MIG_PREFIX = "nvidia.com/mig-"
"""Start of the names of NVIDIA's slices, such as `nvidia.com/mig-1g.10gb`."""
SYSTEM_FOLDERS = frozenset(
    [
        *("bin", "boot", "dev", "etc", "home", "lib", "lib64"),
        *("proc", "root", "run", "sbin", "sys", "tmp", "usr"),
    ]
)
"""Folders of the root with files of the operating system, or of its users."""


def vendor_of(resource: str) -> str:
    """Return the vendor of a resource that counts accelerators, "" for any other resource."""
    return RESOURCE_VENDORS.get(resource) or ("nvidia" if resource.startswith(MIG_PREFIX) else "")


def label_of(text: str, longest: int = 40) -> str:
    """Return `text` as a part of a name: lower-case letters, digits and hyphens; "" if it has none
    of them.
    """
    return re.sub(r"[^a-z0-9-]+", "-", text.lower())[:longest].strip("-")


def cluster_of(project: str, stack: str) -> str:
    """Return the name of the simulated cluster of `stack`, which no other project shares; the
    project inferplan uses the stack's name alone.
    """
    if project == "inferplan":
        return stack
    short = label_of(project, 24)
    return f"{short if short == project else f'{short}-{hashlib.sha256(project.encode()).hexdigest()[:8]}'.strip('-')}.{stack}"


def free_name(name: str, taken: Container[str]) -> str:
    """Return `name`, with a number if it is `taken`."""
    return (
        name
        if name not in taken
        else next(each for each in (f"{name}-{number}" for number in count(2)) if each not in taken)
    )
