"""The Job that a preheat registers: when it is made anew, what its pod may do, what servers get
from it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from inferplan.components.handles import CaBundle, NodeTarget
from inferplan.components.preheat.preheat_job import PreheatJob
from inferplan.components.preheat.spec import DEFAULT_HUB_IMAGE, DEFAULT_IMAGE, PreheatSpec
from inferplan.components.sources import HubStore, ObjectStore, VolumeClaim, WebStore
from inferplan.components.stores import WeightsSpec
from inferplan.hardware.accelerators import Taint
from inferplan.hardware.machines import Capacity
from tests.recorder import declare

JOB, MAP, POLICY = (
    "kubernetes:batch/v1:Job",
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy",
)
S3 = ObjectStore(
    bucket="acme-weights",
    prefix="llm",
    region="eu-central-1",
    endpoint="http://minio:9000",
    path_style=True,
    credentials="minio",
)

L40S = NodeTarget(
    pool="l40s",
    accelerator=None,
    node_selector={"inferplan.dev/pool": "l40s"},
    taints=(Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
    capacity=Capacity(cpu_millicores=48_000, memory_bytes=2**38),
    nodes=3,
)


def preheat(*, weights=None, spec=None, source=S3, target="shared"):
    lent = []
    recording = declare(
        lambda: lent.append(
            PreheatJob(
                "llama",
                WeightsSpec.model_validate(
                    {"store": "weights", "path": "llama-3-8b", "size": "16Gi", **(weights or {})}
                ),
                PreheatSpec.model_validate({"into": "shared", **(spec or {})}),
                source=source,
                target=VolumeClaim(name=target) if isinstance(target, str) else target,
                namespace="inference",
            )
        )
    )
    return recording, lent[0].mount


def job(**changes):
    return preheat(**changes)[0].one(JOB)


def pod(**changes):
    return job(**changes).inputs["spec"]["template"]["spec"]


def env(**changes):
    return {each["name"]: each for each in pod(**changes)["containers"][0]["env"]}


def test_an_unchanged_stack_declares_the_same_job():
    assert job().inputs == job().inputs


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {"revision": "v2"}},
        {"weights": {"path": "other"}},
        {"spec": {"round": 1}},
        {"spec": {"include": ["*.json"]}},
        {"spec": {"image": "python:3.12.1-slim"}},
        {"spec": {"cpu": "4"}},
        {"source": ObjectStore(bucket="other", prefix="llm")},
        {"source": ObjectStore(bucket="acme-weights", prefix="llm", credentials="other")},
        {"target": "other-claim"},
    ],
    ids=str,
)
def test_whatever_a_job_cannot_change_is_in_its_name(change):
    assert job(**change).inputs["metadata"]["name"] != job().inputs["metadata"]["name"]


@pytest.mark.parametrize(
    "change",
    [{"spec": {"timeoutSeconds": 7200}}, {"spec": {"ttlSecondsAfterFinished": None}}],
    ids=str,
)
def test_what_kubernetes_changes_in_place_repeats_no_transfer(change):
    assert job(**change).inputs["metadata"]["name"] == job().inputs["metadata"]["name"]
    assert job(**change).inputs["spec"] != job().inputs["spec"]


def test_a_job_that_failed_is_made_again_by_the_next_update():
    assert job().inputs["metadata"]["annotations"]["pulumi.com/replaceUnready"] == "true"


@pytest.mark.parametrize(
    "change",
    [{"weights": {"revision": "v2"}}, {"spec": {"round": 1}}, {"spec": {"exclude": ["*.bin"]}}],
    ids=str,
)
def test_other_content_is_another_directory(change):
    assert preheat(**change)[1].sub_path != preheat()[1].sub_path


@pytest.mark.parametrize(
    "change",
    [{"spec": {"cpu": "4"}}, {"target": "other-claim"}, {"spec": {"allowPickle": ["x.bin"]}}],
    ids=str,
)
def test_the_same_content_is_the_same_directory(change):
    assert preheat(**change)[1].sub_path == preheat()[1].sub_path


def test_servers_get_the_directory_and_the_job_to_wait_for():
    recording, mount = preheat()
    assert re.fullmatch(r"llama-3-8b/[0-9a-f]{10}-r0", mount.sub_path)
    assert json.loads(env()["PREHEAT_REQUEST"]["value"])["directory"] == mount.sub_path
    assert mount.gate is not None
    assert recording.one(MAP).urn in recording.one(JOB).dependencies


def test_a_finished_job_stays_for_a_month_or_as_long_as_asked_since_a_refresh_makes_a_removed_one_again():
    assert job().inputs["spec"]["ttlSecondsAfterFinished"] == 30 * 24 * 3600
    assert (
        job(spec={"ttlSecondsAfterFinished": 7200}).inputs["spec"]["ttlSecondsAfterFinished"]
        == 7200
    )
    assert (
        "ttlSecondsAfterFinished" not in job(spec={"ttlSecondsAfterFinished": None}).inputs["spec"]
    )


def test_a_job_that_fails_is_tried_again_a_bounded_number_of_times():
    spec = job().inputs["spec"]
    assert 1 <= spec["backoffLimit"] <= 6
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_a_job_that_cannot_succeed_is_not_tried_again_and_an_evicted_one_is():
    rules = job().inputs["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["action"] == "FailJob"
    assert rules[0]["onExitCodes"]["values"] == [2, 3]
    assert rules[1] == {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }


def seconds(text):
    return int(text.removesuffix("s"))


@pytest.mark.parametrize(
    ("size", "deadline"),
    [("1Gi", 1800), ("16Gi", 1800), ("140Gi", 600 + 2 * 140 * 1024 // 50), (None, 21600)],
)
def test_time_to_give_up_follows_the_size_and_pulumi_waits_longer(size, deadline):
    made = job(weights={"size": size})
    assert made.inputs["spec"]["activeDeadlineSeconds"] == pytest.approx(deadline, abs=2)
    assert (
        seconds(made.options.custom_timeouts.create)
        > made.inputs["spec"]["activeDeadlineSeconds"] + 600
    )


def test_every_container_fits_the_restricted_profile_and_states_what_it_needs():
    made = pod()
    assert made["securityContext"]["runAsNonRoot"] is True
    assert made["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in made["containers"] + made["initContainers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert (
            set(container["resources"]["requests"])
            == set(container["resources"]["limits"])
            == {"cpu", "memory"}
        )
    assert {next(iter(set(volume) - {"name"})) for volume in made["volumes"]} <= {
        "emptyDir",
        "configMap",
        "persistentVolumeClaim",
    }


def test_the_pod_asks_for_no_accelerator_and_sees_none():
    assert "nvidia.com" not in json.dumps(pod())
    assert "habana.ai" not in json.dumps(pod())
    assert env()["NVIDIA_VISIBLE_DEVICES"]["value"] == "void"
    assert "tolerations" not in pod()


def test_the_pod_holds_no_token_and_no_service_variables():
    assert pod()["automountServiceAccountToken"] is False
    assert pod()["enableServiceLinks"] is False


def test_credentials_are_references_and_never_values():
    variables = env()
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert variables[key]["valueFrom"] == {"secretKeyRef": {"name": "minio", "key": key}}
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & set(
        env(source=ObjectStore(bucket="b-1", prefix=""))
    )


def test_only_the_endpoints_port_is_opened():
    egress = preheat()[0].one(POLICY).inputs["spec"]["egress"]
    assert [port["port"] for rule in egress for port in rule["ports"]] == [9000]


def test_an_ambient_identity_may_be_fetched():
    egress = (
        preheat(source=ObjectStore(bucket="b-1", prefix=""))[0].one(POLICY).inputs["spec"]["egress"]
    )
    assert {"cidr": "169.254.170.23/32"} in [
        peer.get("ipBlock") for rule in egress for peer in rule["to"]
    ]


def test_a_share_as_a_source_is_mounted_read_only_and_opens_nothing():
    recording, _ = preheat(source=VolumeClaim(name="origin", origin="nfs://a/b"))
    assert not list(recording.of_type(POLICY))
    made = recording.one(JOB).inputs["spec"]["template"]["spec"]
    mount = next(each for each in made["containers"][0]["volumeMounts"] if each["name"] == "source")
    assert mount["readOnly"] is True
    assert not any("AWS" in each["name"] for each in made["containers"][0]["env"])


def test_the_program_travels_whole_and_imports_only_itself_and_the_standard_library():
    import sys

    files = preheat()[0].one(MAP).inputs["data"]
    assert {"__init__.py", "__main__.py", "run.py"} <= set(files)
    for name, text in files.items():
        for module in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE):
            assert module in sys.stdlib_module_names, f"{name} imports {module}"
    assert sum(map(len, files.values())) < 500_000, "a ConfigMap holds 1 MiB"


def test_names_fit_kubernetes_however_long_the_model_is_called():
    long = "m" * 63
    recording = declare(
        lambda: PreheatJob(
            long,
            WeightsSpec.model_validate({"store": "w", "path": "m"}),
            PreheatSpec.model_validate({"into": "s"}),
            source=S3,
            target=VolumeClaim(name="s"),
            namespace="n",
        )
    )
    for registration in recording.registrations:
        if registration.custom:
            assert len(registration.inputs["metadata"]["name"]) <= 63


WEB = WebStore(address="https://mirror.acme.example:8443/llm", credentials="mirror")
HUB = HubStore(endpoint="https://huggingface.co", credentials="hub")
DISKS = VolumeClaim(name="nvme-0a", origin="disk://l40s/mnt/nvme", nodes=L40S)


@pytest.mark.parametrize(
    ("source", "ports"),
    [(WEB, [8443]), (HUB, [443]), (replace(HUB, endpoint="http://hub.internal:8080"), [443, 8080])],
)
def test_only_the_ports_of_a_server_are_opened_and_the_metadata_address_is_not(source, ports):
    [rule] = preheat(source=source)[0].one(POLICY).inputs["spec"]["egress"]
    assert [port["port"] for port in rule["ports"]] == ports
    assert rule["to"][0]["ipBlock"]["except"] == ["169.254.169.254/32"]


@pytest.mark.parametrize(
    ("source", "variable", "secret"),
    [
        (WEB, "HTTP_AUTHORIZATION", {"name": "mirror", "key": "AUTHORIZATION"}),
        (HUB, "HF_TOKEN", {"name": "hub", "key": "HF_TOKEN"}),
    ],
    ids=["http", "hub"],
)
def test_the_right_to_read_a_server_is_a_reference(source, variable, secret):
    assert env(source=source)[variable]["valueFrom"] == {"secretKeyRef": secret}
    assert variable not in env(source=replace(source, credentials=None))
    assert not any("AWS" in each for each in env(source=source))


def test_a_hub_is_read_with_an_image_that_has_its_client_unless_another_is_named():
    assert pod(source=HUB)["containers"][0]["image"] == DEFAULT_HUB_IMAGE
    assert pod(source=WEB)["containers"][0]["image"] == DEFAULT_IMAGE
    assert pod(source=HUB, spec={"image": "acme/hub:1"})["containers"][0]["image"] == "acme/hub:1"
    assert env(source=HUB)["HF_ENDPOINT"]["value"] == "https://huggingface.co"


@pytest.mark.parametrize(
    "change", [{"address": "https://other.example"}, {"credentials": "other"}], ids=str
)
def test_another_server_is_another_job(change):
    assert (
        job(source=replace(WEB, **change)).inputs["metadata"]["name"]
        != job(source=WEB).inputs["metadata"]["name"]
    )


def test_other_named_files_are_another_directory():
    named = {"weights": {"files": {"config.json": "0" * 64}}, "source": WEB}
    assert preheat(source=WEB)[1].sub_path != preheat(**named)[1].sub_path
    assert json.loads(env(**named)["PREHEAT_REQUEST"]["value"])["files"] == {
        "config.json": "0" * 64
    }


def test_disks_of_nodes_are_filled_by_one_pod_on_each_node_of_the_pool():
    spec = job(target=DISKS).inputs["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    made = spec["template"]["spec"]
    assert made["nodeSelector"] == {"inferplan.dev/pool": "l40s"}
    assert made["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    [apart] = made["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert (
        apart["labelSelector"]["matchLabels"].items()
        <= spec["template"]["metadata"]["labels"].items()
    )


def test_pods_on_accelerator_nodes_ask_for_no_card_and_see_none():
    made = pod(target=DISKS)
    for container in made["containers"] + made["initContainers"]:
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert {next(iter(set(volume) - {"name"})) for volume in made["volumes"]} <= {
        "emptyDir",
        "configMap",
        "persistentVolumeClaim",
    }


def test_another_number_of_nodes_is_another_job_and_the_same_directory():
    more = replace(DISKS, nodes=replace(L40S, nodes=4))
    assert (
        job(target=more).inputs["metadata"]["name"] != job(target=DISKS).inputs["metadata"]["name"]
    )
    assert preheat(target=more)[1].sub_path == preheat(target=DISKS)[1].sub_path


SECRET_CA, MAPPED_CA = (
    CaBundle(kind="Secret", name="acme-ca", key="root.pem"),
    CaBundle(kind="ConfigMap", name="acme-ca"),
)


@pytest.mark.parametrize(
    "source", [replace(S3, endpoint="https://minio:9000"), WEB, HUB], ids=["s3", "http", "hub"]
)
@pytest.mark.parametrize(
    ("ca", "volume"),
    [
        (
            SECRET_CA,
            {"secret": {"secretName": "acme-ca", "items": [{"key": "root.pem", "path": "ca.crt"}]}},
        ),
        (
            MAPPED_CA,
            {"configMap": {"name": "acme-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ),
    ],
    ids=["Secret", "ConfigMap"],
)
def test_the_certificates_of_a_private_ca_are_mounted_read_only_and_nothing_beside_them(
    source, ca, volume
):
    made = pod(source=replace(source, ca=ca))
    assert [each for each in made["volumes"] if each["name"] == "ca"] == [{"name": "ca", **volume}]
    [container] = made["containers"]
    assert {"name": "ca", "mountPath": "/ca", "readOnly": True} in container["volumeMounts"]
    assert {"name": "PREHEAT_CA_BUNDLE", "value": "/ca/ca.crt"} in container["env"]
    assert "ca" not in {each["name"] for each in pod(source=source)["volumes"]}
    assert "PREHEAT_CA_BUNDLE" not in env(source=source)


@pytest.mark.parametrize("source", [S3, WEB, HUB], ids=["s3", "http", "hub"])
def test_another_ca_is_another_job_and_the_same_content(source):
    made = [
        (job(source=replace(source, ca=ca)), preheat(source=replace(source, ca=ca))[1].sub_path)
        for ca in (None, SECRET_CA, MAPPED_CA)
    ]
    assert len({each.inputs["metadata"]["name"] for each, _ in made}) == len(made)
    assert len({path for _, path in made}) == 1
    requests = {
        next(
            e["value"]
            for e in j.inputs["spec"]["template"]["spec"]["containers"][0]["env"]
            if e["name"] == "PREHEAT_REQUEST"
        )
        for j, _ in made
    }
    assert len(requests) == 1
