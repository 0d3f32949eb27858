"""An AWS account for tests: what moto holds, and written answers where moto has none, checked
against the API's own model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from inferplan.components.platforms.aws.credentials import Credentials

ACCOUNT, REGION = "111122223333", "us-east-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/platform-engineers"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/3f1d9f5e-2c1b-4e0a-9a43-7d0e5b6c8a21"
QUOTAS = {
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": 256,
    "Running On-Demand G and VT instances": 512,
    "All G and VT Spot Instance Requests": 512,
    "EC2-VPC Elastic IPs": 5,
    "NAT gateways per Availability Zone": 5,
    "VPCs per Region": 5,
    "Internet gateways per Region": 5,
    "Clusters": 100,
    "File systems per account": 1000,
}
LOGS_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "logging.s3.amazonaws.com"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::acme-access-logs/*"}
    ],
}  # fmt: skip


@cache
def credentials() -> Credentials:
    own = Credentials(REGION, "prod")
    own._session.register("before-call", _as_account)
    return own


def _as_account(params: Any = None, **_: Any) -> None:
    """Tell moto whose resources are asked for."""
    params["headers"]["x-moto-account-id"] = ACCOUNT


class Account:
    """An account: what moto holds, and written answers, by operation. An exception as an answer is
    raised.
    """

    def __init__(self) -> None:
        self.quotas = dict(QUOTAS)
        self.denied_actions: set[str] = set()
        self.denied_resources: set[str] = set()
        self.reservation = {
            "CapacityReservationId": "cr-0123456789abcdef0",
            "State": "active",
            "AvailabilityZone": "us-east-1b",
            "InstanceType": "p5.48xlarge",
            "TotalInstanceCount": 2,
        }
        self.certificate: dict[str, Any] = {
            "DomainName": "llm.acme.example",
            "SubjectAlternativeNames": ["llm.acme.example"],
            "Status": "ISSUED",
        }
        self.offered = {
            name: ["us-east-1a", "us-east-1b", "us-east-1c"]
            for name in ("g6e.4xlarge", "g6e.8xlarge", "m7i.2xlarge", "p5.48xlarge")
        }
        self.answers: dict[str, Any] = {
            "get_region_opt_status": {
                "RegionName": REGION,
                "RegionOptStatus": "ENABLED_BY_DEFAULT",
            },
            "list_pod_identity_associations": {"associations": []},
            "get_allowed_images_settings": {"State": "disabled"},
            "describe_vpc_block_public_access_options": {
                "VpcBlockPublicAccessOptions": {"InternetGatewayBlockMode": "off"}
            },
            "get_ebs_default_kms_key_id": {"KmsKeyId": "alias/aws/ebs"},
            "get_caller_identity": {
                "Account": ACCOUNT,
                "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/platform-engineers/anna",
                "UserId": "A:anna",
            },
            "get_role": {
                "Role": {
                    "Arn": ROLE,
                    "Path": "/",
                    "RoleName": "platform-engineers",
                    "RoleId": "AROA0123456789ABCDEF",
                    "CreateDate": 0,
                }
            },
        }
        self.ask("s3", "create_bucket", Bucket="acme-access-logs")
        self.ask(
            "s3", "put_bucket_policy", Bucket="acme-access-logs", Policy=json.dumps(LOGS_POLICY)
        )

    def ask(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        written = self._written(operation, parameters)
        if isinstance(written, Exception):
            raise written
        if written is None:
            return credentials()(service, operation, **parameters)
        return conforming(service, operation, written)

    def moto(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """The answer of moto, also where a test writes another one."""
        return credentials()(service, operation, **parameters)

    def _written(self, operation: str, parameters: dict[str, Any]) -> Any:
        if operation == "simulate_principal_policy" and operation not in self.answers:
            names = {
                each: "implicitDeny" if each in self.denied_actions else "allowed"
                for each in parameters["ActionNames"]
            }
            resources = [
                {
                    "EvalResourceName": arn,
                    "EvalResourceDecision": (
                        "implicitDeny" if arn in self.denied_resources else "allowed"
                    ),
                }
                for arn in parameters.get("ResourceArns", ())
            ]
            return {
                "EvaluationResults": [
                    {
                        "EvalActionName": each,
                        "EvalDecision": decision,
                        "ResourceSpecificResults": resources,
                    }
                    for each, decision in names.items()
                ]
            }
        written = {**self._fields(), **self.answers}.get(operation)
        return written(**parameters) if callable(written) else written

    def _fields(self) -> dict[str, Any]:
        quotas = [
            {"QuotaName": name, "QuotaCode": f"L-{number}", "Value": value}
            for number, (name, value) in enumerate(self.quotas.items())
        ]
        offered = [(name, zone) for name, zones in self.offered.items() for zone in zones]
        rows = [
            {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}
            for name, zone in offered
        ]
        return {
            "list_service_quotas": {"Quotas": quotas},
            "describe_capacity_reservations": {"CapacityReservations": [self.reservation]},
            "describe_certificate": {"Certificate": self.certificate},
            "describe_cluster_versions": {
                "clusterVersions": [{"clusterVersion": "1.35", "versionStatus": "STANDARD_SUPPORT"}]
            },
            "describe_instance_type_offerings": {"InstanceTypeOfferings": rows},
        }


def conforming(service: str, operation: str, answer: dict[str, Any]) -> dict[str, Any]:
    """`answer`, if the API's model has its fields and types."""
    model = service_model(service)
    name = next(
        each for each in model.operation_names if each.lower() == operation.replace("_", "")
    )
    shape = model.operation_model(name).output_shape
    if shape is None:
        return answer
    report = ParamValidator().validate(answer, shape)
    assert not report.has_errors(), report.generate_report()
    return answer


@cache
def service_model(service: str) -> Any:
    return botocore.session.Session().get_service_model(service)
