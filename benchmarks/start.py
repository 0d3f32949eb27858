"""Measures what a plan costs: `inferplan plan` and `validate`, the imports of an EKS stack, and checking a stack of 100 models."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Result, at_most, median_cost, run, unbounded
from benchmarks.registration import stack_of
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

LOCAL_SECONDS, PROD_SECONDS = 2.0, 3.0
IMPORT_RATIO = 5.5
MODELS, CHECK_MILLISECONDS = 100, 50
_PROGRAM = """import gc; gc.disable()
from inferplan.components.platforms.aws import lazy_sdk
lazy_sdk.install()
import inferplan.infra.compose, inferplan.stackfile.settings, inferplan.components.platforms.aws.platform
from inferplan.components.serving import spec, engine
"""
# The classes that stand for the modules a stack uses; attribute access loads them.
_ADOPTED = _PROGRAM + "from pulumi_aws import ec2, eks, iam; ec2.LaunchTemplate, eks.NodeGroup, iam.Role\n"
_CREATED = _ADOPTED + "from pulumi_aws import cloudwatch, efs, kms, s3; cloudwatch.LogGroup, efs.FileSystem, kms.Key, s3.Bucket\n"


def figures() -> Iterator[Result]:
    inferplan = str(Path(sys.executable).parent / "inferplan")
    base, base_processor = median_cost([sys.executable, "-c", "import pulumi"])
    yield unbounded("import pulumi", f"{base:.2f} s")
    yield at_most("inferplan plan local", median_cost([inferplan, "plan", "local"])[0], LOCAL_SECONDS, " s")
    yield unbounded("inferplan validate", f"{median_cost([inferplan, 'validate'])[0]:.2f} s")
    yield at_most("inferplan plan prod, processor time", median_cost([inferplan, "plan", "prod"])[1], PROD_SECONDS, " s")
    for name, code in (("adopted", _ADOPTED), ("created with buckets", _CREATED)):
        ratio = median_cost([sys.executable, "-c", code])[1] / base_processor
        yield at_most(f"imports of an EKS stack, {name}, relative to import pulumi", ratio, IMPORT_RATIO)
    yield at_most(f"checking {MODELS} models, processor time", checking_milliseconds(), CHECK_MILLISECONDS, " ms")


def checking_milliseconds(repeats: int = 9) -> float:
    """Processor time of reading and validating a stack of MODELS models, the best of several runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Pulumi.bench.yaml"
        path.write_text(stack_of(MODELS), encoding="utf-8")
        times = []
        for _ in range(repeats):
            began = time.process_time()
            validate(read_stack(path))
            times.append(time.process_time() - began)
    return min(times) * 1000


if __name__ == "__main__":
    run(figures, "benchmarks.start")
