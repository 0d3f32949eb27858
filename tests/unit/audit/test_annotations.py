"""Deployers that write an object into an annotation cannot apply one that is too long for it."""

import pytest

from inferplan.audit.deployers import deployer
from inferplan.audit.manifest import Manifest


def manifest(size: int, **annotations: str) -> Manifest:
    metadata = {"name": "a", "annotations": annotations}
    data = {"text": "x" * size}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return Manifest(body=body, place="new.yaml:1")


@pytest.mark.parametrize(
    ("name", "is_limited"),
    [("argocd", True), ("flux", False), ("helm", False), ("kubectl", True), ("pulumi", False)],
)
def test_the_annotation_of_client_side_apply_is_limited(name, is_limited):
    assert deployer(name).is_too_long(manifest(270_000)) is is_limited
    assert not deployer(name).is_too_long(manifest(250_000))


def test_an_object_that_argo_cd_applies_on_the_server_side_is_not_limited():
    options = {"argocd.argoproj.io/sync-options": "Prune=false,ServerSideApply=true"}
    assert not deployer("argocd").is_too_long(manifest(270_000, **options))
