"""Stacks on AWS under Pulumi's own engine: a stub of AWS as provider, and a real API server as the
cluster of EKS.

Nodes come and go with their node groups, and a controller stands in for the one that makes load
balancers: it lets an Ingress go only while there are nodes for it to run on, as the real one does.
So a destroy in the wrong order would hang, or be refused.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from inferplan.kube.api import ApiError, admin_token
from inferplan.progress import silent
from inferplan.rehearsal.cluster import Cluster, delete, start
from inferplan.rehearsal.cluster.definitions import installer
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.simulated_nodes import simulated_objects
from tests.engine.aws_stub import AwsStub, serving
from tests.engine.own_project import own_project, reseal
from tests.engine.requirement import needs_pulumi
from tests.engine.test_real_engine import ROOT, run
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

GROUP = "aws:eks/nodeGroup:NodeGroup"
# What the controller on the nodes reaches AWS by.
ROUTES = (
    "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/routeTable:RouteTable",
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
)
# What EKS Auto Mode adds and removes nodes by, inside the cluster.
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
CLEANUP = "ingress.k8s.aws/resources"
INGRESSES = "/apis/networking.k8s.io/v1/ingresses"
POOL = "inferplan.dev/pool"


class Platform:
    """The parts of EKS that a stack meets: nodes of its groups, and a controller that makes load
    balancers.
    """

    def __init__(self, aws: AwsStub, cluster: Cluster, stack: str) -> None:
        self.api = cluster.api()
        self._aws = aws
        settings = validate(read_stack(ROOT / "stacks" / f"Pulumi.{stack}.yaml"))
        self._nodes = [each for each in simulated_objects(settings) if each["kind"] == "Node"]
        self._groups: dict[str, int] = {}
        self._lock = threading.Lock()
        authority = base64.b64encode((cluster.pki / "ca.crt").read_bytes()).decode()
        found = {"endpoint": cluster.server}
        aws.answers["aws:eks/cluster:Cluster"] = {
            **found,
            "certificateAuthority": {"data": authority},
        }
        aws.answers["aws:eks/getCluster:getCluster"] = {
            **found,
            "certificateAuthorities": [{"data": authority}],
        }
        aws.on_create, aws.before_delete = self._joined, self._leaving
        for group in ("karpenter.sh", "eks.amazonaws.com"):
            assert installer(cluster, silent)(group)
        # Nodes of no pool are an adopted cluster's own.
        for node in (each for each in self._nodes if POOL not in each["metadata"]["labels"]):
            self.api.request("POST", "/api/v1/nodes", body=node)

    def nodes(self) -> list[str]:
        return [
            each["metadata"]["name"] for each in self.api.request("GET", "/api/v1/nodes")["items"]
        ]

    def _joined(self, type_: str, inputs: Mapping[str, Any]) -> None:
        if type_ != GROUP:
            return
        for node in self._counted(inputs["labels"][POOL], 1, at=1):
            self.api.request("POST", "/api/v1/nodes", body=node)

    def _leaving(self, type_: str, inputs: Mapping[str, Any]) -> None:
        if type_ != GROUP:
            return
        left = self.api.request("GET", INGRESSES)["items"]
        assert not left, "a load balancer would be left behind: its Ingress outlives the nodes"
        for node in self._counted(inputs["labels"][POOL], -1, at=0):
            self.api.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")

    def _counted(self, pool: str, change: int, *, at: int) -> list[dict[str, Any]]:
        """The nodes of `pool` where it now has `at` groups: they come with the first and go with
        the last.
        """
        with self._lock:
            self._groups[pool] = now = self._groups.get(pool, 0) + change
        return (
            [node for node in self._nodes if node["metadata"]["labels"].get(POOL) == pool]
            if now == at
            else []
        )

    @contextmanager
    def auto_mode(self) -> Iterator[None]:
        """Adds the nodes of a pool with its first NodePool, and removes them with its last."""
        with self._watched(NODE_POOLS, self._scale):
            yield

    def _scale(self, watch: Any) -> None:
        for kind, live in watch:
            if kind not in ("ADDED", "DELETED"):
                continue
            labels = {POOL: live["spec"]["template"]["metadata"]["labels"][POOL]}
            if kind == "ADDED":
                self._aws.note("create", "NodePool", live["metadata"]["name"])
                self._joined(GROUP, {"labels": labels})
            else:
                self._leaving(GROUP, {"labels": labels})
                self._aws.note("delete", "NodePool", live["metadata"]["name"])

    def _listed(self, path: str) -> Any:
        """The list at `path`; the API server answers 429 while it fills the cache of a new kind,
        and says so by no event.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.api.request("GET", path)
            except ApiError as refusal:
                if refusal.reason != "TooManyRequests" or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    @contextmanager
    def _watched(self, path: str, reconcile: Any) -> Iterator[None]:
        watch = self.api.watch(
            path, {"resourceVersion": self._listed(path)["metadata"]["resourceVersion"]}
        )
        thread = threading.Thread(target=reconcile, args=(watch,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            watch.close()
            thread.join(10)

    @contextmanager
    def controller(self) -> Iterator[None]:
        """Claims every Ingress, and cleans up after one that is being deleted."""
        with self._watched(INGRESSES, self._reconcile):
            yield

    def _reconcile(self, watch: Any) -> None:
        for kind, live in watch:
            if kind not in ("ADDED", "MODIFIED"):
                continue
            meta = live["metadata"]
            claimed = CLEANUP in meta.get("finalizers", ())
            if claimed == (meta.get("deletionTimestamp") is None) or (claimed and not self.nodes()):
                continue
            path = f"/apis/networking.k8s.io/v1/namespaces/{meta['namespace']}/ingresses/{meta['name']}"
            body = {"metadata": {"finalizers": [] if claimed else [CLEANUP]}}
            try:
                self.api.request("PATCH", path, body=body, media="application/merge-patch+json")
            except ApiError as refusal:
                if refusal.reason != "NotFound":
                    raise
            self._aws.note("delete" if claimed else "create", "load balancer", meta["name"])


@pytest.fixture
def aws() -> AwsStub:
    return AwsStub(version("pulumi-aws"))


@pytest.fixture
def place(aws, tmp_path_factory, request):
    """The environment in which `pulumi` finds the AWS stub and, by `aws eks get-token`, its
    cluster.
    """
    stack = request.param
    directory = tmp_path_factory.mktemp("aws")
    for folder in ("state", "backend", "bin"):
        (directory / folder).mkdir()
    with pytest.MonkeyPatch.context() as patch, serving(aws) as attached:
        patch.setenv("INFERPLAN_STATE_DIR", str(directory / "state"))
        cluster = start(stack)
        _credential(directory / "bin" / "aws", cluster)
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("AWS_")
        }
        environment |= {
            **attached,
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": (directory / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "of this run",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        platform = Platform(aws, cluster, stack)
        project = own_project(directory)
        reseal(project, stack, environment["PULUMI_CONFIG_PASSPHRASE"])
        run(environment, "pulumi", "stack", "select", "--create", stack, cwd=project)
        with platform.controller(), platform.auto_mode():
            yield stack, environment, platform, project
        platform.api.close()
        delete(stack)


def _credential(program: Path, cluster: Cluster) -> None:
    """An `aws` that hands out the token of the simulated cluster's administrator, in the form that
    `aws eks get-token` answers in.
    """
    status = {"token": admin_token(cluster.pki)}
    answer = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {},
        "status": status,
    }
    answered = program.with_suffix(".json")
    answered.touch(mode=0o600)
    answered.write_text(json.dumps(answer))
    program.write_text(f"#!{sys.executable}\nprint(open({str(answered)!r}).read())\n")
    program.chmod(0o700)


def pulumi(place: Any, *arguments: str, check: bool = True) -> str:
    stack, environment, _, project = place
    done = run(
        environment,
        "pulumi",
        *arguments,
        "--stack",
        stack,
        "--non-interactive",
        check=check,
        cwd=project,
    )
    return done.stdout + done.stderr


def left_in(place: Any) -> set[str]:
    """Types of the resources of AWS that the stack's state still has."""
    resources = json.loads(pulumi(place, "stack", "export"))["deployment"].get("resources", [])
    return {each["type"] for each in resources if each["type"].startswith("aws:")}


def first(log: list[tuple[str, str, str]], verb: str, *types: str) -> int:
    return min(
        index for index, (done, type_, _) in enumerate(log) if done == verb and type_ in types
    )


def last(log: list[tuple[str, str, str]], verb: str, *types: str) -> int:
    return max(
        index for index, (done, type_, _) in enumerate(log) if done == verb and type_ in types
    )


@pytest.mark.parametrize("place", ["staging"], indirect=True)
@pytest.mark.full
def test_a_stack_comes_up_settles_and_goes_in_order(place, aws):
    pulumi(place, "up", "--yes", "--skip-preview")
    assert last(aws.log, "create", "aws:ec2/routeTableAssociation:RouteTableAssociation") < first(
        aws.log, "create", "NodePool"
    )
    aws.answers["aws:index/getCallerIdentity:getCallerIdentity"] = {
        "arn": "arn:aws:sts::210987654321:assumed-role/ci/run-17"
    }
    assert "Add arn:aws:iam::210987654321:role/ci" in pulumi(
        place, "preview", "--expect-no-changes"
    )
    aws.log.clear()
    told = pulumi(place, "destroy", "--yes", "--skip-preview")
    _, _, platform, _ = place
    gateway = told.index("kubernetes:apps/v1:Deployment gateway deleting")
    for model in ("llama-3-8b", "qwen-3-8b"):
        assert told.index(f"kubernetes:apps/v1:Deployment {model} deleted") < gateway
    assert left_in(place) == set()
    assert platform.nodes() == []
    assert last(aws.log, "delete", "load balancer") < first(aws.log, "delete", "NodePool")
    assert last(aws.log, "delete", "NodePool") < first(aws.log, "delete", *ROUTES)
    assert last(aws.log, "delete", "load balancer") < first(
        aws.log, "delete", "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    )
    assert last(aws.log, "delete", "NodePool") < first(aws.log, "delete", "aws:eks/cluster:Cluster")
    assert last(aws.log, "delete", "aws:eks/cluster:Cluster") < first(
        aws.log, "delete", "aws:ec2/vpc:Vpc"
    )


@pytest.mark.full
@pytest.mark.parametrize("place", ["prod"], indirect=True)
def test_what_is_protected_stays_with_its_walls_and_the_rest_goes(place, aws):
    pulumi(place, "up", "--yes", "--skip-preview")
    pulumi(place, "preview", "--expect-no-changes")
    aws.log.clear()
    # Only the preview refuses: without one Pulumi deletes all else before it comes to what is
    # protected.
    refused = pulumi(place, "destroy", "--yes", check=False)
    assert "protected" in refused
    assert not [each for each in aws.log if each[0] == "delete"], (
        "a refused destroy must delete nothing"
    )
    pulumi(place, "destroy", "--yes", "--skip-preview", "--exclude-protected")
    left = left_in(place)
    assert {
        "aws:s3/bucket:Bucket",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    } <= left
    assert {
        "aws:efs/fileSystem:FileSystem",
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "aws:eks/cluster:Cluster",
    } <= left
    assert GROUP not in left
    deleted = {type_ for verb, type_, _ in aws.log if verb == "delete"}
    assert (
        deleted
        & {
            "aws:s3/bucket:Bucket",
            "aws:efs/fileSystem:FileSystem",
            "aws:kms/key:Key",
            "aws:eks/cluster:Cluster",
        }
        == set()
    )
    # Bringing it up again finds everything that was kept.
    pulumi(place, "up", "--yes", "--skip-preview")
    pulumi(place, "preview", "--expect-no-changes")


@pytest.mark.full
@pytest.mark.parametrize("place", ["dev"], indirect=True)
def test_an_adopted_cluster_is_found_left_as_it_is_and_missed_by_its_key(place, aws):
    pulumi(place, "up", "--yes", "--skip-preview")
    pulumi(place, "preview", "--expect-no-changes")
    assert {type_ for _, type_, _ in aws.log if type_.startswith("aws:eks/")} == {
        GROUP,
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
    }
    aws.missing.add("aws:eks/getCluster:getCluster")
    told = pulumi(place, "preview", check=False)
    assert "cluster.name: 'shared-dev' was not found" in told
    assert "couldn't find resource" in told
    assert "Traceback" not in told
    aws.missing.symmetric_difference_update(
        {"aws:eks/getCluster:getCluster", "aws:s3/getBucket:getBucket"}
    )
    told = pulumi(place, "preview", check=False)
    assert "storage.weights.bucket: 'ours-inference-dev-weights' was not found" in told
    assert "Traceback" not in told
