"""What goes with a namespace or a definition that is deleted: objects of others are named, and what
controllers made for the stack is not.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from inferplan.commands.down.down import check_cluster_contents
from inferplan.errors import OperationError
from inferplan.kube.contents import foreign_contents

VERBS = ["create", "delete", "get", "list"]
CORE = (
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "PersistentVolumeClaim",
    "Service",
    "Endpoints",
    "Event",
    "Pod",
)
APPS = ("Deployment", "ReplicaSet", "StatefulSet")
OWN = {
    ("", "Namespace", "", "models"),
    ("apps", "Deployment", "models", "llama"),
    ("", "Service", "models", "gateway"),
    ("cert-manager.io", "Certificate", "models", "front"),
    ("", "PersistentVolumeClaim", "models", "shared"),
}


def resources(*kinds: str, verbs: list[str] = VERBS) -> dict[str, Any]:
    return {
        "resources": [
            {"name": f"{each.lower()}s", "kind": each, "namespaced": True, "verbs": verbs}
            for each in kinds
        ]
    }


class Server:
    """A server with `objects` in the namespace models, which pages its lists and denies the plurals
    in `denied`.
    """

    def __init__(
        self, *objects: dict[str, Any], denied: tuple[str, ...] = (), page: int = 2
    ) -> None:
        self.objects, self.denied, self.page = objects, denied, page
        self.answers = {
            "/apis": {
                "groups": [
                    {
                        "name": "apps",
                        "versions": [{"groupVersion": "apps/v1"}, {"groupVersion": "apps/v1beta1"}],
                        "preferredVersion": {"groupVersion": "apps/v1"},
                    },
                    {"name": "example.com", "versions": [{"groupVersion": "example.com/v1"}]},
                    {"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1"}]},
                ]
            },
            "/api/v1": {
                "resources": [
                    *resources(*CORE)["resources"],
                    {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": VERBS},
                ]
            },
            "/apis/apps/v1": resources(*APPS),
            "/apis/apps/v1beta1": resources("OldSet"),
            "/apis/example.com/v1": resources("Widget"),
            "/apis/metrics.k8s.io/v1": resources("PodMetrics", verbs=["get", "list"]),
            "/api/v1/persistentvolumes/vol": {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        }

    def __call__(self, path: str) -> Any:
        parts = urlsplit(path)
        if parts.path in self.answers:
            return self.answers[parts.path]
        plural = parts.path.rpartition("/")[2]
        assert "podmetrics" not in plural, "a kind without deletion was listed"
        if plural in self.denied:
            raise PermissionError(path)
        items = [each for each in self.objects if f"{each['kind'].lower()}s" == plural]
        start = int(parse_qs(parts.query).get("continue", ["0"])[0])
        following = start + self.page
        return {
            "items": items[start:following],
            "metadata": {"continue": str(following) if following < len(items) else ""},
        }


def made(kind: str, name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    references = [
        {
            "apiVersion": each.get("apiVersion", "v1"),
            "kind": each["kind"],
            "name": each["metadata"]["name"],
            "uid": each["metadata"]["uid"],
        }
        for each in owners
    ]
    own = {
        "name": name,
        "namespace": "models",
        "uid": f"{kind}-{name}",
        **({"ownerReferences": references} if owners else {}),
        **metadata,
    }
    return {"kind": kind, "apiVersion": "apps/v1" if kind in APPS else "v1", "metadata": own}


def foreign(*objects: dict[str, Any], **options: Any) -> tuple[str, ...]:
    return foreign_contents(
        Server(*objects), ("", "Namespace", "", "models"), OWN, **options
    ).foreign


SERVER = made("Deployment", "llama")
REPLICAS = made("ReplicaSet", "llama-1", SERVER)
THEIRS = made("Deployment", "theirs")


@pytest.mark.parametrize(
    "each",
    [
        made("ConfigMap", "kube-root-ca.crt"),
        made("ServiceAccount", "default"),
        made("Event", "anything"),
        made("Endpoints", "gateway"),
        made("Secret", "front-tls", annotations={"cert-manager.io/certificate-name": "front"}),
        made(
            "Secret", "default-token", annotations={"kubernetes.io/service-account.name": "default"}
        ),
        made("PersistentVolumeClaim", "shared"),
        made("PersistentVolumeClaim", "theirs", deletionTimestamp="2026-11-28T00:00:00Z"),
        made("Pod", "collected", made("ReplicaSet", "gone")),
    ],
    ids=lambda each: each["metadata"]["name"],
)
def test_what_the_stack_or_kubernetes_made_is_not_foreign(each):
    assert foreign(each) == ()


def test_what_controllers_made_for_an_object_of_the_stack_is_not_foreign_through_any_number_of_owners():
    assert foreign(SERVER, REPLICAS, made("Pod", "llama-1-x", REPLICAS)) == ()


def test_endpoints_belong_to_whom_their_service_belongs():
    """A LeaderWorkerSet has a Service, whose Endpoints name no owner."""
    group = made("Service", "llama-group", SERVER)
    assert foreign(SERVER, group, made("Endpoints", "llama-group")) == ()
    theirs = foreign(made("Service", "database"), made("Endpoints", "database"))
    assert theirs == ("Endpoints database", "Service database")


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (made("PersistentVolumeClaim", "source"), "PersistentVolumeClaim source"),
        (
            made("PersistentVolumeClaim", "data-redis-0", labels={"app": "redis"}),
            "PersistentVolumeClaim data-redis-0",
        ),
        (
            made(
                "PersistentVolumeClaim", "x", labels={"app.kubernetes.io/managed-by": "inferplan"}
            ),
            "PersistentVolumeClaim x",
        ),
        (
            made(
                "PersistentVolumeClaim",
                "x",
                annotations={"cert-manager.io/certificate-name": "front"},
            ),
            "PersistentVolumeClaim x",
        ),
        (made("ConfigMap", "notes"), "ConfigMap notes"),
        (made("Secret", "password"), "Secret password"),
        (
            made("Secret", "other-tls", annotations={"cert-manager.io/certificate-name": "other"}),
            "Secret other-tls",
        ),
        (made("Endpoints", "database"), "Endpoints database"),
        (made("ServiceAccount", "robot"), "ServiceAccount robot"),
        (made("Widget", "w", finalizers=["example.com/keep"]), "Widget.example.com w"),
        (made("OldSet", "o"), "OldSet o"),
        (made("Deployment", "llama-copy"), "Deployment llama-copy"),
        (
            made("Pod", "of-a-node", {"kind": "Node", "metadata": {"name": "n", "uid": "u"}}),
            "Pod of-a-node",
        ),
        (
            {
                **made("Secret", "sh.helm.v1", labels={"name": "redis"}),
                "type": "helm.sh/release.v1",
            },
            "Helm release redis",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_objects_of_others_are_named(each, text):
    assert foreign(SERVER, each) == (text,)


def test_claims_come_first_and_the_policy_that_deletes_their_data_is_named():
    claim = made("PersistentVolumeClaim", "source") | {"spec": {"volumeName": "vol"}}
    assert foreign(made("ConfigMap", "a"), claim) == (
        "PersistentVolumeClaim source (volume vol, whose data would be deleted too)",
        "ConfigMap a",
    )


def test_only_the_owner_of_a_tree_is_named_but_every_claim():
    replicas, claim = (
        made("ReplicaSet", "theirs-1", THEIRS),
        made("PersistentVolumeClaim", "scratch", THEIRS),
    )
    assert foreign(THEIRS, replicas, made("Pod", "theirs-1-x", replicas), claim) == (
        "PersistentVolumeClaim scratch",
        "Deployment theirs",
    )


def test_an_object_that_two_own_is_kept_for_the_other_owner_and_a_circle_of_owners_ends():
    assert foreign(SERVER, THEIRS, made("ConfigMap", "both", SERVER, THEIRS)) == (
        "Deployment theirs",
    )
    node = {"kind": "Node", "metadata": {"name": "n", "uid": "u"}}
    assert foreign(SERVER, made("ConfigMap", "both", SERVER, node)) == ("ConfigMap both",)
    one = made("ReplicaSet", "one", made("ReplicaSet", "two"))
    assert foreign(one, made("ReplicaSet", "two", one)) == ("ReplicaSet one", "ReplicaSet two")


def test_every_page_of_a_list_is_read():
    assert len(foreign(*(made("ConfigMap", f"m{number}") for number in range(7)))) == 7


def test_after_the_deletion_whatever_is_left_counts_also_objects_of_the_stack():
    assert foreign(SERVER, REPLICAS, made("Endpoints", "gateway"), after=True) == (
        "Deployment llama",
    )
    assert foreign(REPLICAS, made("Pod", "p", REPLICAS), after=True) == ()


def test_kinds_that_cannot_be_listed_are_named_and_count_as_contents():
    contents = foreign_contents(
        Server(denied=("secrets", "widgets")), ("", "Namespace", "", "models"), OWN
    )
    assert contents
    assert contents.unlisted == ("secrets", "widgets.example.com")
    assert (
        "kinds that could not be listed, so their objects are unknown: secrets,"
        " widgets.example.com" in str(contents)
    )


def test_an_api_group_that_does_not_answer_is_named():
    server = Server()
    del server.answers["/apis/example.com/v1"]
    server.denied = ("v1",)
    assert foreign_contents(server, ("", "Namespace", "", "models"), OWN).unlisted == (
        "the kinds of example.com/v1",
    )


def test_objects_of_a_definition_in_any_namespace_are_foreign_unless_the_stack_has_them():
    server = Server(made("Widget", "mine"), made("Widget", "theirs"))
    definition = {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": True}],
    }
    server.answers["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = {
        "items": [{"spec": definition}]
    }
    own = {("example.com", "Widget", "models", "mine")}
    identity = ("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com")
    contents = foreign_contents(server, identity, own)
    assert contents.foreign == ("Widget.example.com theirs",)


def test_a_simulated_cluster_is_kept_while_a_kind_cannot_be_listed(monkeypatch):
    cluster = SimpleNamespace(get=Server(denied=("secrets",)), directory=None, uid="u")
    monkeypatch.setattr("inferplan.rehearsal.cluster.status", lambda _: "running")
    monkeypatch.setattr("inferplan.rehearsal.cluster.start", lambda _: cluster)
    monkeypatch.setattr("inferplan.rehearsal.apply.journal.load", lambda *_: ((), ()))
    monkeypatch.setattr(
        "inferplan.workspace.simulated_cluster.namespaces_of", lambda _: ("models",)
    )
    with pytest.raises(
        OperationError, match=r"(?s)could not be listed.*: secrets\n.*--cluster --y"
    ):
        check_cluster_contents("local", "inferplan down local")
