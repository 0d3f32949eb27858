"""Checks of AWS resources that a stack names, or whose names it takes: cluster, subnets, certificate, reservations, keys and images."""

from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.operations.doctor.aws.account import AwsError, ExaminedAccount
from inferplan.operations.doctor.findings import Finding, error, ok, warning

# EKS takes up to five addresses of each subnet for the control plane; AWS recommends 16 (EKS user guide, network requirements, read 2026-11).
_ADDRESSES = 16
_AGENT = "eks-pod-identity-agent"


def check_account(account: ExaminedAccount) -> Iterator[Finding]:
    from inferplan.components.platforms.aws.access import principal_of

    caller, expected = account.caller, account.cluster.account
    if expected is not None and caller["Account"] != expected:
        yield error(
            f"your credentials are those of account {caller['Account']}, and cluster.account is {expected}",
            "export AWS_PROFILE=PROFILE && aws sts get-caller-identity",
        )
    else:
        yield ok(f"you are {caller['Arn']}")
    admins = [] if account.cluster.create is None else account.cluster.create.admins
    own = principal_of(caller["Arn"])
    if admins and own not in [principal_of(each) for each in admins]:
        yield error(f"{own} is not in cluster.create.admins, so the new cluster denies it", f"add to cluster.create.admins: {own}")
    for arn in admins:
        name, kind = arn.rpartition("/")[2], "role" if ":role/" in arn else "user"
        if f":{caller['Account']}:" not in arn:
            yield error(
                f"cluster.create.admins has {arn}, which is not in account {caller['Account']}",
                f"write roles and users of account {caller['Account']} in cluster.create.admins",
            )
        elif _exists(account, "iam", f"get_{kind}", **{f"{kind.capitalize()}Name": name}) is None:
            yield error(
                f"cluster.create.admins has {arn}, which does not exist", f"aws iam list-{kind}s --query '{kind.capitalize()}s[].Arn'"
            )


def check_cluster(account: ExaminedAccount) -> Iterator[Finding]:
    """Find a cluster that exists where one is created, and one that is missing where it is used."""
    name, region = account.cluster.name, account.region
    answer = _exists(account, "eks", "describe_cluster", name=name)
    live = None if answer is None else answer["cluster"]
    if account.cluster.create is not None:
        if live is None:
            yield ok(f"the name {name} is free in {region}")
        elif live.get("tags", {}).get("inferplan.dev/stack") == account.recording.stack:
            yield ok(f"cluster {name} is {live['status']}, and this stack created it")
        else:
            yield error(
                f"cluster {name} exists in {region}, and this stack did not create it", "write another cluster.name, or remove create"
            )
        return
    if live is None or live["status"] != "ACTIVE":
        state = "does not exist" if live is None else f"is {live['status']}"
        yield error(f"cluster {name} {state} in {region}", f"aws eks list-clusters --region {region}")
        return
    yield ok(f"cluster {name} is ACTIVE, Kubernetes {live['version']}")
    if account.cluster.assigns_pod_identities and account.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation"):
        if _exists(account, "eks", "describe_addon", clusterName=name, addonName=_AGENT) is None:
            yield error(
                f"cluster {name} has no add-on {_AGENT}, through which pods get their roles",
                f"aws eks create-addon --region {region} --cluster-name {name} --addon-name {_AGENT}",
            )
        else:
            yield ok(f"cluster {name} has the add-on {_AGENT}")


def check_network(account: ExaminedAccount) -> Iterator[Finding]:
    for zone, subnet in (account.cluster.subnets or {}).items():
        answer = _exists(account, "ec2", "describe_subnets", SubnetIds=[subnet])
        live = None if answer is None else answer["Subnets"][0]
        listing = f"aws ec2 describe-subnets --region {account.region} --query 'Subnets[].[SubnetId,AvailabilityZone,VpcId]' --output text"
        if live is None:
            yield error(f"subnet {subnet} does not exist in {account.region}", listing)
        elif live["AvailabilityZone"] != zone:
            yield error(f"subnet {subnet} is in {live['AvailabilityZone']}, and cluster.subnets says {zone}", listing)
        elif live["AvailableIpAddressCount"] < _ADDRESSES:
            free = live["AvailableIpAddressCount"]
            yield warning(f"subnet {subnet} has {free} free addresses; nodes and pods need more than {_ADDRESSES}", listing)
        else:
            yield ok(f"subnet {subnet} is in {zone} with {live['AvailableIpAddressCount']} free addresses")
    if account.cluster.subnets is None:
        yield ok("the stack names no existing subnet")


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
    answer = _exists(account, "acm", "describe_certificate", CertificateArn=arn)
    if answer is None:
        yield error(f"{arn} does not exist", another)
        return
    certificate = answer["Certificate"]
    names = {certificate["DomainName"], *certificate.get("SubjectAlternativeNames", ())}
    if certificate["Status"] != "ISSUED":
        wait = f"aws acm wait certificate-validated {request} --certificate-arn {arn}"
        yield error(f"{arn} is {certificate['Status']}, not ISSUED. Add the DNS records that ACM asks for", wait)
    elif host not in names and f"*.{host.partition('.')[2]}" not in names:
        yield error(f"{arn} is for {', '.join(sorted(names))}, and gateway.host is {host}", another)
    else:
        yield ok(f"the certificate for {host} is ISSUED")


