"""Settings of docker run that a stack does not take: the error says why, and which way works."""

from __future__ import annotations

import pytest

from tests.unit.stackfile.test_checks import CONFIG, only
from tests.unit.stackfile.test_egress_checks import model


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("capAdd", ["SYS_NICE"], "topologyManagerPolicy: single-numa-node"),
        ("securityContext", {"capabilities": {"add": ["SYS_NICE"]}}, "restricted profile"),
        ("hostNetwork", True, "Clients reach a model through the gateway"),
        ("hostIPC", True, "write sharedMemory: 8Gi"),
        ("ulimits", {"memlock": -1, "stack": 67_108_864}, "LimitMEMLOCK and LimitSTACK"),
        ("nodePort", 30_080, "the Service of the ingress controller can be a NodePort"),
    ],
)
def test_a_refused_field_names_the_way(lines, field, value, words):
    line = only(lines(models=model(**{field: value})))
    assert f"models.find.{field}: Unknown field {field!r}." in line
    assert words in line


def test_a_volume_of_nfs_names_the_way(lines):
    volume = {"nfs": {"server": "nas.acme.example", "path": "/export/b"}, "mountPath": "/data"}
    [line] = [each for each in lines(models=model(volumes={"b": volume})) if "nfs" in each]
    assert "Declare the export as a PersistentVolume and a PersistentVolumeClaim under extraObjects" in line


def test_a_node_port_is_not_an_exposure_and_the_error_names_the_way(lines):
    [line] = [each for each in lines(gateway={**CONFIG["gateway"], "exposure": "NodePort"}) if "exposure" in each]
    assert "Write exposure: ingress" in line
    assert "can be a NodePort" in line


def test_a_prefix_by_another_name_is_corrected(lines):
    assert "Did you mean 'pathPrefix'?" in only(lines(gateway={**CONFIG["gateway"], "basePath": "/llm"}))
