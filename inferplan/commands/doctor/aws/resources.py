"""Checks of AWS resources that a stack names, or whose names it takes: cluster, certificate and
keys.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.findings import Finding, error, ok, skipped, warning


def check_cluster(account: ExaminedAccount) -> Iterator[Finding]:
    """Find a cluster that exists where one is created, and one that is missing where it is used."""
    name, region = account.cluster.name, account.region
    live = account.world.live
    if account.cluster.create is not None:
        if live is None:
            yield ok(f"the name {name} is free in {region}")
        elif live.get("tags", {}).get("inferplan.dev/stack") == account.recording.stack:
            yield ok(f"cluster {name} is {live['status']}, and this stack created it")
        else:
            yield error(
                f"cluster {name} exists in {region}, and this stack did not create it",
                f"set cluster.name: {name}-2",
            )
        return
    if live is None:
        names = account.ask("eks", "list_clusters").get("clusters", [])
        remedy = (
            f"set cluster.name: {names[0]}"
            if len(names) == 1
            else "correct cluster.name or cluster.region, or write cluster.create"
        )
        there = (
            f"; it has {', '.join(sorted(names))}"
            if names
            else ", and no other cluster exists there"
        )
        yield error(f"cluster {name} does not exist in {region}{there}", remedy)
    elif live["status"] in ("CREATING", "UPDATING", "PENDING"):
        wait = f"aws eks wait cluster-active --region {region} --name {name}"
        yield error(f"cluster {name} is {live['status']} in {region}", wait)
    elif live["status"] != "ACTIVE":
        yield error(
            f"cluster {name} is {live['status']} in {region}",
            "name another cluster, or write cluster.create with a new name",
        )
    else:
        yield ok(f"cluster {name} is ACTIVE, Kubernetes {live['version']}")


def check_certificate(account: ExaminedAccount) -> Iterator[Finding]:
    gateway = account.settings.gateway
    balancer = None if gateway is None else gateway.access.balancer
    if gateway is None or balancer is None:
        yield skipped("no load balancer of the stack needs a certificate")
        return
    arn, host, request = balancer.certificate_arn, gateway.host or "", f"--region {account.region}"
    another = f"aws acm request-certificate {request} --domain-name {host} --validation-method DNS"
    if f":{account.region}:" not in arn:
        yield error(f"{arn} is not in {account.region}, where the load balancer is", another)
        return
    answer = account.world.find("acm", "describe_certificate", CertificateArn=arn)
    if answer is None:
        yield error(f"{arn} does not exist", another)
        return
    certificate = answer["Certificate"]
    names = {certificate["DomainName"], *certificate.get("SubjectAlternativeNames", ())}
    if certificate["Status"] != "ISSUED":
        wait = f"aws acm wait certificate-validated {request} --certificate-arn {arn}"
        yield error(
            f"{arn} is {certificate['Status']}, not ISSUED. Add the DNS records that ACM asks for",
            wait,
        )
    elif host not in names and f"*.{host.partition('.')[2]}" not in names:
        yield error(f"{arn} is for {', '.join(sorted(names))}, and gateway.host is {host}", another)
    else:
        yield from _judge_end(arn, host, certificate, another)


def _judge_end(
    arn: str, host: str, certificate: Mapping[str, Any], another: str
) -> Iterator[Finding]:
    """ACM renews a certificate of its own 60 days before it ends, if it can; never an imported one."""
    end = certificate.get("NotAfter")
    left = None if end is None else end - datetime.now(UTC)
    renews = (
        certificate.get("Type") == "AMAZON_ISSUED"
        and certificate.get("RenewalEligibility") == "ELIGIBLE"
        and certificate.get("RenewalSummary", {}).get("RenewalStatus")
        not in ("FAILED", "PENDING_VALIDATION")
    )
    if left is None or left > timedelta(days=30) or (renews and left > timedelta(days=3)):
        yield ok(f"the certificate for {host} is ISSUED")
        return
    report = error if left < timedelta(days=7) else warning
    cause = "an imported one" if certificate.get("Type") == "IMPORTED" else "this one"
    yield report(
        f"{arn} for {host} ends on {end:%Y-%m-%d}, in {max(left.days, 0)} days, and ACM does not"
        f" renew {cause}",
        "aws acm import-certificate --certificate-arn "
        f"{arn} --certificate fileb://cert.pem --private-key fileb://key.pem"
        if certificate.get("Type") == "IMPORTED"
        else f"{another}  # then write its ARN; the old one stays",
    )


def check_keys(account: ExaminedAccount) -> Iterator[Finding]:
    keys = {
        name: arn
        for name, store in account.settings.storage.items()
        if (arn := getattr(store, "kms_key_arn", None))
    }
    for name, arn in keys.items():
        answer = account.world.find("kms", "describe_key", KeyId=arn)
        state = None if answer is None else answer["KeyMetadata"]["KeyState"]
        request = (
            f"--region {arn.split(':')[3]} --key-id"
            f" {arn if answer is None else answer['KeyMetadata']['KeyId']}"
        )
        enable = f"aws kms enable-key {request}"
        # A key that was to be deleted is disabled afterwards.
        remedies = {
            "Disabled": enable,
            "PendingDeletion": f"aws kms cancel-key-deletion {request} && {enable}",
        }
        spec = "SYMMETRIC_DEFAULT" if answer is None else answer["KeyMetadata"].get("KeySpec")
        if state == "Enabled" and spec not in (None, "SYMMETRIC_DEFAULT"):
            yield error(
                f"storage {name}: KMS key {arn} is {spec}, and S3 and EFS encrypt with symmetric keys"
                " alone",
                f"remove storage.{name}.kmsKeyArn",
            )
        elif state == "Enabled":
            yield ok(f"storage {name}: KMS key {arn} is Enabled")
        else:
            yield error(
                f"storage {name}: KMS key {arn}"
                f" {'does not exist' if state is None else f'is {state}'}",
                remedies.get(state or "", f"aws kms list-keys --region {account.region}"),
            )
    if not keys:
        yield skipped("no store names a KMS key")
