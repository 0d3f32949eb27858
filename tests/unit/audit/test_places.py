from __future__ import annotations

from pathlib import Path

import pytest

from inferplan.audit.places import line_of, line_of_template
from inferplan.commands.audit.sources import read_side
from tests.unit.audit.test_sources import needs_kubectl

TEMPLATE = """\
{{- if .Values.enabled }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  ports:
  - name: http
    port: 80
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "x.name" . }}
  labels: {{- include "x.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  template:
    metadata:
      labels: {app: x}
    spec:
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: proxy
          image: proxy
        - name: server
          # the server's own image
          image: {{ .Values.image }}
          resources:
            limits:
              nvidia.com/gpu: {{ .Values.gpus }}
      volumes: [{name: a, persistentVolumeClaim: {claimName: b}}]
{{- end }}
"""
LINES = TEMPLATE.splitlines()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("spec.replicas", "replicas:"),
        ("spec.template.spec.nodeSelector", "nodeSelector:"),
        ("spec.template.spec.containers[0].image", "image: proxy"),
        ("spec.template.spec.containers[1].image", "image: {{ .Values.image }}"),
        ('spec.template.spec.containers[1].resources.limits["nvidia.com/gpu"]', "nvidia.com/gpu:"),
        ("spec.template.spec.volumes[0].persistentVolumeClaim.claimName", "volumes: [{"),
        ("spec.template.spec.tolerations", "    spec:"),
        ("spec.template.metadata.labels.app", "labels: {app: x}"),
        ("metadata.name", 'name: {{ include "x.name" . }}'),
        ("", "apiVersion: apps/v1"),
        # Keys of maps that an API server rejects, as it writes them.
        ("spec.template.metadata.labels[a b/c]", "labels: {app: x}"),
        ("data[a b/c]", "apiVersion: apps/v1"),
    ],
)
def test_the_line_of_a_field_is_where_its_deepest_key_is_written(field, words):
    first = line_of_template(LINES, "Deployment", 0)
    assert words in LINES[line_of(LINES, first, field) - 1]


def test_a_field_of_the_next_document_is_not_one_of_the_first():
    assert line_of(LINES, 2, "spec.replicas") == 6


def write_chart(root: Path) -> Path:
    chart = root / "any-folder"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: engine\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text("{}\n")
    (chart / "templates" / "all.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-settings\n"
        "data:\n  a: b\n{{- if .Release.IsInstall }}\n---\napiVersion: v1\nkind: Secret\n"
        "metadata:\n  name: first\nstringData:\n  a: b\n{{- end }}\n"
    )
    return chart


@pytest.mark.full
def test_both_sides_of_a_chart_are_one_release_and_the_new_one_is_an_upgrade(tmp_path):
    chart = write_chart(tmp_path)
    old = read_side(chart)
    new = read_side(chart, upgrade=True)
    assert [each.name for each in old.manifests] == ["first", "engine-settings"]
    assert [each.name for each in new.manifests] == ["engine-settings"]
    assert new.branches == ("Secret first",)
    assert new.manifests[0].place == f"{chart}/templates/all.yaml:1"
    assert new.manifests[0].place_of("data.a") == f"{chart}/templates/all.yaml:6"
    assert read_side(chart, release="mine").manifests[1].name == "mine-settings"


@needs_kubectl
def test_an_object_of_a_kustomization_has_the_place_of_its_resource(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "all.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n---\napiVersion: v1\n"
        "kind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  a: b\n"
    )
    (tmp_path / "base" / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "kustomization.yaml").write_text("resources: [../base]\nnamePrefix: my-\n")
    [manifest] = [
        each for each in read_side(tmp_path / "top").manifests if each.name == "my-settings"
    ]
    assert manifest.place == f"{tmp_path}/base/all.yaml:6"
    assert manifest.place_of("data.a") == f"{tmp_path}/base/all.yaml:11"
