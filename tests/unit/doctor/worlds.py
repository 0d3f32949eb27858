"""An account with a VPC, an EKS cluster, a file system and a bucket, of which a test breaks one
thing. EKS answers in botocore's shapes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.aws.checks import AWS_CHECKS
from inferplan.commands.doctor.findings import Finding, Severity, run_checks
from inferplan.components.platforms.aws.credentials import AwsError
from inferplan.stackfile.checks import check
from tests.unit.aws.rig import settings
from tests.unit.doctor.aws_account import ROLE, Account

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
ISSUER = "https://oidc.eks.us-east-1.amazonaws.com/id/0123456789ABCDEF"
STANDARD = datetime(2027, 3, 1, tzinfo=UTC)
RELEASES = [
    ("1.36", "STANDARD_SUPPORT"),
    ("1.35", "STANDARD_SUPPORT"),
    ("1.34", "STANDARD_SUPPORT"),
    ("1.33", "EXTENDED_SUPPORT"),
    ("1.32", "UNSUPPORTED"),
]
TAGS = [{"Key": "kubernetes.io/cluster/shared", "Value": "owned"}]


class Recorded:
    """A stack of which only `resources` count."""

    stack = "test"

    def __init__(self, resources: Iterable[Any] = ()) -> None:
        self.resources = list(resources)

    def __iter__(self) -> Any:
        return iter(self.resources)


class Shared(Account):
    """The account: three private subnets behind a NAT gateway, one public subnet, and the cluster
    `shared` in all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.vpc = self.ask("ec2", "create_vpc", CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
        self.ask("ec2", "modify_vpc_attribute", VpcId=self.vpc, EnableDnsHostnames={"Value": True})
        self.internet = self.ask("ec2", "create_internet_gateway")["InternetGateway"][
            "InternetGatewayId"
        ]
        self.ask("ec2", "attach_internet_gateway", InternetGatewayId=self.internet, VpcId=self.vpc)
        self.public = self.subnet("10.1.100.0/24", "us-east-1a")
        self.open_table = self.table(self.public, GatewayId=self.internet)
        address = self.ask("ec2", "allocate_address", Domain="vpc")["AllocationId"]
        nat = self.ask("ec2", "create_nat_gateway", SubnetId=self.public, AllocationId=address)[
            "NatGateway"
        ]["NatGatewayId"]
        self.private = {
            zone: self.subnet(f"10.1.{index}.0/24", zone) for index, zone in enumerate(ZONES)
        }
        self.closed_table = ""
        for each in self.private.values():
            self.closed_table = self.table(each, NatGatewayId=nat)
        # New subnets get the main table, with the same way out.
        [main] = [
            table["RouteTableId"] for table in self.ask("ec2", "describe_route_tables", Filters=[{"Name": "vpc-id", "Values": [self.vpc]}])["RouteTables"]
            if any(each.get("Main") for each in table["Associations"])
        ]  # fmt: skip
        self.ask(
            "ec2",
            "create_route",
            RouteTableId=main,
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId=nat,
        )
        self.primary = self.group("primary", itself=True)
        self.addons = {
            "eks-pod-identity-agent",
            "aws-efs-csi-driver",
            "vpc-cni",
            "kube-proxy",
            "coredns",
        }
        self.registered: Callable[[], list[Any]] = list
        self.addon_rows: dict[str, dict[str, Any]] = {}
        self.releases = dict(RELEASES)
        self.cluster: dict[str, Any] = {
            "name": "shared", "arn": "arn:aws:eks:us-east-1:111122223333:cluster/shared", "status": "ACTIVE", "version": "1.34",
            "roleArn": ROLE, "identity": {"oidc": {"issuer": ISSUER}}, "upgradePolicy": {"supportType": "STANDARD"},
            "resourcesVpcConfig": {
                "vpcId": self.vpc, "subnetIds": [*self.private.values(), self.public], "clusterSecurityGroupId": self.primary,
                "endpointPrivateAccess": True, "endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0"],
            },
        }  # fmt: skip
        self.answers |= {
            "describe_cluster": self._describe_cluster,
            "describe_addon": self._describe_addon,
            "create_addon": self._create_addon,
            "update_addon": self._create_addon,
            "delete_addon": lambda **call: self.addons.discard(call["addonName"]) or {},
            "list_nodegroups": {"nodegroups": []},
            "list_clusters": lambda **_: {"clusters": [self.cluster["name"]]},
            "wait_cluster_active": lambda **_: self.cluster.update(status="ACTIVE"),
            "update_cluster_config": lambda **call: self.cluster["resourcesVpcConfig"].update(call["resourcesVpcConfig"]) or {},
            "update_cluster_version": lambda **call: self.cluster.update(version=call["version"]) or {},
            "describe_cluster_versions": lambda **_: {
                "clusterVersions": [{"clusterVersion": version, "versionStatus": status, "endOfStandardSupportDate": STANDARD} for version, status in self.releases.items()]
            },
        }  # fmt: skip
        self.offered |= {
            each: list(ZONES) for each in ("m7i.large", "m7i.xlarge", "m7i.2xlarge", "m7i.4xlarge")
        }
        self.answers["request_service_quota_increase"] = self._grant
        self.system = self.ask("efs", "create_file_system", CreationToken="models")["FileSystemId"]
        self.point = self.ask(
            "efs", "create_access_point", FileSystemId=self.system, ClientToken="models"
        )["AccessPointId"]
        self.nfs = self.group("nfs")
        self.admit(self.nfs, self.primary, 2049)
        self.targets = {
            zone: self.target(self.system, subnet, self.nfs)
            for zone, subnet in self.private.items()
        }
        self.ask("s3", "create_bucket", Bucket="acme-weights")
        efs = {
            "kind": "efs",
            "fileSystemId": self.system,
            "accessPointId": self.point,
            "openTo": "cluster",
        }
        self.config: dict[str, Any] = {
            "cluster": {"provider": "eks", "name": "shared", "region": "us-east-1", "subnets": dict(self.private)},
            "nodePools": {"system": {"provider": "eks", "size": {"min": 2, "max": 3}}},
            "storage": {"weights": {"kind": "s3", "bucket": "acme-weights", "prefix": "llm"}, "shared": {key: value for key, value in efs.items() if key != "openTo"}},
        }  # fmt: skip

    def _describe_cluster(self, name: str) -> dict[str, Any]:
        if name != self.cluster["name"]:
            raise AwsError("no cluster", "ResourceNotFoundException")
        return {"cluster": copy.deepcopy(self.cluster)}

    def _describe_addon(self, clusterName: str, addonName: str) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        if addonName not in self.addons:
            raise AwsError("no add-on", "ResourceNotFoundException")
        return {
            "addon": {
                "addonName": addonName,
                "clusterName": clusterName,
                "status": "ACTIVE",
                **self.addon_rows.get(addonName, {}),
            }
        }

    def _create_addon(self, **call: Any) -> dict[str, Any]:
        self.addons.add(call["addonName"])
        row = {key: call[key] for key in ("configurationValues", "addonVersion") if key in call}
        self.addon_rows[call["addonName"]] = row
        return {}

    def _grant(self, ServiceCode: str, QuotaCode: str, DesiredValue: float) -> dict[str, Any]:  # noqa: N803 - the API's spelling
        """AWS agrees at once, which in a real account takes minutes to days."""
        quotas = self.ask("service-quotas", "list_service_quotas", ServiceCode=ServiceCode)[
            "Quotas"
        ]
        self.quotas[
            next(each["QuotaName"] for each in quotas if each["QuotaCode"] == QuotaCode)
        ] = int(DesiredValue)
        return {}

    def created(self) -> None:
        """Turn the stack into one that creates the cluster `fresh` in the private subnets."""
        create = {"kubernetesVersion": "1.34", "publicAccessCidrs": [], "admins": [ROLE]}
        self.config["cluster"] |= {"name": "fresh", "create": create, "autoMode": False}
        self.config["storage"].pop("shared")

    def subnet(self, block: str, zone: str, vpc: str = "") -> str:
        return self.ask(
            "ec2", "create_subnet", VpcId=vpc or self.vpc, CidrBlock=block, AvailabilityZone=zone
        )["Subnet"]["SubnetId"]

    def table(self, subnet: str, **target: str) -> str:
        table = self.ask("ec2", "create_route_table", VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        self.ask("ec2", "associate_route_table", RouteTableId=table, SubnetId=subnet)
        self.ask(
            "ec2", "create_route", RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **target
        )
        return table

    def group(self, name: str, *, itself: bool = False, vpc: str = "") -> str:
        group = self.ask(
            "ec2", "create_security_group", GroupName=name, Description=name, VpcId=vpc or self.vpc
        )["GroupId"]
        if itself:
            self.admit(group, group)
        return group

    def admit(self, group: str, source: str, port: int | None = None) -> None:
        ports = (
            {"IpProtocol": "-1"}
            if port is None
            else {"IpProtocol": "tcp", "FromPort": port, "ToPort": port}
        )
        permission = {**ports, "UserIdGroupPairs": [{"GroupId": source}]}
        self.ask(
            "ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=[permission]
        )

    def admit_block(self, group: str, block: str, port: int, protocol: str = "tcp") -> None:
        ranges = [{"CidrIp": block}]
        rule = {"IpProtocol": protocol, "FromPort": port, "ToPort": port, "IpRanges": ranges}
        self.ask("ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=[rule])

    def target(self, system: str, subnet: str, group: str) -> str:
        return self.ask(
            "efs",
            "create_mount_target",
            FileSystemId=system,
            SubnetId=subnet,
            SecurityGroups=[group],
        )["MountTargetId"]

    def other_vpc(self) -> str:
        return self.ask("ec2", "create_vpc", CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]

    def instance(self, group: str) -> None:
        """A running node of the cluster that the stack did not create."""
        tags = [{"ResourceType": "instance", "Tags": TAGS}]
        place = {"SubnetId": self.private["us-east-1a"], "SecurityGroupIds": [group]}
        self.ask(
            "ec2",
            "run_instances",
            ImageId="ami-12c6146b",
            InstanceType="m7i.large",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=tags,
            **place,
        )

    def examined(self, *checks: str) -> list[tuple[str, str, str]]:
        """The check, message and remedy of each error and warning of `checks`, of all checks if
        none is named.
        """
        found = self.findings(*checks)
        unknown = [each for each in found if each.severity is Severity.UNKNOWN]
        assert not unknown, unknown
        return [
            (each.check.removeprefix("AWS "), each.message, each.remedy)
            for each in found
            if each.severity in (Severity.WARNING, Severity.ERROR)
        ]

    def findings(self, *checks: str) -> list[Finding]:
        spec = settings(**copy.deepcopy(self.config))
        assert list(check(spec, has_key_seed=True)) == [], "validate rejects the stack file"
        cluster: Any = spec.cluster
        recording: Any = Recorded(self.registered())
        account = ExaminedAccount(spec, cluster, recording, self.ask, "test")
        return run_checks({name: AWS_CHECKS[name] for name in checks or AWS_CHECKS}, account)
