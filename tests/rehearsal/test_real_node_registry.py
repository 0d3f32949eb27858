"""Images of the real node from a registry: a real one on 127.0.0.1, reached as a mirror, from which
containerd's client pulls them.
"""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inferplan.errors import RehearsalError
from inferplan.images.catalogue import catalogue, default_image
from inferplan.kube.objects import is_true
from inferplan.progress import Notice
from inferplan.rehearsal.cluster import start
from inferplan.rehearsal.cluster.node_traces import runtime_folder
from inferplan.rehearsal.node import images, registry
from tests.ports import free_port
from tests.rehearsal.real_node import Lane, apply, idle_pod, space, until
from tests.rehearsal.test_real_node import pytestmark

PROGRAM = shutil.which("docker-registry")
pytestmark = [
    *pytestmark,
    pytest.mark.full,
    pytest.mark.skipif(not PROGRAM, reason="install docker-registry"),
]
SPACE = "pulled"
PAUSE = "registry.example/team/pause:3"


def ctr(lane: Lane, *arguments: str) -> str:
    socket = runtime_folder(lane.directory) / "containerd.sock"
    command = ["ctr", "-a", str(socket), "-n", "k8s.io", "images", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def mirror(real_node: Lane, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """A registry with the pause image under two tags, as a mirror of registry.example."""
    port = free_port()
    configuration = tmp_path / "registry.yaml"
    configuration.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/stored}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    assert PROGRAM
    server = subprocess.Popen(
        [PROGRAM, "serve", str(configuration)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: answers(port))
        for tag in ("3", "gone"):
            place = f"127.0.0.1:{port}/team/pause:{tag}"
            ctr(real_node, "tag", default_image("pause"), place)
            ctr(real_node, "push", "--plain-http", place)
            ctr(real_node, "rm", place)
        hosts = tmp_path / "certs.d"
        (hosts / "registry.example").mkdir(parents=True)
        (hosts / "registry.example" / "hosts.toml").write_text(
            f'server = "http://127.0.0.1:{port}"\n\n[host."http://127.0.0.1:{port}"]\n'
        )
        monkeypatch.setattr(registry, "HOSTS", hosts)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/").close()
    except urllib.error.URLError:
        return False
    return True


def digest_of(mirror: str) -> str:
    manifest = "application/vnd.docker.distribution.manifest.v2+json"
    url = f"{mirror}/v2/team/pause/manifests/3"
    asked = urllib.request.Request(url, headers={"Accept": manifest})  # noqa: S310 - on loopback
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - on loopback
        return answer.headers["Docker-Content-Digest"]


def test_an_image_is_pulled_and_its_pod_runs(real_node: Lane, mirror, tmp_path):
    socket = runtime_folder(real_node.directory) / "containerd.sock"
    record = tmp_path / "images.json"
    digest, events = digest_of(mirror), []
    pinned = f"{PAUSE}@{digest}"
    assert images.is_pulled(PAUSE)
    here = images.import_images(socket, [PAUSE, pinned], record, events.append)
    assert here == [PAUSE, pinned]
    assert [each.detail for each in events[1::2]] == [digest, digest]
    with closing(start(real_node.cluster).api()) as api:
        pods = []
        for name, image in (("by-tag", PAUSE), ("by-digest", pinned)):
            pod = idle_pod(name, SPACE, {})
            pod["spec"]["containers"][0] |= {"image": image, "imagePullPolicy": "Never"}
            pods.append(pod)
        apply(api, [space(SPACE), *pods])
        for pod in pods:
            path = f"/api/v1/namespaces/{SPACE}/pods/{pod['metadata']['name']}"
            until(lambda path=path: is_true(api.get(path), "Ready"))
        api.request("DELETE", f"/api/v1/namespaces/{SPACE}")
    # A second start pulls nothing, also while the registry is away.
    events.clear()
    images.import_images(socket, [PAUSE, pinned], record, events.append)
    assert not events


def test_a_tag_that_moved_is_named_with_both_digests(real_node: Lane, mirror, monkeypatch):
    socket = runtime_folder(real_node.directory) / "containerd.sock"
    stated = f"sha256:{'0' * 64}"
    row = catalogue()["pause"]._replace(image=PAUSE, digest=stated)
    monkeypatch.setattr(registry, "facts_of", lambda _: row)
    with pytest.raises(RehearsalError) as error:
        registry.pull(socket, PAUSE)
    assert str(error.value) == (
        f"{PAUSE}: the registry has {digest_of(mirror)}, but the catalogue has {stated}. The tag"
        f" has moved. Pin the digest in the stack file: {PAUSE}@{stated}"
    )
    assert PAUSE not in ctr(real_node, "ls", "-q").splitlines()


@pytest.mark.usefixtures("mirror")
def test_what_the_registry_cannot_give_is_a_note_and_the_recipe_makes_it(real_node: Lane, tmp_path):
    socket, events = runtime_folder(real_node.directory) / "containerd.sock", []
    # A mirror of the catalogue's image, which has a recipe, and an image without one.
    absent = ("registry.example/registry.k8s.io/pause:none", "registry.example/team/tool:none")
    here = images.import_images(socket, absent, tmp_path / "images.json", events.append)
    assert here == [absent[0]]
    assert absent[0] in ctr(real_node, "ls", "-q").splitlines()
    notes = [each.text for each in events if isinstance(each, Notice)]
    assert all("not found" in note for note in notes)
    assert all(image in note for image, note in zip(absent, notes, strict=True))


def test_a_registry_that_does_not_answer_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "HOSTS", tmp_path)
    (tmp_path / "_default").mkdir()
    (tmp_path / "_default" / "hosts.toml").write_text(f'server = "127.0.0.1:{free_port()}"\n')
    assert not images.is_pulled("registry.absent.example/pause:3")
    # An image for accelerators is not pulled even if its registry answers.
    monkeypatch.setattr(registry, "reaches", lambda _: True)
    assert not images.is_pulled(default_image("vllm"))
    assert images.is_pulled(default_image("vllm-cpu"))
