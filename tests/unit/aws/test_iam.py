"""Who may do what: decisions over the IAM documents that the program registers."""

from __future__ import annotations

from typing import Any

import pytest

from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.evaluator import Request, allowed
from tests.unit.aws.rig import BUCKET, CREATED, L40S, SYSTEM, declared, document, model

KEY = "arn:aws:kms:us-east-1:111122223333:key/1"
OBJECTS = "arn:aws:s3:::acme-weights"
POOLS = {"l40s": L40S, "system": SYSTEM}


def rights(recording: Recording, role: str) -> list[dict[str, Any]]:
    return [
        document(each.inputs["policy"])
        for each in recording.of_type("aws:iam/rolePolicy:RolePolicy")
        if each.name.startswith(f"{role}-")
    ]


def trust(recording: Recording, role: str) -> dict[str, Any]:
    return document(recording.one("aws:iam/role:Role", role).inputs["assumeRolePolicy"])


@pytest.fixture(scope="module")
def streaming() -> Recording:
    return declared(
        storage={"weights": {**BUCKET, "kmsKeyArn": KEY}},
        models={"llama": model(), "other": model(weights={"store": "weights", "path": "other"})},
    )


@pytest.fixture(scope="module")
def preheated() -> Recording:
    storage = {"weights": {**BUCKET, "create": {}}, "shared": {"kind": "efs"}}
    return declared(
        cluster=CREATED,
        nodePools=POOLS,
        storage=storage,
        models={"llama": model(preheat={"into": "shared"})},
    )


@pytest.fixture(scope="module")
def irsa() -> Recording:
    return declared(
        cluster={**CREATED, "identity": "irsa"},
        nodePools=POOLS,
        storage={"weights": BUCKET},
        models={"llama": model()},
    )


OWN_OBJECTS = [
    "config.json",
    "model-00001-of-00004.safetensors",
    "8afb486c/config.json",
    "deep/er/tokenizer.json",
    "a b",
    "ünï",
]
FOREIGN_OBJECTS = [
    "llm/other/config.json", "llm/llama", "llm/llama-70b/config.json", "llm/llamas/x", "llm/x", "llm/", "other/llama/config.json",
    "secret", "", "LLM/llama/config.json", "xllm/llama/config.json", "llm//llama/config.json",
]  # fmt: skip
OBJECT_ACTIONS = [
    "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObjectVersion", "s3:GetObjectAcl", "s3:PutObjectAcl",
    "s3:GetObjectTagging", "s3:RestoreObject", "s3:AbortMultipartUpload", "s3:GetObjectTorrent", "s3:BypassGovernanceRetention",
]  # fmt: skip
BUCKET_ACTIONS = [
    "s3:DeleteBucket", "s3:PutBucketPolicy", "s3:GetBucketPolicy", "s3:GetBucketLocation", "s3:ListBucketVersions", "s3:PutBucketAcl",
    "s3:ListBucketMultipartUploads", "s3:PutLifecycleConfiguration", "s3:PutEncryptionConfiguration", "s3:GetBucketVersioning",
]  # fmt: skip
ELSEWHERE = [
    "s3:ListAllMyBuckets", "s3:CreateBucket", "sts:AssumeRole", "iam:PassRole", "iam:CreateRole", "ec2:DescribeInstances", "ec2:RunInstances",
    "eks:DescribeCluster", "kms:CreateGrant", "kms:Encrypt", "kms:GenerateDataKey", "kms:ScheduleKeyDeletion", "secretsmanager:GetSecretValue",
    "ssm:GetParameter", "logs:PutLogEvents", "ecr:GetAuthorizationToken", "s3express:CreateSession", "bedrock:InvokeModel",
]  # fmt: skip
PREFIXES = {
    "llm/llama/": True, "llm/llama/deep/": True, "llm/llama/m": True, "llm/llama": False, "llm/": False, "": False, "llm/other/": False,
    "llm/llama-70b/": False, "/": False, "llm/llam": False,
}  # fmt: skip


@pytest.mark.parametrize("key", OWN_OBJECTS)
def test_a_model_reads_the_files_of_its_own_directory(streaming, key):
    assert allowed(
        rights(streaming, "llama"), Request("s3:GetObject", f"{OBJECTS}/llm/llama/{key}")
    )


@pytest.mark.parametrize("key", FOREIGN_OBJECTS)
def test_a_model_reads_nothing_outside_its_directory(streaming, key):
    assert not allowed(rights(streaming, "llama"), Request("s3:GetObject", f"{OBJECTS}/{key}"))


@pytest.mark.parametrize("bucket", ["acme-weights2", "acme-weight", "acme", "acme-weights.evil"])
def test_a_model_reads_no_other_bucket(streaming, bucket):
    assert not allowed(
        rights(streaming, "llama"),
        Request("s3:GetObject", f"arn:aws:s3:::{bucket}/llm/llama/config.json"),
    )


