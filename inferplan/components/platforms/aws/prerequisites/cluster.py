"""The prerequisites of a cluster: version, logs, add-ons and identity (`rows.toml`)."""

import shlex
from collections.abc import Iterator

from inferplan.components.platforms.aws.prerequisites.routes import Row
from inferplan.components.platforms.aws.prerequisites.table import (
    EXAMINED,
    Unchecked,
    Values,
    prerequisite,
)
from inferplan.components.platforms.aws.prerequisites.world import World
from inferplan.components.stores import S3StoreSpec

_AGENT = "eks-pod-identity-agent"
_NODE_ADDONS = ("vpc-cni", "kube-proxy", "coredns")


@prerequisite("cluster-version")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    create, live = world.cluster.create, world.existing
    version = create.kubernetes_version if create is not None else (live or {}).get("version")
    if version is None:
        return
    yield EXAMINED
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
            f" {world.cluster.name} --kubernetes-version {following}  # for all users of the"
            " cluster, and EKS never goes back: read the release notes first"
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


@prerequisite("cluster-upgrade")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    create, live = world.cluster.create, world.live
    if create is None or live is None:
        return
    if live.get("tags", {}).get("inferplan.dev/stack") != world.stack:
        return
    yield EXAMINED
    first, last = _minor(live["version"]), _minor(create.kubernetes_version)
    if last - first > 1:
        yield {"live": f"1.{first}", "version": f"1.{last}", "next": f"1.{first + 1}"}


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


@prerequisite("log-group")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    create = world.cluster.create
    if create is None or create.log_group == "existing":
        return
    yield EXAMINED
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
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.existing is None:
        return
    yield EXAMINED
    is_on = bool(world.existing.get("computeConfig", {}).get("enabled"))
    if is_on != world.cluster.has_auto_mode and (is_on or world.cluster.auto_mode):
        edits = ["set cluster.autoMode: true"]
        if not is_on:
            automatic = [name for name, pool in world.pools.items() if pool.is_auto_mode]
            groups = [f"set nodePools.{name}.nodes: nodeGroup" for name in automatic]
            edits = ["remove cluster.autoMode", *groups]
        yield {
            "state": "has EKS Auto Mode" if is_on else "has no EKS Auto Mode",
            "said": "not true" if is_on else "true",
            "change": " && ".join(edits),
            "severity": "warning" if is_on else "error",
        }


@prerequisite("cluster-network")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.existing is None:
        return
    yield EXAMINED
    network = world.existing.get("kubernetesNetworkConfig", {})
    if network.get("ipFamily", "ipv4") != "ipv4":
        yield {"family": network["ipFamily"]}


# What the user does about an issue of EKS (EKS API reference, ClusterIssue, read 2026-11).
_ENABLE = {"KmsKeyDisabled": "aws kms enable-key --region {region} --key-id {key}"}


@prerequisite("cluster-health")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.existing is None:
        return
    yield EXAMINED
    keys = [
        each.get("provider", {}).get("keyArn")
        for each in world.existing.get("encryptionConfig", ())
    ]
    for issue in world.existing.get("health", {}).get("issues", ()):
        code = issue.get("code", "Other")
        ids = issue.get("resourceIds") or keys
        key = next((each for each in ids if each and "key/" in each), next(iter(keys), None))
        command = _ENABLE.get(code) if key else None
        yield {
            "code": code,
            "message": " ".join(str(issue.get("message", "")).split()),
            "command": command
            and command.format(region=world.cluster.region, key=key and key.rpartition("/")[2]),
        }


@prerequisite("pod-identity-agent")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    buckets = [each for each in world.sections.storage.values() if isinstance(each, S3StoreSpec)]
    readers = any(each.endpoint is None and each.credentials is None for each in buckets)
    needs = readers and world.cluster.assigns_pod_identities and not world.cluster.has_auto_mode
    if world.existing is None or not needs:
        return
    if _addon(world, _AGENT) is not None:
        yield from _health(world, _AGENT)
        return
    used = world.ask("eks", "list_pod_identity_associations", clusterName=world.cluster.name)
    if used.get("associations"):
        yield Unchecked(
            f"cluster {world.cluster.name} has no add-on {_AGENT}, but its pods have roles by EKS"
            " Pod Identity, so that the agent may come from a Helm chart",
            f"kubectl -n kube-system get daemonset {_AGENT}",
        )
        return
    yield EXAMINED
    yield {"state": "is not installed", "change": _create(world, _AGENT)}


