"""Paths of the pod templates in objects of Kubernetes and of serving operators. Kinds are Pulumi's
types without the version.
"""

LEADER_WORKER_SET = "kubernetes:leaderworkerset.x-k8s.io:LeaderWorkerSet"
RAY_SERVICE = "kubernetes:ray.io:RayService"
RAY_JOB = "kubernetes:ray.io:RayJob"
JOB_SET = "kubernetes:jobset.x-k8s.io:JobSet"

RAY_CLUSTERS: dict[str, tuple[str, ...]] = {
    "kubernetes:ray.io:RayCluster": ("spec",),
    RAY_SERVICE: ("spec", "rayClusterConfig"),
    RAY_JOB: ("spec", "rayClusterSpec"),
}
"""Kinds with a cluster of Ray, and the path of the cluster."""

PATHS: dict[str, tuple[tuple[str, ...], ...]] = {
    "kubernetes:core:Pod": ((),),
    "kubernetes:core:PodTemplate": (("template",),),
    "kubernetes:core:ReplicationController": (("spec", "template"),),
    "kubernetes:apps:Deployment": (("spec", "template"),),
    "kubernetes:apps:StatefulSet": (("spec", "template"),),
    "kubernetes:apps:DaemonSet": (("spec", "template"),),
    "kubernetes:apps:ReplicaSet": (("spec", "template"),),
    "kubernetes:batch:Job": (("spec", "template"),),
    "kubernetes:batch:CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "kubernetes:argoproj.io:Rollout": (("spec", "template"),),
    "kubernetes:serving.knative.dev:Service": (("spec", "template"),),
    "kubernetes:keda.sh:ScaledJob": (("spec", "jobTargetRef", "template"),),
    JOB_SET: (("spec", "replicatedJobs", "*", "template", "spec", "template"),),
    "kubernetes:nvidia.com:DynamoGraphDeployment": (("spec", "components", "*", "podTemplate"),),
    LEADER_WORKER_SET: (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    **{
        kind: (
            (*cluster, "headGroupSpec", "template"),
            (*cluster, "workerGroupSpecs", "*", "template"),
            ("spec", "submitterPodTemplate"),
        )
        for kind, cluster in RAY_CLUSTERS.items()
    },
}
"""By kind, the paths of its pod templates; `*` is each item of a list."""

RUN_TO_END = frozenset(
    [
        "kubernetes:batch:Job",
        "kubernetes:batch:CronJob",
        RAY_JOB,
        "kubernetes:keda.sh:ScaledJob",
        JOB_SET,
    ]
)
"""Kinds whose pods are batch jobs."""
