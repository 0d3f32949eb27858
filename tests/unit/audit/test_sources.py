from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from inferplan.audit.documents import content_of
from inferplan.audit.fleet import read_fleet
from inferplan.audit.manifest import InputError
from inferplan.audit.renderers import render_chart
from inferplan.commands.audit.sources import read_side
from inferplan.errors import OperationError

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl renders kustomizations"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "settings.yaml").write_text(OBJECT)
    (tmp_path / "base" / "kustomization.yaml").write_text(
        "resources: [settings.yaml]\nnamePrefix: my-\n"
    )
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
        ("resources: [missing.yaml]\n", 1, "kustomize cannot render it: accumulating resources: "),
        ("resources: [missing.yaml]\n", 1, "Correct the kustomization."),
        ("resources: ['http://127.0.0.1/a.yaml']\n", 1, "needs the network"),
        (
            "resources: [settings.yaml]\npatches: [{path: 'https://example.com'}]\n",
            2,
            "needs the network",
        ),
        (
            (
                "resources: [settings.yaml]\nconfigMapGenerator: [{name: g, files:"
                " ['a=http://127.0.0.1/f']}]\n"
            ),
            2,
            "needs the network",
        ),
        ("resources: [a.yaml\n", 2, "Invalid YAML"),
    ],
)
def test_a_kustomization_that_needs_more_than_its_folder_is_one_line(folder, text, line, words):
    (folder / "base" / "kustomization.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_side(folder / "base")
    [error] = caught.value.errors
    assert f"kustomization.yaml:{line}:" in error
    assert words in error


@needs_kubectl
def test_an_address_in_the_objects_of_a_kustomization_needs_no_network(folder):
    (folder / "overlay").mkdir()
    text = "resources: [../base]\ncommonAnnotations: {docs: https://example.com}\n"
    (folder / "overlay" / "kustomization.yaml").write_text(text)
    assert read_side(folder / "overlay").manifests[0].annotation("docs") == "https://example.com"
    (folder / "base" / "kustomization.yaml").write_text(
        "resources: ['https://example.com/a.yaml']\n"
    )
    with pytest.raises(InputError, match=r"base/kustomization\.yaml:1: .* needs the network"):
        read_side(folder / "overlay")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare removes the network")
def test_a_kustomization_reaches_no_server_of_this_machine(folder):
    requests = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_error(404)

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        text = (
            "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\npath:"
            f" http://127.0.0.1:{server.server_port}/p.yaml\n"
        )
        (folder / "base" / "transformer.yaml").write_text(text)
        (folder / "base" / "kustomization.yaml").write_text(
            "resources: [settings.yaml]\ntransformers: [transformer.yaml]\n"
        )
        with pytest.raises(InputError, match="cannot render it"):
            read_side(folder / "base")
        server.shutdown()
    assert requests == []


@needs_kubectl
def test_a_file_of_a_kustomization_that_is_not_yaml_is_named_with_its_line(folder):
    (folder / "base" / "settings.yaml").write_text(OBJECT + "b: c: d\n")
    with pytest.raises(
        InputError,
        match=(
            r"base/settings\.yaml:5: kustomize cannot render it: .*mapping values are not allowed"
        ),
    ):
        read_side(folder / "base")


@needs_kubectl
@pytest.mark.parametrize(
    "text",
    [
        "secretGenerator: [{name: s, literals: [CANARY]}]",
        "patches:\n- target: {kind: Secret}\n  patch: |-\n    - path: [a\n      value: CANARY",
        "patchesStrategicMerge:\n- |-\n    kind: Secret\n    stringData: {password: CANARY}",
    ],
)
def test_a_message_of_a_kustomization_does_not_show_its_passwords(folder, text):
    (folder / "base" / "kustomization.yaml").write_text(f"resources: [settings.yaml]\n{text}\n")
    with pytest.raises(InputError, match="kustomize cannot render it") as caught:
        read_side(folder / "base")
    assert "CANARY" not in str(caught.value)


def _chart(folder: Path, **files: str) -> Path:
    for each in ("templates", "crds"):
        (folder / each).mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    for name, text in files.items():
        (folder / name.replace("__", "/").replace("_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "reference", ["file:///etc/passwd", "http://127.0.0.1/a.json", "../../etc/passwd", "a.json"]
)
def test_a_schema_that_names_another_file_is_rejected_before_helm_runs(tmp_path, reference, packed):
    chart, part = (
        _chart(tmp_path / "app"),
        _chart(tmp_path / "part", values_schema_json=f'{{\n"$ref": "{reference}"}}'),
    )
    (chart / "charts").mkdir()
    if packed:
        with tarfile.open(chart / "charts" / "part.tgz", "w:gz") as archive:
            archive.add(part, "part")
    else:
        part.rename(chart / "charts" / "part")
    with pytest.raises(
        InputError, match=r"charts/part.*/values\.schema\.json:2: \$ref leaves the schema"
    ):
        render_chart(
            Path("no-helm"),
            chart,
            [],
            namespace="default",
            kubernetes="v1.34.0",
            release="r",
            upgrade=False,
        )


@pytest.mark.full
def test_a_message_of_a_chart_does_not_show_its_passwords(tmp_path):
    template = '{{ fail (printf "%s, %s: install app first" .Values.auth.password .Values.note) }}'
    chart = _chart(
        tmp_path / "app",
        templates__a_yaml=template,
        values_yaml="auth: {password: CANARY}\nnote: CANARY-CANARY-CANARY\n",
    )
    for values in ("{}", "auth: {password: CANARY-2}\n"):
        (tmp_path / "mine.yaml").write_text(values)
        with pytest.raises(InputError, match=r"templates/a\.yaml:1: .*install app first") as caught:
            read_side(chart, values=[tmp_path / "mine.yaml"])
        assert "CANARY" not in str(caught.value)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "text", "place", "words"),
    [
        (
            "templates__a_yaml",
            OBJECT + "b: c: d\n",
            "app/templates/a.yaml:5: ",
            "mapping values are not allowed in this context. Correct",
        ),
        (
            "templates__a_yaml",
            "{{ range until 2000000000 }}x{{ end }}",
            "app/Chart.yaml:1: ",
            "it needs more memory than an audit allows",
        ),
        ("crds__a_yaml", "not: an object\n", "app/crds/a.yaml:1: ", "The object has no apiVersion"),
    ],
)
def test_an_error_of_a_chart_names_its_file_and_line_in_one_sentence(
    tmp_path, name, text, place, words
):
    with pytest.raises(InputError) as caught:
        read_side(_chart(tmp_path / "app", templates__b_yaml=OBJECT, **{name: text}))
    [error] = caught.value.errors
    assert error.startswith(f"{tmp_path}/{place}")
    assert words in error
    assert "goroutine" not in error