@prerequisite("efs-driver")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    yield from _driver(world, "efs")


@prerequisite("fsx-driver")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    yield from _driver(world, "fsx")


def _driver(world: World, kind: str) -> Iterator[Values | Unchecked | str]:
    stores = [name for name, each in world.sections.storage.items() if each.kind == kind]
    if world.existing is None or not stores:
        return
    addon = f"aws-{kind}-csi-driver"
    yield EXAMINED
    for each in _health(world, addon):
        yield {**each, "store": stores[0]} if isinstance(each, dict) else each
    if _addon(world, addon) is None:
        change = _create(world, addon)
        yield {"store": stores[0], "state": "is not installed", "change": change}


@prerequisite("node-addons")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    """Without a network plugin no node is Ready. It may be self-managed, as on a cluster of eksctl or
    the API, or another one: then nodes of others prove it.
    """
    groups = [each for each in world.pools.values() if not each.is_auto_mode]
    if world.existing is None or not groups:
        return
    missing = []
    for name in _NODE_ADDONS:
        if _addon(world, name) is None:
            missing.append(name)
        else:
            for each in _health(world, name):
                yield {**each, "addon": name} if isinstance(each, dict) else each
    if not missing:
        return
    live = world.ask("eks", "list_nodegroups", clusterName=world.cluster.name)
    if live.get("nodegroups") or world.other_nodes:
        yield Unchecked(
            f"cluster {world.cluster.name} has no add-on {', '.join(missing)}, but it has nodes, so"
            " that these are probably self-managed",
            "kubectl -n kube-system get daemonset,deployment",
        )
        return
    yield EXAMINED
    yield {
        "addon": ", ".join(missing),
        "state": "is not installed as an add-on, and no node shows that you run it yourself",
        "change": " && ".join(_create(world, name) for name in missing),
        "severity": "warning",
    }


def _addon(world: World, name: str) -> Row | None:
    answer = world.find("eks", "describe_addon", clusterName=world.cluster.name, addonName=name)
    return None if answer is None else answer["addon"]


def _create(world: World, name: str) -> str:
    """Return the command that installs an add-on. It changes nothing that is installed otherwise:
    EKS rejects a conflict by default.
    """
    return (
        f"aws eks create-addon --region {world.cluster.region} --cluster-name {world.cluster.name}"
        f" --addon-name {name}"
    )


def _health(world: World, name: str) -> Iterator[Values | str]:
    """Yield the add-on if EKS says that it does not work. Its objects stay in the cluster while it is
    installed again, with the configuration that it has.
    """
    addon = _addon(world, name)
    if addon is None:
        return
    yield EXAMINED
    if addon["status"] not in ("CREATE_FAILED", "DEGRADED", "UPDATE_FAILED", "DELETE_FAILED"):
        return
    issues = addon.get("health", {}).get("issues", ())
    reasons = "; ".join(f"{each.get('code')}: {each.get('message')}" for each in issues)
    start = (
        f"--region {world.cluster.region} --cluster-name {world.cluster.name} --addon-name {name}"
    )
    kept = {
        "--addon-version": addon.get("addonVersion"),
        "--service-account-role-arn": addon.get("serviceAccountRoleArn"),
        "--configuration-values": addon.get("configurationValues"),
    }
    options = "".join(f" {key} {shlex.quote(value)}" for key, value in kept.items() if value)
    again = (
        f"aws eks delete-addon {start} --preserve && aws eks wait addon-deleted {start} && aws eks"
        f" create-addon {start}{options}"
    )
    update = f"aws eks update-addon {start}{options} --resolve-conflicts PRESERVE"
    yield {
        "state": f"is {addon['status']}{': ' if reasons else ''}{reasons}",
        # Deleting the add-on would delete its pod identity associations too.
        "change": (
            again
            if addon["status"] == "CREATE_FAILED" and not addon.get("podIdentityAssociations")
            else update
        ),
    }


@prerequisite("oidc-provider")
def _(world: World) -> Iterator[Values | Unchecked | str]:
    if world.existing is not None and world.cluster.identity == "irsa":
        yield EXAMINED
        issuer = world.existing["identity"]["oidc"]["issuer"]
        providers = world.ask("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"]
        if not any(
            each["Arn"].endswith(f"oidc-provider/{issuer.removeprefix('https://')}")
            for each in providers
        ):
            yield {"issuer": issuer}
