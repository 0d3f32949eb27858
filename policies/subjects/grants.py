"""Policies of AWS that stand with a resource: whom a bucket, key, file system, repository, secret or queue lets in."""

from __future__ import annotations

from policies.engine.fields import Field
from policies.engine.resource import Resource, Subject
from policies.subjects.buckets import BUCKETS

BUCKET_POLICIES = ("aws:s3:BucketPolicy", *BUCKETS)
# Where the policy of each kind stands.
_PLACES = {
    **dict.fromkeys(BUCKET_POLICIES, "policy"),
    "aws:s3:AccessPoint": "policy",
    "aws:s3control:AccessPointPolicy": "policy",
    "aws:s3control:ObjectLambdaAccessPointPolicy": "policy",
    "aws:s3control:MultiRegionAccessPointPolicy": "policy",
    "aws:kms:Key": "policy",
    "aws:kms:KeyPolicy": "policy",
    "aws:kms:ExternalKey": "policy",
    "aws:kms:ReplicaKey": "policy",
    "aws:efs:FileSystemPolicy": "policy",
    "aws:ecr:RepositoryPolicy": "policy",
    "aws:ecr:RegistryPolicy": "policy",
    "aws:ecrpublic:RepositoryPolicy": "policy",
    "aws:secretsmanager:Secret": "policy",
    "aws:secretsmanager:SecretPolicy": "policy",
    "aws:sqs:Queue": "policy",
    "aws:sqs:QueuePolicy": "policy",
    "aws:sns:Topic": "policy",
    "aws:sns:TopicPolicy": "policy",
    "aws:backup:VaultPolicy": "policy",
    "aws:cloudwatch:EventBusPolicy": "policy",
    "aws:cloudwatch:LogResourcePolicy": "policyDocument",
    "aws:dynamodb:ResourcePolicy": "policy",
    "aws:glacier:Vault": "accessPolicy",
    "aws:lambda:LayerVersionPermission": "policy",
    "aws:opensearch:DomainPolicy": "accessPolicies",
    "aws:apigateway:RestApiPolicy": "policy",
}
KEYS = ("aws:kms:Key", "aws:kms:KeyPolicy", "aws:kms:ExternalKey", "aws:kms:ReplicaKey")


def document_of(resource: Resource) -> Field:
    """The field with the policy of a resource."""
    return resource.at(_PLACES[resource.kind])


GRANTS = Subject("grant", frozenset(_PLACES), lambda resource: (document_of(resource),))
"""The policies of resources, each as one part."""