@pytest.mark.parametrize("action", OBJECT_ACTIONS)
def test_reading_is_all_that_a_model_does_with_its_files(streaming, action):
    assert not allowed(
        rights(streaming, "llama"), Request(action, f"{OBJECTS}/llm/llama/config.json")
    )


@pytest.mark.parametrize("action", BUCKET_ACTIONS)
def test_a_model_neither_changes_nor_studies_the_bucket(streaming, action):
    assert not allowed(
        rights(streaming, "llama"), Request(action, OBJECTS, context={"s3:prefix": "llm/llama/"})
    )


@pytest.mark.parametrize("action", ELSEWHERE)
def test_a_model_has_no_right_outside_its_store(streaming, action):
    assert not allowed(rights(streaming, "llama"), Request(action, "*"))
    assert not allowed(
        rights(streaming, "llama"),
        Request(action, KEY, context={"kms:ViaService": "s3.us-east-1.amazonaws.com"}),
    )


@pytest.mark.parametrize(("prefix", "may"), PREFIXES.items())
def test_a_model_lists_its_own_directory_only(streaming, prefix, may):
    assert (
        allowed(
            rights(streaming, "llama"),
            Request("s3:ListBucket", OBJECTS, context={"s3:prefix": prefix}),
        )
        is may
    )


def test_listing_without_a_prefix_is_refused(streaming):
    assert not allowed(rights(streaming, "llama"), Request("s3:ListBucket", OBJECTS))


@pytest.mark.parametrize(
    ("key", "through", "may"),
    [
        (KEY, "s3.us-east-1.amazonaws.com", True),
        (KEY, "s3.eu-west-1.amazonaws.com", False),
        (KEY, "ebs.us-east-1.amazonaws.com", False),
        (KEY, None, False),
        (KEY + "2", "s3.us-east-1.amazonaws.com", False),
        ("arn:aws:kms:us-east-1:999999999999:key/1", "s3.us-east-1.amazonaws.com", False),
    ],
)
def test_the_bucket_s_key_decrypts_for_s3_and_for_nothing_else(streaming, key, through, may):
    context = {} if through is None else {"kms:ViaService": through}
    assert allowed(rights(streaming, "llama"), Request("kms:Decrypt", key, context=context)) is may


def tags(**changed: str) -> dict[str, str]:
    of = {
        "eks-cluster-name": "shared",
        "kubernetes-namespace": "inference",
        "kubernetes-service-account": "llama",
        **changed,
    }
    return {f"aws:RequestTag/{key}": value for key, value in of.items()}


@pytest.mark.parametrize("action", ["sts:AssumeRole", "sts:TagSession"])
def test_its_own_service_account_assumes_the_role(streaming, action):
    assert allowed(
        [trust(streaming, "llama")],
        Request(action, principal=("Service", "pods.eks.amazonaws.com"), context=tags()),
    )


@pytest.mark.parametrize(
    "context",
    [tags(**{key: value}) for key, values in {
        "eks-cluster-name": ("other", "shared2", ""),
        "kubernetes-namespace": ("default", "kube-system", "inference2"),
        "kubernetes-service-account": ("other", "default", "llama2", "llama-preheat"),
    }.items() for value in values] + [{}, {key: value for key, value in tags().items() if "account" not in key}],
)  # fmt: skip
def test_no_other_service_account_namespace_or_cluster_assumes_the_role(streaming, context):
    assert not allowed(
        [trust(streaming, "llama")],
        Request("sts:AssumeRole", principal=("Service", "pods.eks.amazonaws.com"), context=context),
    )


@pytest.mark.parametrize(
    "principal",
    [
        ("Service", "ec2.amazonaws.com"),
        ("Service", "eks.amazonaws.com"),
        ("AWS", "arn:aws:iam::111122223333:root"),
        ("AWS", "*"),
        ("Federated", "x"),
    ],
)
def test_nobody_but_the_pod_identity_service_assumes_the_role(streaming, principal):
    assert not allowed(
        [trust(streaming, "llama")], Request("sts:AssumeRole", principal=principal, context=tags())
    )


ISSUER = "oidc.invalid/id/prod"
PROVIDER = f"arn:aws:iam::000000000000:oidc-provider/{ISSUER}"


