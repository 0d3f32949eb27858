"""The gateway's pods: how nginx starts, is probed, secured and drained.

A change of keys or configuration is rolled out with new pods instead of reloading nginx: the update
ends when the new keys work and the old ones are denied, a configuration that nginx rejects never
replaces a working one, and no process has to watch files. Old pods finish their streams in the
meantime.
"""

from collections.abc import Mapping, Sequence

import pulumi

from inferplan.components.gateway import budget_pods
from inferplan.components.gateway.memory import limit_mib
from inferplan.components.gateway.proxy import ProxyLayout
from inferplan.components.gateway.spec import PROXY_REQUESTS, NginxGatewaySpec
from inferplan.components.kubernetes import apps, core, meta
from inferplan.components.metrics_ports import STATUS_PORT
from inferplan.components.pod_parts import container_security, spread
from inferplan.kube.names import EPHEMERAL_STORAGE, GATEWAY_KEYS

HTTP_PORT = 8080
GRPC_PORT = 8082
CONFIG = "/etc/gateway"
LAYOUT = ProxyLayout()
_KEYS = "/etc/gateway-keys"
_USER = 101
_SYSCTLS = {
    # Where a call uses a connection of its own, its port stays in TIME_WAIT for a minute: these ports
    # allow 900 calls per second to one model.
    "ip_local_port_range": "10000 65535",
    # An idle connection to a model is probed after one minute and closed after two. With the
    # kernel's default of two hours nginx would not notice a lost node, and a network that drops
    # idle connections would drop those that are in use.
    "tcp_keepalive_time": "60",
    "tcp_keepalive_intvl": "20",
    "tcp_keepalive_probes": "3",
}
_MARGIN_SECONDS = 15
# The kubelet's SIGTERM would cut streams, SIGQUIT lets nginx finish them. A hook that waits for nginx
# would end with its container, which the kubelet reports as FailedPreStopHook.
_SERVE = (
    "trap 'kill -QUIT $!' TERM; "
    f"nginx -c {CONFIG}/nginx.conf -g 'daemon off;' & "
    # A signal ends `wait`, but not nginx.
    "until wait $!; code=$?; ! kill -0 $! 2>/dev/null; do :; done; exit $code"
)


def deployment(  # noqa: PLR0913 - each is one part of the pods
    spec: NginxGatewaySpec,
    labels: Mapping[str, str],
    *,
    config_maps: Sequence[pulumi.Input[str]],
    keys_secret: pulumi.Input[str],
    fingerprint: pulumi.Input[str],
    service_account: pulumi.Input[str],
    grpc: bool,
    annotations: Mapping[str, str] = {},
    budgets: Mapping[str, int] = {},
) -> apps.DeploymentSpecArgsDict:
    """Return the spec of the Deployment; a pod terminates only after its replacement is ready."""
    return apps.DeploymentSpecArgsDict(
        replicas=spec.replicas,
        selector=meta.LabelSelectorArgsDict(match_labels=dict(labels)),
        strategy=apps.DeploymentStrategyArgsDict(
            type="RollingUpdate",
            rolling_update=apps.RollingUpdateDeploymentArgsDict(max_surge="25%", max_unavailable=0),
        ),
        progress_deadline_seconds=600,
        revision_history_limit=3,
        template=core.PodTemplateSpecArgsDict(
            metadata=meta.ObjectMetaArgsDict(
                labels=dict(labels), annotations={GATEWAY_KEYS: fingerprint, **annotations}
            ),
            spec=core.PodSpecArgsDict(
                service_account_name=service_account,
                automount_service_account_token=False,
                enable_service_links=False,
                termination_grace_period_seconds=spec.access.deregistration_seconds
                + spec.drain_seconds
                + _MARGIN_SECONDS,
                # Terminating pods do not count, or the remaining ones could end up in one zone.
                topology_spread_constraints=spread(labels, match_label_keys=["pod-template-hash"]),
                security_context=_pod_security(),
                init_containers=[_prepare(spec)],
                containers=[
                    _proxy(spec, grpc=grpc, budgets=bool(budgets)),
                    *([budget_pods.container(budgets, CONFIG)] if budgets else []),
                ],
                volumes=[
                    *_volumes(config_maps, keys_secret),
                    *([budget_pods.volume()] if budgets else []),
                ],
            ),
        ),
    )