@pytest.mark.parametrize(
    "source",
    [
        "https://user:CANARY@example.com/chart",
        "https://CANARY@example.com/a",
        "https://a:CANARY/b@example.com",
    ],
)
def test_credentials_of_an_address_are_not_shown(source, tmp_path):
    _chart(tmp_path / "app")
    for read in (
        lambda: read_side(source),
        lambda: read_fleet(content_of(Path(source)), "nodes.yaml"),
    ):
        with pytest.raises(InputError, match=r"example\.com") as caught:
            read()
        assert "CANARY" not in str(caught.value)


def test_text_that_is_no_event_is_not_shown(tmp_path):
    (tmp_path / "a.ndjson").write_text('{"preludeEvent": {}}\nCANARY\n')
    with pytest.raises(InputError, match=r"a\.ndjson:2: this line is not JSON") as caught:
        read_side(tmp_path / "a.ndjson")
    assert "CANARY" not in str(caught.value)


def test_a_path_of_a_revision_is_read_as_it_was_then(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for line in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *line], check=True)  # noqa: S607 - the git of the developer
    (folder / "base" / "settings.yaml").write_text(OBJECT.replace("settings", "renamed"))
    [manifest] = read_side("HEAD:base/settings.yaml").manifests
    assert (manifest.name, manifest.place) == ("settings", "HEAD:base/settings.yaml:1")
    with pytest.raises(InputError, match="HEAD:nothing: There is no such file, folder or revision"):
        read_side("HEAD:nothing")
    with pytest.raises(InputError, match="no such file, folder or revision"):
        read_side("--output=x:base")


def test_a_revision_without_git_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(OperationError, match=r"git is not on PATH.*Install it\."):
        read_side("HEAD:base")