@pytest.mark.parametrize(
    ("subject", "audience", "provider", "may"),
    [
        ("system:serviceaccount:inference:llama", "sts.amazonaws.com", PROVIDER, True),
        ("system:serviceaccount:inference:other", "sts.amazonaws.com", PROVIDER, False),
        ("system:serviceaccount:default:llama", "sts.amazonaws.com", PROVIDER, False),
        ("system:serviceaccount:inference:llama", "vault", PROVIDER, False),
        ("system:serviceaccount:inference:llama", "sts.amazonaws.com", PROVIDER + "x", False),
        ("system:serviceaccount:inference:*", "sts.amazonaws.com", PROVIDER, False),
    ],
)
def test_irsa_trusts_one_service_account_of_one_cluster(irsa, subject, audience, provider, may):
    request = Request(
        "sts:AssumeRoleWithWebIdentity",
        principal=("Federated", provider),
        context={f"{ISSUER}:sub": subject, f"{ISSUER}:aud": audience},
    )
    assert allowed([trust(irsa, "llama")], request) is may


def test_no_trust_of_irsa_is_a_pattern(irsa):
    assert "*" not in str(trust(irsa, "llama"))


def test_irsa_marks_the_account_with_its_role_and_makes_no_association(irsa):
    [account] = [
        each for each in irsa.of_type("kubernetes:core/v1:ServiceAccount") if each.name == "llama"
    ]
    assert account.inputs["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].startswith(
        "arn:aws:iam::111122223333:role/prod-llama-"
    )
    assert irsa.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation") == []
    assert len(irsa.of_type("aws:iam/openIdConnectProvider:OpenIdConnectProvider")) == 1


def test_a_preheated_model_reads_through_its_job_and_serves_without_any_role(preheated):
    accounts = [
        each.inputs["serviceAccount"]
        for each in preheated.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    ]
    assert [each for each in accounts if each.startswith("llama")] == ["llama-preheat"]
    job = preheated.one("kubernetes:batch/v1:Job").inputs["spec"]["template"]["spec"]
    assert job["serviceAccountName"] == "llama-preheat"
    serving = preheated.one("kubernetes:apps/v1:Deployment", "llama").inputs["spec"]["template"][
        "spec"
    ]
    assert serving["serviceAccountName"] == "llama"
    assert allowed(
        rights(preheated, "llama-preheat"), Request("s3:GetObject", f"{OBJECTS}/llm/llama/x")
    )


@pytest.mark.parametrize(
    ("role", "service", "may"),
    [
        ("nodes", "ec2.amazonaws.com", True), ("nodes", "eks.amazonaws.com", False), ("nodes", "pods.eks.amazonaws.com", False),
        ("prod", "eks.amazonaws.com", True), ("prod", "ec2.amazonaws.com", False), ("prod-cni", "pods.eks.amazonaws.com", False),
    ],
)  # fmt: skip
def test_each_role_is_assumed_by_its_own_service(preheated, role, service, may):
    assert (
        allowed([trust(preheated, role)], Request("sts:AssumeRole", principal=("Service", service)))
        is may
    )


def test_nodes_of_a_created_cluster_pull_and_join_and_the_cni_has_a_role_of_its_own(preheated):
    attached = [
        each
        for each in preheated.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
        if each.name.startswith("nodes-")
    ]
    assert sorted(each.inputs["policyArn"].rpartition("/")[2] for each in attached) == [
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKSWorkerNodePolicy",
    ]
    context = {f"aws:RequestTag/{key}": value for key, value in {
        "eks-cluster-name": "prod", "kubernetes-namespace": "kube-system", "kubernetes-service-account": "aws-node"}.items()}  # fmt: skip
    assert allowed(
        [trust(preheated, "prod-cni")],
        Request("sts:AssumeRole", principal=("Service", "pods.eks.amazonaws.com"), context=context),
    )


def test_a_store_with_a_secret_or_an_endpoint_of_its_own_needs_no_role():
    storage = {
        "weights": {
            **BUCKET,
            "endpoint": "https://minio.example",
            "credentials": {"secretName": "minio"},
        }
    }
    recording = declared(storage=storage, models={"llama": model()})
    assert [each.name for each in recording.of_type("aws:iam/role:Role")] == ["nodes"]


def test_pods_wait_for_the_right_to_read_since_credentials_come_at_admission(streaming):
    association = streaming.one("aws:eks/podIdentityAssociation:PodIdentityAssociation", "llama")
    assert association.urn in streaming.one("kubernetes:apps/v1:Deployment", "llama").dependencies
    objects = streaming.one("aws:iam/rolePolicy:RolePolicy", "llama-objects")
    assert objects.urn in association.dependencies


def test_a_pod_with_a_role_may_reach_the_agent_that_hands_it_out(streaming):
    rules = streaming.one("kubernetes:networking.k8s.io/v1:NetworkPolicy", "llama").inputs["spec"][
        "egress"
    ]
    assert {
        "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}],
        "ports": [{"port": 80, "protocol": "TCP"}],
    } in rules
