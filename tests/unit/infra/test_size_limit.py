"""An object that the API server would not store is an error of the plan, before anything is
applied.
"""

import copy
from typing import cast

import pulumi
import pytest

from inferplan.components.size_limit import DATA_BYTES, REQUEST_BYTES, _check


def judge(type_: str, **props) -> None:
    owner = cast("pulumi.Resource", None)
    _check(
        pulumi.ResourceTransformationArgs(
            resource=owner, type_=type_, name="big", props=props, opts=pulumi.ResourceOptions()
        )
    )


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_a_holder_of_data_has_a_mebibyte(kind):
    judge(f"kubernetes:core/v1:{kind}", data={"a": "x" * (DATA_BYTES - 100)})
    with pytest.raises(pulumi.RunError, match=f"{kind} big has 1.00 MiB, .* stores 1 MiB at most"):
        judge(f"kubernetes:core/v1:{kind}", data={"a": "x" * DATA_BYTES})


def test_letters_count_as_bytes():
    with pytest.raises(pulumi.RunError):
        judge("kubernetes:core/v1:ConfigMap", data={"a": "ä" * (DATA_BYTES // 2)})


def test_other_objects_have_what_etcd_takes():
    spec = {"containers": [{"args": ["x" * (REQUEST_BYTES - 100)]}]}
    judge("kubernetes:apps/v1:Deployment", spec=spec)
    large = copy.deepcopy(spec)
    large["containers"][0]["args"].append("x" * 200)
    with pytest.raises(pulumi.RunError, match=r"stores 1.5 MiB at most"):
        judge("kubernetes:apps/v1:Deployment", spec=large)


def test_aws_resources_have_limits_of_their_own():
    judge("aws:s3/bucketObject:BucketObject", content="x" * REQUEST_BYTES * 2)