@pytest.fixture
def repository(folder, monkeypatch):
    (folder / "overlay").mkdir()
    (folder / "overlay" / "kustomization.yaml").write_text("resources: [../base]\n")
    (folder / "link").symlink_to("/etc")
    (folder / ".gitattributes").write_text(
        "*.yaml filter=own export-subst\noverlay export-ignore\n"
    )
    monkeypatch.chdir(folder)
    filters = ["-c", f"filter.own.smudge=touch {folder}/ran", "-c", "filter.own.clean=cat"]
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for line in (
        ["init", "-q"],
        ["config", "filter.own.smudge", f"touch {folder}/ran; cat"],
        ["add", "."],
        [*identity, "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *filters, *line], check=True)  # noqa: S607 - the git of the developer
    return folder


@needs_kubectl
def test_an_overlay_of_a_revision_reads_its_base_and_runs_no_filter(repository, monkeypatch):
    shutil.rmtree(repository / "base")
    [manifest] = read_side("HEAD:overlay").manifests
    assert manifest.name == "my-settings"
    monkeypatch.chdir(repository / "overlay")
    assert read_side("HEAD:.").manifests[0].name == "my-settings"
    assert read_side("HEAD:../base/settings.yaml").manifests[0].name == "settings"
    assert not (repository / "ran").exists()


def test_a_path_outside_the_repository_is_not_read(repository, monkeypatch):
    monkeypatch.chdir(repository / "overlay")
    for path in ("../../x", "/etc/hostname", ":(top)base"):
        with pytest.raises(InputError, match="There is no such file, folder or revision"):
            read_side(f"HEAD:{path}")


def test_engine_events_have_both_sides_and_no_secret(tmp_path):
    def event(op, old, new):
        urn = f"urn:pulumi:dev::app::kubernetes:core/v1:{(new or old)['kind']}::{(new or old)['metadata']['name']}"
        states = {"old": {"inputs": old} if old else None, "new": {"inputs": new} if new else None}
        return {
            "resourcePreEvent": {
                "metadata": {"op": op, "urn": urn, "type": urn.split("::")[2], **states}
            }
        }

    def body(kind, name, **fields):
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}

    secret = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "plaintext": "never",
    }
    events = [
        event(
            "update",
            body("ConfigMap", "a", data={"x": "1"}),
            body("ConfigMap", "a", data={"x": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}),
        ),
        event("create", None, body("Secret", "s", stringData={"token": secret})),
        event("delete", body("ConfigMap", "gone"), None),
    ]
    lines = "".join(json.dumps(each) + "\n" for each in events)
    for rest in ("", '{"cancelEvent": {}}\n'):
        (tmp_path / "events.ndjson").write_text(lines + rest)
        with pytest.raises(
            InputError,
            match=(
                r"events\.ndjson: the stream ends after \d events without a summary; the run was"
                r" interrupted"
            ),
        ):
            read_side(tmp_path / "events.ndjson")
    (tmp_path / "events.ndjson").write_text(f"{lines}{json.dumps({'summaryEvent': {}})}\n")
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
    text = (
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: "{{'
        ' .Values.size }}", host: "{{ env }}"}\n'
    )
    template = chart / "templates" / "settings.yaml"
    template.write_text(text.replace("{{ env }}", '{{ getHostByName "example.com" }}'))
    (tmp_path / "mine.yaml").write_text("size: 2\n")
    [manifest] = read_side(chart, values=[tmp_path / "mine.yaml"]).manifests
    assert manifest.body["data"] == {"size": "2", "host": ""}
    assert manifest.place == f"{template}:1"
    template.write_text(text)  # `env` is none of Helm's functions
    with pytest.raises(
        InputError,
        match=r"app/templates/settings\.yaml:4: Helm cannot render it: .*\"env\" not defined",
    ):
        read_side(chart)
    (chart / "Chart.yaml").write_text(
        "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: b, version: 1.0.0,"
        " repository: 'https://example.com'}]\n"
    )
    with pytest.raises(
        InputError,
        match=r"Chart\.yaml:1: Helm cannot render it: .*missing in charts.*helm dependency build",
    ):
        read_side(chart)


@pytest.mark.parametrize("name", ["../../nodes/a", "a/b", "a%2fb", "a?b", "..", "a b"])
def test_a_name_that_would_change_the_path_of_a_request_is_rejected_with_file_and_line(
    name, tmp_path
):
    (tmp_path / "a.yaml").write_text(OBJECT.replace("settings", f"'{name}'"))
    with pytest.raises(InputError, match=r"a\.yaml:1: ConfigMap: .* is not a name"):
        read_side(tmp_path / "a.yaml")
