"""Measures what a plan costs: `inferplan plan`, `validate` and `--help`, the imports of an EKS
stack, and checking a stack of 100 models.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import yaml

from benchmarks.measuring import Result, at_most, costs_in_turns, median_ratio, timed, unbounded
from benchmarks.registration import stack_of
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

LOCAL_RATIO, PROD_RATIO, IMPORT_RATIO = 1.6, 2.6, 5.5
# 0.2 s and 0.1 s of the processor where `import pulumi` takes 0.21 s.
VALIDATE_RATIO, HELP_RATIO = 0.95, 0.5
MODELS, CHECK_RATIO = 100, 1.5
_REPEATS = 9
_SDK = (
    "import pulumi; from pulumi_kubernetes import apps, batch, core, networking; apps.v1,"
    " batch.v1.Job, core.v1.Pod, networking.v1.Ingress"
)
_PROGRAM = """import gc; gc.disable()
from inferplan.components.platforms.aws import lazy_sdk
lazy_sdk.install()
import inferplan.infra.compose, inferplan.stackfile.settings, inferplan.components.platforms.aws.platform
from inferplan.components.serving import spec, engine
"""
# The classes that stand for the modules a stack uses; attribute access loads them.
_ADOPTED = (
    _PROGRAM + "from pulumi_aws import ec2, eks, iam; ec2.LaunchTemplate, eks.NodeGroup, iam.Role\n"
)
_CREATED = (
    _ADOPTED
    + "from pulumi_aws import cloudwatch, efs, kms, s3; cloudwatch.LogGroup, efs.FileSystem,"
    " kms.Key, s3.Bucket\n"
)


def figures() -> Iterator[Result]:
    inferplan = str(Path(sys.executable).parent / "inferplan")
    python = [sys.executable, "-c"]
    measured = costs_in_turns(
        [*python, _SDK],
        [inferplan, "plan", "local"],
        [inferplan, "plan", "prod"],
        [*python, "import pulumi"],
        [*python, _ADOPTED],
        [*python, _CREATED],
        [inferplan, "validate", "local"],
        [inferplan, "--help"],
    )
    sdk, local, prod, pulumi, adopted, created, checked, texts = (
        [processor for _, processor in each] for each in measured
    )
    means = f"{median(pulumi):.2f} s, {median(sdk):.2f} s"
    yield unbounded(
        "import pulumi, and with the Kubernetes SDK's apps, batch, core and networking", means
    )
    for name, costs, bound in (
        ("validate local", checked, VALIDATE_RATIO),
        ("--help", texts, HELP_RATIO),
    ):
        yield unbounded(f"inferplan {name}", f"{median(costs):.2f} s of processor time")
        ratio = median_ratio(costs, pulumi)
        yield at_most(f"inferplan {name}, relative to import pulumi", ratio, bound)
    yield at_most(
        "inferplan plan local, relative to importing the SDK", median_ratio(local, sdk), LOCAL_RATIO
    )
    yield at_most(
        "inferplan plan prod, relative to importing the SDK", median_ratio(prod, sdk), PROD_RATIO
    )
    for name, costs in (("adopted", adopted), ("created with buckets", created)):
        yield at_most(
            f"imports of an EKS stack, {name}, relative to import pulumi",
            median_ratio(costs, pulumi),
            IMPORT_RATIO,
        )
    yield at_most(
        f"reading and checking {MODELS} models, relative to yaml.safe_load of their file",
        checking_ratio(),
        CHECK_RATIO,
    )


def checking_ratio() -> float:
    """Processor time of reading and validating a stack of MODELS models, relative to PyYAML's, the
    best of several runs of each.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Pulumi.bench.yaml"
        path.write_text(stack_of(MODELS), encoding="utf-8")
        ours = [
            timed(lambda: validate(read_stack(path)), time.process_time) for _ in range(_REPEATS)
        ]
        theirs = [
            timed(lambda: yaml.safe_load(path.read_text(encoding="utf-8")), time.process_time)
            for _ in range(_REPEATS)
        ]
    return min(ours) / min(theirs)
