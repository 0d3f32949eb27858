"""The prerequisites of a cluster: version, logs, add-ons and identity (`rows.toml`)."""

from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.table import Values, prerequisite
from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.components.stores import S3StoreSpec

_AGENT, _EFS_DRIVER = "eks-pod-identity-agent", "aws-efs-csi-driver"


@prerequisite("cluster-version")
def _(world: World) -> Iterator[Values]:
    create, live = world.cluster.create, world.existing
    version = create.kubernetes_version if create is not None else (live or {}).get("version")
    if version is None:
        return
    releases = {
        each["clusterVersion"]: each
        for each in world.ask("eks", "describe_cluster_versions", includeAll=True)[
            "clusterVersions"
        ]
    }
    status = releases.get(version, {}).get("versionStatus", "UNSUPPORTED")
    support = (
        create.support
        if create is not None
        else (live or {}).get("upgradePolicy", {}).get("supportType", "EXTENDED")
    )
    if status == "STANDARD_SUPPORT" or (status == "EXTENDED_SUPPORT" and support == "EXTENDED"):
        return
    standard = sorted(
        (each for each, row in releases.items() if row["versionStatus"] == "STANDARD_SUPPORT"),
        key=_minor,
    )
    end = releases.get(version, {}).get("endOfStandardSupportDate")
    following = next(
        (each for each in sorted(releases, key=_minor) if _minor(each) > _minor(version)), version
    )
    change = f'set cluster.create.kubernetesVersion: "{(standard or [version])[-1]}"'
    if create is None:
        change = (
            f"aws eks update-cluster-version --region {world.cluster.region} --name"
            f" {world.cluster.name} --kubernetes-version {following}"
        )
    until = f" (standard support ended {end:%Y-%m-%d})" if end is not None else ""
    what = (
        "cluster.create.kubernetesVersion"
        if create is not None
        else f"cluster {world.cluster.name}"
    )
    yield {
        "what": what,
        "version": version,
        "status": status.lower().replace("_", " "),
        "until": until,
        "change": change,
    }


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


@prerequisite("log-group")
def _(world: World) -> Iterator[Values]:
    create = world.cluster.create
    if create is None or create.log_group == "existing":
        return
    name = f"/aws/eks/{world.cluster.name}/cluster"
    groups = world.ask("logs", "describe_log_groups", logGroupNamePrefix=name)["logGroups"]
    group = next((each for each in groups if each["logGroupName"] == name), None)
    if group is not None:
        arn = group.get("logGroupArn") or group["arn"].removesuffix(":*")
        if (
            world.ask("logs", "list_tags_for_resource", resourceArn=arn)["tags"].get(
                "inferplan.dev/stack"
            )
            != world.stack
        ):
            yield {"name": name}


@prerequisite("auto-mode")
def _(world: World) -> Iterator[Values]:
    if (
        world.existing is not None
        and world.cluster.auto_mode
        and not world.existing.get("computeConfig", {}).get("enabled")
    ):
        yield {}


@prerequisite("pod-identity-agent")
def _(world: World) -> Iterator[Values]:
    buckets = [each for each in world.sections.storage.values() if isinstance(each, S3StoreSpec)]
    readers = any(each.endpoint is None and each.credentials is None for each in buckets)
    if readers and world.cluster.assigns_pod_identities and _lacks_addon(world, _AGENT):
        yield {}


@prerequisite("efs-driver")
def _(world: World) -> Iterator[Values]:
    stores = [name for name, each in world.sections.storage.items() if each.kind == "efs"]
    if stores and _lacks_addon(world, _EFS_DRIVER):
        yield {"store": stores[0]}


def _lacks_addon(world: World, name: str) -> bool:
    has_it = world.cluster.has_auto_mode and name == _AGENT
    return (
        world.existing is not None
        and not has_it
        and world.find("eks", "describe_addon", clusterName=world.cluster.name, addonName=name)
        is None
    )


@prerequisite("oidc-provider")
def _(world: World) -> Iterator[Values]:
    if world.existing is not None and world.cluster.identity == "irsa":
        issuer = world.existing["identity"]["oidc"]["issuer"]
        providers = world.ask("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"]
        if not any(
            each["Arn"].endswith(f"oidc-provider/{issuer.removeprefix('https://')}")
            for each in providers
        ):
            yield {"issuer": issuer}
