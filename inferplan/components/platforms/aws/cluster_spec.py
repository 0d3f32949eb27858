"""The member `eks` of the union of clusters: its resources, notes and errors."""

from collections.abc import Iterator

from inferplan.components.nodes.pool import Pool
from inferplan.components.platforms.aws import aws_api, checks
from inferplan.components.platforms.aws.auto_mode import preferred
from inferplan.components.platforms.aws.cluster_fields import EksClusterFields
from inferplan.components.platforms.aws.pool_spec import EksPool, node_groups
from inferplan.components.platforms.platform import Platform, Sections
from inferplan.documents.errors import SpecError
from inferplan.tables import table


class EksCluster(EksClusterFields):
    """An EKS cluster. Without `create` it is an existing cluster, which is not changed."""

    def platform(self, sections: Sections, *, stack: str, simulated_kubeconfig: str) -> Platform:
        del simulated_kubeconfig
        # Only here is pulumi_aws imported: it would cost a stack without AWS a second and 80 MiB.
        from inferplan.components.platforms.aws import lazy_sdk

        lazy_sdk.install()
        from inferplan.components.platforms.aws.platform import aws_platform

        return aws_platform(self, sections, stack)

    def node_usd_per_hour(self, pool: Pool) -> float | None:
        if isinstance(pool, EksPool) and pool.usd_per_hour is not None:
            return pool.usd_per_hour
        name = pool.node_type
        home = table("hardware/prices.toml")["region"]
        rows = table("hardware/ec2.csv" if self.region == home else "hardware/regions.csv")
        prices = (
            row["usdPerHour"]
            for row in rows
            if row["type"] == name and row.get("region", home) == self.region
        )
        return next((float(price) for price in prices if price), None)

    def notes(self, sections: Sections) -> Iterator[str]:
        """Yield how to reach a private API server, why pools stay node groups, and which may be in
        zones without their instance types.
        """
        if self.create is not None and not self.create.public_access_cidrs:
            yield (
                "cluster: the API server of the new cluster is private. Run up, status and kubectl"
                " on a machine that reaches the addresses of its VPC (VPN, peering, or a runner in"
                " it); elsewhere they time out after the cluster exists. To open it to some"
                " networks, set create.publicAccessCidrs."
            )
        if self.autoscaler is not None and sections.node_pools and not node_groups(sections):
            yield (
                f"cluster.autoscaler: {self.autoscaler} has no effect, because EKS Auto Mode adds"
                " the nodes of every pool. Remove it."
            )
        chosen = [
            name
            for name, pool in sections.node_pools.items()
            if isinstance(pool, EksPool) and pool.subnets is None
        ]
        if self.create is None and self.subnets is None and chosen:
            yield (
                f"nodePools: nodes of {', '.join(chosen)} start in the private subnets of cluster"
                f" {self.name}; a preview with AWS credentials names them. To choose others, set"
                " subnets of the pool."
            )
        keepers = {store.node_pool for store in sections.storage.values()}
        for name, pool in sections.node_pools.items():
            if isinstance(pool, EksPool) and self.has_auto_mode and not pool.is_auto_mode:
                reason = preferred(pool, keeps_models=name in keepers)[1]
                yield (
                    f"nodePools.{name} is a managed node group, not part of EKS Auto Mode:"
                    f" {reason or 'nodes is nodeGroup'}."
                )
            if isinstance(pool, EksPool) and pool.capacity_reservation is None:
                scarce = aws_api.scarce_types(pool.machines, self.region, pool.zones or self.zones)
                yield from (f"nodePools.{name}: {sentence}" for sentence in scarce)

    def errors(self, sections: Sections) -> Iterator[SpecError]:
        yield from super().errors(sections)
        yield from checks.errors(self, sections)
