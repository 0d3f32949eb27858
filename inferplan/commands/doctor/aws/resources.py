"""Checks of AWS resources that a stack names, or whose names it takes: cluster, subnets,
certificate, reservations, keys and images.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.findings import Finding, error, ok, warning


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
    if live is None or live["status"] != "ACTIVE":
        state = "does not exist" if live is None else f"is {live['status']}"
        yield error(
            f"cluster {name} {state} in {region}", f"aws eks list-clusters --region {region}"
        )
        return
    yield ok(f"cluster {name} is ACTIVE, Kubernetes {live['version']}")


def check_certificate(account: ExaminedAccount) -> Iterator[Finding]:
    gateway = account.settings.gateway
    balancer = None if gateway is None else gateway.access.balancer
    if gateway is None or balancer is None:
        yield ok("no load balancer of the stack needs a certificate")
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
        yield ok(f"the certificate for {host} is ISSUED")


def check_reservations(account: ExaminedAccount) -> Iterator[Finding]:
    reservations = {
        name: pool.capacity_reservation
        for name, pool in account.world.pools.items()
        if pool.capacity_reservation is not None
    }
    for name, named in reservations.items():
        listing = f"aws ec2 describe-capacity-reservations --region {account.region}"
        answer = account.world.find(
            "ec2", "describe_capacity_reservations", CapacityReservationIds=[named.id]
        )
        if answer is None or not answer["CapacityReservations"]:
            yield error(
                f"pool {name}: capacity reservation {named.id} does not exist in {account.region}",
                listing,
            )
            continue
        yield from _judge_reservation(
            account,
            name,
            answer["CapacityReservations"][0],
            f"{listing} --capacity-reservation-ids {named.id}",
        )
    if not reservations:
        yield ok("no pool has a capacity reservation")


def _judge_reservation(
    account: ExaminedAccount, name: str, live: Mapping[str, Any], listing: str
) -> Iterator[Finding]:
    pool = account.world.pools[name]
    start = f"pool {name}: capacity reservation {live['CapacityReservationId']}"
    zone = None if pool.capacity_reservation is None else pool.capacity_reservation.zone
    if live["State"] == "scheduled":
        yield warning(
            f"{start} is scheduled; nodes cannot start before {live.get('StartDate', 'its start')}",
            listing,
        )
    elif live["State"] != "active":
        yield error(f"{start} is {live['State']}, not active", listing)
    elif live["AvailabilityZone"] != zone:
        yield error(
            f"{start} is in {live['AvailabilityZone']}, and the stack file says {zone}",
            f"set nodePools.{name}.capacityReservation.zone: {live['AvailabilityZone']}",
        )
    elif live["InstanceType"] not in pool.machines:
        wanted = ", ".join(pool.machines)
        yield error(
            f"{start} is for {live['InstanceType']}, and the pool has {wanted}",
            f"set nodePools.{name}.instanceTypes: [{live['InstanceType']}]",
        )
    elif live["TotalInstanceCount"] < pool.max_nodes:
        yield warning(
            f"{start} has {live['TotalInstanceCount']} instances, and size.max is {pool.max_nodes}",
            f"set nodePools.{name}.size.max: {live['TotalInstanceCount']}",
        )
    else:
        yield ok(f"{start} is active with {live['TotalInstanceCount']} {live['InstanceType']}")


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
        if state == "Enabled":
            yield ok(f"storage {name}: KMS key {arn} is Enabled")
        else:
            yield error(
                f"storage {name}: KMS key {arn}"
                f" {'does not exist' if state is None else f'is {state}'}",
                remedies.get(state or "", f"aws kms list-keys --region {account.region}"),
            )
    if not keys:
        yield ok("no store names a KMS key")


def check_images(account: ExaminedAccount) -> Iterator[Finding]:
    images = {
        name: pool.ami_id for name, pool in account.world.pools.items() if pool.ami_id is not None
    }
    for name, image in images.items():
        answer = account.world.find("ec2", "describe_images", ImageIds=[image])
        if answer is None or not answer["Images"] or answer["Images"][0]["State"] != "available":
            own = (
                f"aws ec2 describe-images --region {account.region} --owners self amazon --filters"
                " Name=name,Values='*eks*'"
            )
            usual = (
                own
                if (vendor := account.world.pools[name].vendor) and not vendor.ami_types
                else f"remove nodePools.{name}.amiId && remove nodePools.{name}.amiType"
            )
            yield error(f"pool {name}: image {image} is not available in {account.region}", usual)
        else:
            yield ok(f"pool {name}: image {image} is available")
    if not images:
        yield ok("no pool names an AMI")