def check_reservations(account: ExaminedAccount) -> Iterator[Finding]:
    reservations = {name: pool.capacity_reservation for name, pool in account.pools.items() if pool.capacity_reservation is not None}
    for name, named in reservations.items():
        listing = f"aws ec2 describe-capacity-reservations --region {account.region}"
        answer = _exists(account, "ec2", "describe_capacity_reservations", CapacityReservationIds=[named.id])
        if answer is None or not answer["CapacityReservations"]:
            yield error(f"pool {name}: capacity reservation {named.id} does not exist in {account.region}", listing)
            continue
        yield from _judge_reservation(account, name, answer["CapacityReservations"][0], f"{listing} --capacity-reservation-ids {named.id}")
    if not reservations:
        yield ok("no pool has a capacity reservation")


def _judge_reservation(account: ExaminedAccount, name: str, live: Mapping[str, Any], listing: str) -> Iterator[Finding]:
    pool = account.pools[name]
    start = f"pool {name}: capacity reservation {live['CapacityReservationId']}"
    zone = None if pool.capacity_reservation is None else pool.capacity_reservation.zone
    if live["State"] == "scheduled":
        yield warning(f"{start} is scheduled; nodes cannot start before {live.get('StartDate', 'its start')}", listing)
    elif live["State"] != "active":
        yield error(f"{start} is {live['State']}, not active", listing)
    elif live["AvailabilityZone"] != zone:
        yield error(
            f"{start} is in {live['AvailabilityZone']}, and the stack file says {zone}", f"write capacityReservation.zone of {name}"
        )
    elif live["InstanceType"] not in pool.machines:
        wanted = ", ".join(pool.machines)
        yield error(f"{start} is for {live['InstanceType']}, and the pool has {wanted}", f"write nodePools.{name}.instanceTypes")
    elif live["TotalInstanceCount"] < pool.max_nodes:
        yield warning(
            f"{start} has {live['TotalInstanceCount']} instances, and size.max is {pool.max_nodes}", f"lower nodePools.{name}.size.max"
        )
    else:
        yield ok(f"{start} is active with {live['TotalInstanceCount']} {live['InstanceType']}")


def check_keys(account: ExaminedAccount) -> Iterator[Finding]:
    keys = {name: arn for name, store in account.settings.storage.items() if (arn := getattr(store, "kms_key_arn", None))}
    for name, arn in keys.items():
        answer = _exists(account, "kms", "describe_key", KeyId=arn)
        state = None if answer is None else answer["KeyMetadata"]["KeyState"]
        remedies = {"Disabled": f"aws kms enable-key --key-id {arn}", "PendingDeletion": f"aws kms cancel-key-deletion --key-id {arn}"}
        if state == "Enabled":
            yield ok(f"storage {name}: KMS key {arn} is Enabled")
        else:
            yield error(
                f"storage {name}: KMS key {arn} {'does not exist' if state is None else f'is {state}'}",
                remedies.get(state or "", f"aws kms list-keys --region {account.region}"),
            )
    if not keys:
        yield ok("no store names a KMS key")


def check_images(account: ExaminedAccount) -> Iterator[Finding]:
    images = {name: pool.ami_id for name, pool in account.pools.items() if pool.ami_id is not None}
    for name, image in images.items():
        answer = _exists(account, "ec2", "describe_images", ImageIds=[image])
        if answer is None or not answer["Images"] or answer["Images"][0]["State"] != "available":
            own = f"aws ec2 describe-images --region {account.region} --owners self amazon --filters Name=name,Values='*eks*'"
            yield error(f"pool {name}: image {image} is not available in {account.region}", own)
        else:
            yield ok(f"pool {name}: image {image} is available")
    if not images:
        yield ok("no pool names an AMI")


def _exists(account: ExaminedAccount, service: str, operation: str, **parameters: Any) -> Mapping[str, Any] | None:
    try:
        return account.ask(service, operation, **parameters)
    except AwsError as failed:
        if failed.missing:
            return None
        raise
