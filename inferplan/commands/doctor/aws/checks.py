"""The checks of an AWS account."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.aws.buckets import check_buckets
from inferplan.commands.doctor.aws.capacity import check_images, check_reservations
from inferplan.commands.doctor.aws.permissions import policy_json, scope_of, types_of
from inferplan.commands.doctor.aws.principals import check_account, check_region, check_roles
from inferplan.commands.doctor.aws.resources import check_certificate, check_cluster, check_keys
from inferplan.commands.doctor.aws.simulation import check_permissions
from inferplan.commands.doctor.findings import (
    Check,
    Finding,
    Severity,
    ok,
    run_checks,
    skipped,
    unchecked,
)
from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.components.platforms.aws.credentials import Credentials
from inferplan.components.platforms.aws.prerequisites.table import (
    Unchecked,
    Unmet,
    judge,
    rows,
    rows_with_checks,
)
from inferplan.pulumi_engine.recording import Recording
from inferplan.workspace.workspace import Workspace


def check_prerequisite(name: str, account: ExaminedAccount) -> Iterator[Finding]:
    """Check one row of the table of prerequisites that AWS documents."""
    is_met, is_examined = True, False
    for each in judge(name, account.world):
        if isinstance(each, Unmet):
            is_met = False
            yield Finding(Severity(each.severity), f"not met: {each.problem}", each.remedy)
        elif isinstance(each, Unchecked):
            is_met = False
            yield unchecked(each.reason, each.remedy, unanswered=False)
        is_examined = True
    if not is_examined:
        yield skipped(rows()[name]["unless"])
    elif is_met:
        yield ok(f"met: {rows()[name]['requires']}")


AWS_CHECKS: Final[dict[str, Check[ExaminedAccount]]] = {
    "AWS account": check_account,
    "AWS region": check_region,
    "AWS permissions": check_permissions,
    "AWS cluster": check_cluster,
    "AWS buckets": check_buckets,
    "AWS certificate": check_certificate,
    "AWS reservations": check_reservations,
    "AWS keys": check_keys,
    "AWS roles": check_roles,
    "AWS images": check_images,
    **{f"AWS {name}": partial(check_prerequisite, name) for name in rows_with_checks()},
}


def examine_account(workspace: Workspace, recording: Recording) -> list[Finding]:
    cluster = workspace.settings.cluster
    if not isinstance(cluster, EksCluster):
        return []
    ask = Credentials(cluster.region, workspace.typed)
    return run_checks(
        AWS_CHECKS, ExaminedAccount(workspace.settings, cluster, recording, ask, workspace.typed)
    )


def stack_policy(workspace: Workspace, recording: Recording) -> str | None:
    cluster = workspace.settings.cluster
    if not isinstance(cluster, EksCluster):
        return None
    return policy_json(types_of(recording), scope_of(recording, cluster))
