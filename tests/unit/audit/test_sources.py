from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from inferplan.audit.manifest import InputError
from inferplan.operations.auditing.sources import read_side

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl renders kustomizations")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "settings.yaml").write_text(OBJECT)
    (tmp_path / "base" / "kustomization.yaml").write_text("resources: [settings.yaml]\nnamePrefix: my-\n")
    return tmp_path


@needs_kubectl
def test_a_kustomization_is_rendered_with_its_transformers(folder):
    [manifest] = read_side(folder / "base").manifests
    assert (manifest.kind, manifest.name) == ("ConfigMap", "my-settings")


@needs_kubectl
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("resources:\n- https://github.com/acme/base//x?ref=v1\n", 2, "needs the network"),
        ("resources:\n- github.com/acme/base\n", 2, "needs the network"),
        ("helmCharts:\n- name: a\n", 1, "runs a program"),
        ("resources: [missing.yaml]\n", 1, "missing.yaml"),
    ],
)
def test_a_kustomization_that_needs_more_than_its_folder_is_one_line(folder, text, line, words):
    (folder / "base" / "kustomization.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_side(folder / "base")
    [error] = caught.value.errors
    assert f"kustomization.yaml:{line}: " in error
    assert words in error


def test_a_path_of_a_revision_is_read_as_it_was_then(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for line in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"]):
        subprocess.run(["git", *line], check=True)  # noqa: S607 - the git of the developer
    (folder / "base" / "settings.yaml").write_text(OBJECT.replace("settings", "renamed"))
    [manifest] = read_side("HEAD:base/settings.yaml").manifests
    assert (manifest.name, manifest.place) == ("settings", "HEAD:base/settings.yaml:1")
    with pytest.raises(InputError, match="HEAD:nothing: There is no such file, folder or revision"):
        read_side("HEAD:nothing")
    with pytest.raises(InputError, match="no such file, folder or revision"):
        read_side("--output=x:base")


def test_engine_events_have_both_sides_and_no_secret(tmp_path):
    def event(op, old, new):
        urn = f"urn:pulumi:dev::app::kubernetes:core/v1:{(new or old)['kind']}::{(new or old)['metadata']['name']}"
        states = {"old": {"inputs": old} if old else None, "new": {"inputs": new} if new else None}
        return {"resourcePreEvent": {"metadata": {"op": op, "urn": urn, "type": urn.split("::")[2], **states}}}

    def body(kind, name, **fields):
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}

    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": "never"}
    events = [
        event(
            "update", body("ConfigMap", "a", data={"x": "1"}), body("ConfigMap", "a", data={"x": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"})
        ),
        event("create", None, body("Secret", "s", stringData={"token": secret})),
        event("delete", body("ConfigMap", "gone"), None),
    ]
    (tmp_path / "events.ndjson").write_text("".join(json.dumps(each) + "\n" for each in events))
    side = read_side(tmp_path / "events.ndjson")
    assert [each.name for each in side.manifests] == ["a", "s"]
    assert [each.name for each in side.before or ()] == ["a", "gone"]
    assert side.manifests[0].body["data"] == {"x": "hidden"}
    assert "never" not in str(side)


@pytest.mark.full
def test_a_chart_is_rendered_by_helm_and_its_templates_reach_nothing(tmp_path):
    chart = tmp_path / "app"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text("size: 1\n")
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: "{{ .Values.size }}", host: "{{ env }}"}\n'
    template = chart / "templates" / "settings.yaml"
    template.write_text(text.replace("{{ env }}", '{{ getHostByName "example.com" }}'))
    (tmp_path / "mine.yaml").write_text("size: 2\n")
    [manifest] = read_side(chart, values=[tmp_path / "mine.yaml"]).manifests
    assert manifest.body["data"] == {"size": "2", "host": ""}
    assert manifest.place.startswith("app/templates/settings.yaml, line ")
    template.write_text(text)  # `env` is none of Helm's functions
    with pytest.raises(InputError, match=r"app/templates/settings\.yaml:4: Helm cannot render it: .*\"env\" not defined"):
        read_side(chart)
    (chart / "Chart.yaml").write_text(
        "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: b, version: 1.0.0, repository: 'https://example.com'}]\n"
    )
    with pytest.raises(InputError, match=r"Chart\.yaml:1: Helm cannot render it: .*missing in charts.*helm dependency build"):
        read_side(chart)


@pytest.mark.parametrize("name", ["../../nodes/a", "a/b", "a%2fb", "a?b", "..", "a b"])
def test_a_name_that_would_change_the_path_of_a_request_is_rejected_with_file_and_line(name, tmp_path):
    (tmp_path / "a.yaml").write_text(OBJECT.replace("settings", f"'{name}'"))
    with pytest.raises(InputError, match=r"a\.yaml:1: ConfigMap: .* is not a name"):
        read_side(tmp_path / "a.yaml")