def _prepare(spec: NginxGatewaySpec) -> core.ContainerArgsDict:
    fingerprint = core.EnvVarSourceArgsDict(
        field_ref=core.ObjectFieldSelectorArgsDict(
            field_path=f"metadata.annotations['{GATEWAY_KEYS}']"
        )
    )
    return core.ContainerArgsDict(
        name="prepare",
        image=spec.image,
        working_dir="/",
        command=[
            "sh",
            f"{CONFIG}/prepare.sh",
            f"{CONFIG}/nginx.conf",
            LAYOUT.keys_file,
            LAYOUT.runtime_file,
        ],
        env=[core.EnvVarArgsDict(name="KEYS_FINGERPRINT", value_from=fingerprint)],
        resources=_resources(),
        security_context=container_security(),
        # `kubectl describe pod` and `inferplan up` show the last line of the log.
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=_mounts(),
    )


def _proxy(spec: NginxGatewaySpec, *, grpc: bool, budgets: bool) -> core.ContainerArgsDict:
    ports = [
        core.ContainerPortArgsDict(name="http", container_port=HTTP_PORT),
        core.ContainerPortArgsDict(name="status", container_port=STATUS_PORT),
    ]
    if grpc:
        ports.append(core.ContainerPortArgsDict(name="grpc", container_port=GRPC_PORT))
    health = core.HTTPGetActionArgsDict(path="/healthz", port="status")
    # nginx looks up the servers of kept connections when it starts; without any it answers at once.
    started = core.HTTPGetActionArgsDict(path="/startz", port="status")
    # nginx listens until load balancers stop sending calls, which is the time of the hook.
    leave = f"sleep {spec.access.deregistration_seconds}"
    return core.ContainerArgsDict(
        name="nginx",
        image=spec.image,
        working_dir="/",
        command=["sh", "-c", _SERVE],
        ports=ports,
        resources=_resources(),
        startup_probe=core.ProbeArgsDict(
            http_get=started, period_seconds=1, failure_threshold=60, timeout_seconds=2
        ),
        readiness_probe=core.ProbeArgsDict(
            http_get=health, period_seconds=5, failure_threshold=2, timeout_seconds=2
        ),
        liveness_probe=core.ProbeArgsDict(
            http_get=health, period_seconds=10, failure_threshold=6, timeout_seconds=5
        ),
        lifecycle=core.LifecycleArgsDict(
            pre_stop=core.LifecycleHandlerArgsDict(
                exec_=core.ExecActionArgsDict(command=["sh", "-c", leave])
            )
        ),
        security_context=container_security(),
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=_mounts(budgets=budgets),
    )


def _resources() -> core.ResourceRequirementsArgsDict:
    return core.ResourceRequirementsArgsDict(
        requests=dict(PROXY_REQUESTS),
        limits={"memory": f"{limit_mib()}Mi", EPHEMERAL_STORAGE: "256Mi"},
    )


def _mounts(*, budgets: bool = False) -> list[core.VolumeMountArgsDict]:
    spent = core.VolumeMountArgsDict(name="budgets", mount_path=budget_pods.FOLDER, read_only=True)
    return [
        core.VolumeMountArgsDict(name="config", mount_path=CONFIG, read_only=True),
        core.VolumeMountArgsDict(name="keys", mount_path=_KEYS, read_only=True),
        core.VolumeMountArgsDict(name="tmp", mount_path=LAYOUT.scratch),
        *([spent] if budgets else []),
    ]


def _volumes(
    config_maps: Sequence[pulumi.Input[str]], keys_secret: pulumi.Input[str]
) -> Sequence[core.VolumeArgsDict]:
    return [
        _config_volume(config_maps),
        core.VolumeArgsDict(
            name="keys",
            secret=core.SecretVolumeSourceArgsDict(secret_name=keys_secret, default_mode=0o440),
        ),
        core.VolumeArgsDict(
            name="tmp", empty_dir=core.EmptyDirVolumeSourceArgsDict(size_limit="128Mi")
        ),
    ]


def _config_volume(config_maps: Sequence[pulumi.Input[str]]) -> core.VolumeArgsDict:
    if len(config_maps) == 1:
        [only] = config_maps
        source = core.ConfigMapVolumeSourceArgsDict(name=only, default_mode=0o444)
        return core.VolumeArgsDict(name="config", config_map=source)
    sources = [
        core.VolumeProjectionArgsDict(config_map=core.ConfigMapProjectionArgsDict(name=each))
        for each in config_maps
    ]
    together = core.ProjectedVolumeSourceArgsDict(sources=sources, default_mode=0o444)
    return core.VolumeArgsDict(name="config", projected=together)


def _pod_security() -> core.PodSecurityContextArgsDict:
    return core.PodSecurityContextArgsDict(
        run_as_non_root=True,
        run_as_user=_USER,
        run_as_group=_USER,
        fs_group=_USER,
        seccomp_profile=core.SeccompProfileArgsDict(type="RuntimeDefault"),
        sysctls=[
            core.SysctlArgsDict(name=f"net.ipv4.{name}", value=value)
            for name, value in _SYSCTLS.items()
        ],
    )
