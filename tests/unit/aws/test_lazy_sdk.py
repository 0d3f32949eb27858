"""A stack's AWS resources come from the same classes as ever, and from few files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = (
    "import sys\nfrom inferplan.components.platforms.aws import lazy_sdk\nlazy_sdk.install()\nfrom"
    " pulumi_aws import cloudwatch, ec2, efs, eks, iam, kms, s3\n"
)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_a_stack_loads_a_few_files_of_a_service_and_not_all_of_them():
    code = (
        INSTALLED
        + "ec2.LaunchTemplate, ec2.Vpc, ec2.LaunchTemplatePlacementArgs, eks.GetClusterResult,"
        " iam.Role\n"
    )
    loaded = int(
        run(
            code + "print(len([name for name in sys.modules if name.startswith(('pulumi_aws.ec2.',"
            " 'pulumi_aws.iam.'))]))"
        )
    )
    assert 0 < loaded < 15


def test_every_name_is_what_an_ordinary_import_gives():
    # Asking for a name that no file is called by loads the whole package in place; each class must
    # be the one that was there before.
    code = (
        INSTALLED
        + "asked = {(package, name): getattr(package, name) for package, names in {\n    ec2:"
        " 'LaunchTemplate LaunchTemplateArgs LaunchTemplatePlacementArgs Vpc VpcEndpoint Eip"
        " NatGateway DefaultSecurityGroup',\n    eks: 'Cluster NodeGroup GetClusterResult"
        " get_cluster AwaitableGetClusterResult PodIdentityAssociation',\n    s3: 'Bucket"
        " BucketServerSideEncryptionConfiguration BucketPolicy', iam: 'Role"
        " OpenIdConnectProvider', kms: 'Key',\n    efs: 'FileSystem MountTarget', cloudwatch:"
        " 'LogGroup'}.items() for name in names.split()}\nfor package, name in asked:\n    assert"
        " not hasattr(package, 'NoSuchResource')\n    assert name in package.__dict__ and"
        " package.__dict__[name] is asked[package, name], name\nassert"
        " callable(eks.get_cluster)\nassert ec2.Instance.__module__ == 'pulumi_aws.ec2.instance'"
        " and ec2.outputs.__name__ == 'pulumi_aws.ec2.outputs'\nprint(len(asked))"
    )
    assert run(code) == "23"


def test_a_name_that_does_not_exist_is_refused_as_any_module_refuses_it():
    code = INSTALLED + "try: ec2.NoSuchResource\nexcept AttributeError as error: print(error)"
    assert run(code) == "module 'pulumi_aws.ec2' has no attribute 'NoSuchResource'"


def test_a_package_that_is_loaded_already_stays():
    code = (
        "import pulumi_aws\nbefore = pulumi_aws.kms\nbefore.Key\nfrom"
        " inferplan.components.platforms.aws import lazy_sdk\nlazy_sdk.install()\n"
    )
    assert run(code + "import sys\nprint(sys.modules['pulumi_aws.kms'] is before)") == "True"


@pytest.mark.full
def test_a_plan_is_the_same_to_the_byte_with_whole_packages(tmp_path):
    code = (
        "import sys\nfrom inferplan.components.platforms.aws import lazy_sdk\nif sys.argv[1] =="
        " 'whole': lazy_sdk.install = lambda: None\nfrom inferplan.commands.main import"
        " run\nrun(['plan', 'prod', '--save', sys.argv[2]])"
    )
    plans = []
    for kind in ("lean", "whole"):
        saved = tmp_path / kind
        environment = {**os.environ, "PULUMI_CONFIG_PASSPHRASE": "inferplan-example"}
        subprocess.run(
            [sys.executable, "-c", code, kind, str(saved)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=True,
        )
        plans.append(saved.read_bytes())
    assert plans[0] == plans[1]
