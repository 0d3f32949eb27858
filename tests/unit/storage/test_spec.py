"""Store and weights specs refuse what AWS, the mount or the Job would refuse later, and say what to
write instead.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from inferplan.components.handles import CaBundle
from inferplan.components.storage.volume_spec import RECOMMENDED_MOUNT_OPTIONS, NfsStoreSpec
from inferplan.components.storage.web_spec import HttpStoreSpec, HubStoreSpec
from inferplan.components.stores import S3StoreSpec, StoreSpec, WeightsSpec

STORE = TypeAdapter(StoreSpec)


def s3(**fields):
    return S3StoreSpec.model_validate({"kind": "s3", "bucket": "acme-weights", **fields})


def nfs(**fields):
    return NfsStoreSpec.model_validate(
        {
            "kind": "nfs",
            "server": "nfs.internal",
            "path": "/export/models",
            "capacity": "2Ti",
            **fields,
        }
    )


def message(call, **fields):
    with pytest.raises(ValidationError) as caught:
        call(**fields)
    return str(caught.value)


@pytest.mark.parametrize("bucket", ["abc", "acme-weights", "a.b.c", "0weights9", "a" * 63])
def test_a_bucket_may_be_called_what_aws_allows(bucket):
    assert s3(bucket=bucket).bucket == bucket


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        ("ab", "3 to 63"),
        ("a" * 64, "3 to 63"),
        ("Acme", "lower-case"),
        ("acme_weights", "hyphens"),
        ("-acme", "first and last"),
        ("acme-", "first and last"),
        ("a..b", "two dots"),
        ("192.168.5.4", "IP address"),
        ("xn--acme", "AWS reserves"),
        ("sthree-acme", "AWS reserves"),
        ("amzn-s3-demo-acme", "AWS reserves"),
        ("acme-s3alias", "AWS reserves"),
        ("acme--ol-s3", "AWS reserves"),
        ("acme--x-s3", "general purpose bucket"),
    ],
)
def test_a_bucket_that_aws_would_refuse_is_refused_with_the_rule(bucket, reason):
    assert reason in message(s3, bucket=bucket)


@pytest.mark.parametrize(
    "endpoint",
    ["http://minio:9000", "https://minio.example", "http://10.0.0.4:9000/", "http://[::1]:9000"],
)
def test_an_endpoint_is_scheme_host_and_port(endpoint):
    assert s3(endpoint=endpoint).endpoint == endpoint.rstrip("/")


@pytest.mark.parametrize(
    "endpoint",
    [
        "minio:9000",
        "ftp://minio",
        "http://",
        "http://minio:0",
        "http://minio:99999",
        "http://minio/bucket",
        "http://m?x=1",
    ],
)
def test_anything_else_is_no_endpoint(endpoint):
    assert "http(s)://host" in message(s3, endpoint=endpoint)


def test_a_password_in_an_endpoint_is_refused_without_being_repeated():
    text = message(s3, endpoint="http://user:hunter2secret@minio:9000")
    assert "hunter2secret" not in text
    assert "credentials" in text


@pytest.mark.parametrize("prefix", ["/llm", "llm//x", "../x", "a/./b", "a\\b", "a\nb"])
def test_a_prefix_stays_inside_its_bucket(prefix):
    message(s3, prefix=prefix)


def test_a_prefix_loses_its_last_slash_so_that_two_spellings_are_one():
    assert s3(prefix="llm/").prefix == s3(prefix="llm").prefix == "llm"


def test_an_nfs_store_mounts_as_aws_recommends_unless_told_otherwise():
    assert nfs().mount_options == RECOMMENDED_MOUNT_OPTIONS
    assert nfs(mountOptions=["nfsvers=4.2", "hard"]).mount_options == ("nfsvers=4.2", "hard")


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "export"},
        {"path": "/a/../b"},
        {"path": "/a b"},
        {"server": "NFS"},
        {"server": "1.2.3.4.5"},
        {"server": "a b"},
    ],
)
def test_an_export_that_no_mount_would_take_is_refused(fields):
    message(nfs, **fields)


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(ValidationError, match="'s3', 'nfs'"):
        STORE.validate_python({"kind": "gcs"})


@pytest.mark.parametrize(
    "revision", ["8afb486c1db24fe5011ec46dfbe5b5dccdb575c2", "v1.2.0", "2024-06-01"]
)
def test_a_revision_is_a_commit_or_a_fixed_version(revision):
    assert (
        WeightsSpec.model_validate({"store": "w", "path": "m", "revision": revision}).revision
        == revision
    )


@pytest.mark.parametrize("revision", ["main", "Latest", "HEAD", "a b", "", "-x"])
def test_a_revision_that_moves_or_cannot_be_named_is_refused(revision):
    with pytest.raises(ValidationError):
        WeightsSpec.model_validate({"store": "w", "path": "m", "revision": revision})


@pytest.mark.parametrize("path", ["", "/", "/m", "m/../n"])
def test_weights_are_a_directory_below_their_store(path):
    with pytest.raises(ValidationError):
        WeightsSpec.model_validate({"store": "w", "path": path})


@given(
    st.dictionaries(
        st.sampled_from(["bucket", "prefix", "region", "endpoint", "pathStyle", "credentials"]),
        st.text() | st.integers() | st.none(),
    )
)
def test_no_input_makes_anything_but_a_spec_or_a_validation_error(fields):
    try:
        s3(**fields)
    except ValidationError:
        return


@given(st.text(max_size=80))
def test_every_endpoint_text_is_either_taken_or_refused_cleanly(text):
    try:
        s3(endpoint=text)
    except ValidationError:
        return


def other(**fields):
    return STORE.validate_python(fields)


@pytest.mark.parametrize(
    "url", ["https://mirror.acme.example", "http://10.0.0.4:8080/llm/", "https://[::1]/a%20b"]
)
def test_a_server_is_an_address_with_a_path(url):
    assert other(kind="http", url=url).url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "mirror.example",
        "ftp://m",
        "https://",
        "https://m/../x",
        "https://m//x",
        "https://m:0",
        "https://m x",
    ],
)
def test_anything_else_is_no_address(url):
    with pytest.raises(ValidationError):
        other(kind="http", url=url)


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2secret@m/x",
        "https://m/x?token=hunter2secret",
        "https://m/x#hunter2secret",
    ],
)
@pytest.mark.parametrize(("spec", "field"), [(HttpStoreSpec, "url"), (HubStoreSpec, "endpoint")])
def test_a_secret_in_an_address_is_refused_without_being_repeated(url, spec, field):
    with pytest.raises(ValidationError) as caught:
        spec.model_validate({"kind": "http" if field == "url" else "huggingface", field: url})
    assert "Secret" in str(caught.value)
    assert "hunter2secret" not in str(caught.value)


def test_a_hub_is_the_public_one_unless_a_mirror_is_named():
    assert other(kind="huggingface").endpoint == "https://huggingface.co"
    assert (
        other(kind="huggingface", endpoint="https://hub.acme.example/hf/").endpoint
        == "https://hub.acme.example/hf"
    )


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/mnt",
        "/etc/models",
        "/usr/share/m",
        "/var/lib/kubelet",
        "/var/lib/kubelet/x",
        "/mnt/../etc/x",
        "mnt/a",
    ],
)
def test_a_directory_that_holds_more_than_models_is_no_disk_of_theirs(path):
    with pytest.raises(ValidationError):
        other(kind="nodeDisk", pool="l40s", path=path, capacity="1Ti")


def test_a_disk_of_nodes_is_a_directory_of_its_own():
    assert (
        other(kind="nodeDisk", pool="l40s", path="/mnt/k8s-disks/0/inferplan/", capacity="1Ti").path
        == "/mnt/k8s-disks/0/inferplan"
    )


@pytest.mark.parametrize(
    "files", [{"a": "0" * 63}, {"/a": None}, {"../a": None}, {"": None}, {"a": "A" * 64}]
)
def test_a_named_file_is_a_path_with_a_sha256_or_none(files):
    with pytest.raises(ValidationError):
        WeightsSpec.model_validate({"store": "w", "path": "m", "files": files})


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"kind": "s3", "bucket": "acme-weights", "prefix": "llm"}, "s3://acme-weights/llm"),
        (
            {"kind": "nfs", "server": "nfs.internal", "path": "/export", "capacity": "1Ti"},
            "nfs.internal:/export",
        ),
        ({"kind": "efs"}, "a file system of this stack:/models"),
        ({"kind": "http", "url": "https://m/x"}, "https://m/x"),
        ({"kind": "huggingface"}, "https://huggingface.co"),
        ({"kind": "pvc", "claimName": "models"}, "claim models"),
        (
            {"kind": "nodeDisk", "pool": "l40s", "path": "/mnt/nvme/models", "capacity": "1Ti"},
            "/mnt/nvme/models on nodes of l40s",
        ),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else None,
)
def test_every_store_says_where_it_is(fields, place):
    assert other(**fields).location == place


TLS = {
    "s3": {"kind": "s3", "bucket": "acme-weights", "endpoint": "https://minio:9000"},
    "http": {"kind": "http", "url": "https://mirror.acme.example/llm"},
    "hub": {"kind": "huggingface", "endpoint": "https://hub.acme.example"},
}


@pytest.mark.parametrize("store", TLS.values(), ids=TLS)
@pytest.mark.parametrize(
    ("given", "place", "bundle"),
    [
        ({"secretName": "acme-ca"}, "Secret acme-ca, key ca.crt", CaBundle(kind="Secret", name="acme-ca", key="ca.crt")),
        ({"configMapName": "acme-ca", "key": "ca-bundle.crt"}, "ConfigMap acme-ca, key ca-bundle.crt", CaBundle(kind="ConfigMap", name="acme-ca", key="ca-bundle.crt")),
    ],
    ids=["Secret", "ConfigMap"],
)  # fmt: skip
def test_a_store_behind_tls_names_where_its_ca_is(store, given, place, bundle):
    spec = other(**store, caBundle=given).ca_bundle
    assert (spec.location, spec.bundle) == (place, bundle)


@pytest.mark.parametrize(
    "given", [{}, {"key": "ca.crt"}, {"secretName": "a", "configMapName": "b"}]
)
def test_certificates_come_from_one_object(given):
    with pytest.raises(ValidationError) as caught:
        other(**TLS["s3"], caBundle=given)
    assert "Set one of them" in str(caught.value)


@pytest.mark.parametrize("key", ["", "a/b", "../x", "a b"])
def test_a_key_is_one_that_a_secret_may_have(key):
    with pytest.raises(ValidationError):
        other(**TLS["s3"], caBundle={"secretName": "acme-ca", "key": key})


@pytest.mark.parametrize(
    "fields",
    [{"kind": "s3", "bucket": "acme-weights"}, {"kind": "huggingface"}],
    ids=["aws", "the public hub"],
)
def test_a_ca_between_a_cluster_and_a_public_service_may_be_named(fields):
    assert (
        other(**fields, caBundle={"secretName": "proxy-ca"}).ca_bundle.location
        == "Secret proxy-ca, key ca.crt"
    )
