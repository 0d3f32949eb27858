"""Measures what AWS costs at the start: importing what each example stack on EKS uses, and planning prod, against `import pulumi`.

It measures processor time of child processes, so that a busy machine does not count.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.ending import ended

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
PLAN_SECONDS = 3.0
IMPORT_RATIO = 5.5
# The classes that stand for the modules a stack touches; attribute access is what loads them.
ADOPTED = "from pulumi_aws import ec2, eks, iam; ec2.LaunchTemplate, eks.NodeGroup, iam.Role"
CREATED = ADOPTED + "\nfrom pulumi_aws import cloudwatch, efs, kms, s3; cloudwatch.LogGroup, efs.FileSystem, kms.Key, s3.Bucket"
PROGRAM = "from components.platforms.aws import lazy_sdk\nlazy_sdk.install()\nimport infra.compose, stackfile.settings, components.platforms.aws.platform\nfrom components.serving import spec, engine"


def processor_seconds(command: list[str]) -> float:
    """Median processor seconds of `command` over RUNS runs after one to warm up."""
    environment = {**os.environ, "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
    taken = []
    for _ in range(RUNS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken[1:])


def main() -> bool:
    """Prints the medians; whether they are within their budgets."""

    def python(code: str) -> float:
        return processor_seconds([sys.executable, "-c", code])

    base = python("import pulumi")
    print(f"  import pulumi: {base:.2f} s")
    adopted = python(f"import gc; gc.disable()\n{PROGRAM}\n{ADOPTED}")
    created = python(f"import gc; gc.disable()\n{PROGRAM}\n{CREATED}")
    plan = processor_seconds([str(Path(sys.executable).parent / "inferplan"), "plan", "prod"])
    print(
        f"  imports of an EKS stack: {adopted / base:.1f} x adopted, {created / base:.1f} x created with buckets (budget {IMPORT_RATIO} x)"
    )
    print(f"  inferplan plan prod: {plan:.2f} s of processor time (budget {PLAN_SECONDS} s)")
    return max(adopted, created) / base <= IMPORT_RATIO and plan <= PLAN_SECONDS


if __name__ == "__main__":
    sys.exit(ended(lambda: 0 if main() else 1, "benchmarks.aws_start"))
