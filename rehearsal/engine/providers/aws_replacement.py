"""Properties whose change makes the AWS provider replace a resource, for the types that the components use.

They come from `ForceNew` and `RequiresReplace` in the schemas of terraform-provider-aws (2026-11), with Pulumi's names.
Where the provider decides by more than the name, the nearest property is listed. Other types are updated in place.
"""

from __future__ import annotations

from typing import Final

from kube.paths import Path, parse

_NAMED: Final = "name namePrefix"
_BUCKET: Final = "bucket expectedBucketOwner"

_TABLE: Final[dict[str, str]] = {
    "aws:cloudwatch/logGroup:LogGroup": f"{_NAMED} logGroupClass",
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": "vpcId",
    "aws:ec2/eip:Eip": "address customerOwnedIpv4Pool domain ipamPoolId networkBorderGroup publicIpv4Pool",
    "aws:ec2/internetGateway:InternetGateway": "",
    "aws:ec2/launchTemplate:LaunchTemplate": _NAMED,
    "aws:ec2/natGateway:NatGateway": "allocationId connectivityType privateIp subnetId",
    "aws:ec2/placementGroup:PlacementGroup": "name partitionCount spreadLevel strategy",
    "aws:ec2/routeTable:RouteTable": "vpcId",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "gatewayId subnetId",
    "aws:ec2/securityGroup:SecurityGroup": f"{_NAMED} description vpcId",
    "aws:ec2/subnet:Subnet": "availabilityZone availabilityZoneId cidrBlock ipv6Native outpostArn vpcId",
    "aws:ec2/vpc:Vpc": "cidrBlock ipv4IpamPoolId ipv4NetmaskLength",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "serviceName serviceRegion vpcEndpointType vpcId",
    "aws:efs/accessPoint:AccessPoint": "fileSystemId posixUser rootDirectory",
    "aws:efs/backupPolicy:BackupPolicy": "fileSystemId",
    "aws:efs/fileSystem:FileSystem": "availabilityZoneName creationToken encrypted kmsKeyId performanceMode",
    "aws:efs/fileSystemPolicy:FileSystemPolicy": "fileSystemId",
    "aws:efs/mountTarget:MountTarget": "fileSystemId ipAddress subnetId",
    "aws:eks/accessEntry:AccessEntry": "clusterName principalArn type",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "accessScope clusterName policyArn principalArn",
    "aws:eks/addon:Addon": "addonName clusterName",
    "aws:eks/cluster:Cluster": (
        "accessConfig.bootstrapClusterCreatorAdminPermissions bootstrapSelfManagedAddons kubernetesNetworkConfig.ipFamily "
        "kubernetesNetworkConfig.serviceIpv4Cidr name outpostConfig.controlPlaneInstanceType remoteNetworkConfig roleArn"
    ),
    "aws:eks/nodeGroup:NodeGroup": (
        "amiType capacityType clusterName diskSize instanceTypes launchTemplate.id launchTemplate.name nodeGroupName "
        "nodeGroupNamePrefix nodeRoleArn remoteAccess subnetIds"
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "clusterName namespace serviceAccount",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "url",
    "aws:iam/role:Role": f"{_NAMED} path",
    "aws:iam/rolePolicy:RolePolicy": f"{_NAMED} role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "policyArn role",
    "aws:kms/key:Key": "customKeyStoreId customerMasterKeySpec keyUsage multiRegion xksKeyId",
    "aws:s3/bucket:Bucket": "bucket bucketPrefix objectLockEnabled",
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": _BUCKET,
    "aws:s3/bucketLogging:BucketLogging": _BUCKET,
    "aws:s3/bucketPolicy:BucketPolicy": "bucket",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "bucket",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": _BUCKET,
    "aws:s3/bucketVersioning:BucketVersioning": _BUCKET,
}


def is_known(type_: str) -> bool:
    """True if the table lists the AWS type `type_`."""
    return type_ in _TABLE


def replacing_patterns(type_: str) -> tuple[Path, ...]:
    """Patterns of the paths whose change replaces a resource of `type_`."""
    return tuple(parse(text) for text in _TABLE.get(type_, "").split())
