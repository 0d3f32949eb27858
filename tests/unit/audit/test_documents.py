from __future__ import annotations

import pytest

from inferplan.audit.documents import MAX_OBJECTS, doubled, manifests_in, read_manifests, scalar
from inferplan.audit.manifest import InputError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def errors(text: str) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        list(manifests_in(text.encode(), "x.yaml"))
    return caught.value.errors


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{c}: &{c} [{', '.join([f'*{p}'] * 10)}]\n"
                for p, c in ["ab", "bc", "cd", "de", "ef"]
            ),
            "x.yaml:6:",
            "aliases",
        ),
        (f"{POD}spec: !ruby/object:Gem {{}}\n", "x.yaml:4:7:", "tag"),
        (f"{POD}spec: !!python/object/apply:os.system [ls]\n", "x.yaml:4:7:", "tag"),
        ("[" * 3000, "x.yaml:1:", "nested"),
        ("a: &a [*a]\n", "x.yaml:1:8:", "anchor"),
        (f"{POD}spec: {{}}\nspec: {{}}\n", "x.yaml:5:1:", "twice"),
        (f"{POD}---\nkind: Pod\n", "x.yaml:5:", "apiVersion"),
        (
            f"{POD}---\napiVersion: v1\nkind: Pod\nmetadata: {{generateName: a-}}\n",
            "x.yaml:5:",
            "generateName",
        ),
        ("{{- if .Values.x }}\na: b\n", "x.yaml:1:", "Chart.yaml"),
        ("a: b\x00c\n", "x.yaml:1:", "control character"),
        (f"{POD}data: {{x: {'y' * 2 * 2**20}}}\n", "x.yaml:1:", "2.0 MiB"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [b]}\n", "x.yaml:1:", "labels"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: n}\n",
            "x.yaml:1:",
            "reads metadata.name as false, not as text. Quote",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n",
            "x.yaml:1:",
            "reads metadata.name as 7, not as text. Quote",
        ),
        ("? [a, b]\n: c\n", "x.yaml:1:3:", "key"),
        (f"{POD}spec: {{priority: {'9' * 5000}}}\n", "x.yaml:4:18:", "5000 characters"),
        (f"{POD}spec: {{priority: -1{'0' * 300}.5e9}}\n", "x.yaml:4:18:", "characters"),
        (f"{POD}spec: {{priority: 1e999}}\n", "x.yaml:4:18:", "out of range"),
        (f"{POD}spec: {{priority: .inf}}\n", "x.yaml:4:18:", "not a finite number"),
    ],
)
def test_hostile_documents_are_one_line_with_their_place(text, place, words):
    [error] = errors(text)
    assert error.startswith(place)
    assert words in error
    assert len(error) < 300


def test_every_object_with_an_error_is_listed_in_one_pass():
    assert len(errors("kind: A\n---\nkind: B\n---\n" + POD)) == 2


def test_anchors_and_merge_keys_are_expanded_as_kubectl_does():
    text = POD + "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\n"
    [manifest] = manifests_in(text.encode(), "x.yaml")
    assert manifest.body["y"] == {"a": 1, "b": 3}


def test_a_list_is_its_items():
    [first, second] = manifests_in(
        b'{"kind": "List", "apiVersion": "v1", "items": ['
        + b",".join([b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}'] * 2)
        + b"]}",
        "x.json",
    )
    assert first.name == second.name
    assert list(doubled((first, second), "default")) == [
        "x.json:1: Pod a is declared twice, first in x.json:1. Remove one."
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("off", False),
        ("~", None),
        ("0644", 420),
        ("0x1F", 31),
        ("1e3", 1000),
        ("2020-01-01", "2020-01-01"),
        ("1:30", "1:30"),
        ("-", "-"),
        ("8Gi", "8Gi"),
        ("089", 89),
    ],
)
def test_scalars_are_read_as_the_library_of_kubectl_reads_them(text, value):
    read, problem = scalar(text)
    assert (read, type(read), problem) == (value, type(value), "")


def test_too_many_objects_and_links_out_of_the_folder_are_rejected(tmp_path):
    (tmp_path / "all.yaml").write_text(
        "".join(
            f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{index}}}\n"
            for index in range(MAX_OBJECTS + 1)
        )
    )
    with pytest.raises(InputError, match=r"all\.yaml:2000[0-9]: Object 5,001"):
        read_manifests(tmp_path)
    (tmp_path / "all.yaml").unlink()
    (tmp_path / "link.yaml").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="points outside the folder"):
        read_manifests(tmp_path)


@pytest.mark.parametrize(
    "text", ["password: !CANARY\n", "password: !CANARY x\n", "{password: *CANARY}\n"]
)
def test_a_password_that_is_not_quoted_is_not_shown(text):
    [error] = errors(text)
    assert "CANARY" not in error
    assert error.startswith("x.yaml:1:1")
