from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.kube.names import vendor_of
from inferplan.kube.pod_templates import PATHS, RUN_TO_END

ROOT = Path(__file__).parents[3]
ROOMS = (
    "client",
    "commands",
    "components",
    "infra",
    "planning",
    "policies",
    "pulumi_engine",
    "rehearsal",
    "review",
    "stackfile",
    "status",
    "updating",
    "workspace",
)


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("nvidia.com/gpu", "nvidia"),
        ("nvidia.com/mig-1g.10gb", "nvidia"),
        ("habana.ai/gaudi", "habana"),
        ("nvidia.com/hostdev", ""),
        ("vpc.amazonaws.com/efa", ""),
        ("cpu", ""),
    ],
)
def test_only_accelerators_have_a_vendor(resource, vendor):
    assert vendor_of(resource) == vendor


def test_every_kind_of_batch_job_has_a_pod_template():
    assert PATHS.keys() >= RUN_TO_END
    assert PATHS["kubernetes:ray.io:RayService"][1] == (
        "spec",
        "rayClusterConfig",
        "workerGroupSpecs",
        "*",
        "template",
    )


@pytest.mark.parametrize(
    "text",
    [
        "4dabf18193072939515e22adb298388d",
        "1b47061264138c4ac30d75fd1eb44270",
        '"kueue.x-k8s.io/queue-name"',
        '"inferplan.dev/pool"',
        '"hugepages-2Mi"',
        '"kwok.x-k8s.io/node"',
    ],
)
def test_a_shared_name_is_written_in_no_other_room(text):
    files = (path for room in ROOMS for path in (ROOT / "inferplan" / room).rglob("*.py"))
    assert [str(path) for path in files if text in path.read_text(encoding="utf-8")] == []
