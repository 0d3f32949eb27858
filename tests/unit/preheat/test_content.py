"""When a preheat Job is another Job: what its pods read decides, and nothing else."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from inferplan.components.handles import CaBundle
from inferplan.components.preheat.pod import pod_spec, program
from inferplan.components.preheat.request import code_key, job_key
from inferplan.components.preheat.spec import PreheatSpec
from inferplan.components.sources import ObjectStore, VolumeClaim
from tests.unit.serving.models import GAUDI2

STORE = ObjectStore(
    bucket="weights", prefix="llm", endpoint="http://minio:9000", credentials="minio"
)
SHARE = VolumeClaim(name="shared", origin="nfs://nfs/models")
DISKS = VolumeClaim(name="disks", nodes=GAUDI2)


def key(*, request=None, code="code", source=STORE, target=SHARE, **preheat) -> str:
    spec = PreheatSpec.model_validate({"into": "shared", **preheat})
    request = request or {"root": "source:weights/llm"}
    return job_key(
        pod_spec(spec, request, source=source, target=target, code=code, labels={"app": "llm"}),
        target,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"target": replace(SHARE, origin="nfs://other/models")},
        {"into": "another"},
        {"timeoutSeconds": 7200},
        {"ttlSecondsAfterFinished": 7200},
        {"source": replace(STORE, bucket="elsewhere")},
    ],
    ids=str,
)
def test_what_a_pod_does_not_read_leaves_the_job_alone(change):
    """The bucket is part of the request, which says where in it the files are."""
    assert key(**change) == key()


def test_what_is_known_of_nodes_besides_where_pods_may_land_leaves_the_job_alone():
    other = replace(
        GAUDI2, capacity=replace(GAUDI2.capacity, memory_bytes=1), runtime_class="other"
    )
    assert key(target=replace(DISKS, nodes=other)) == key(target=DISKS)
    assert key(target=replace(DISKS, nodes=replace(GAUDI2, nodes=7))) != key(target=DISKS)
    assert key(target=replace(DISKS, nodes=replace(GAUDI2, taints=()))) != key(target=DISKS)
    assert key(target=replace(DISKS, nodes=replace(GAUDI2, node_selector={"pool": "x"}))) != key(
        target=DISKS
    )


@pytest.mark.parametrize(
    "change",
    [
        {"request": {"root": "source:weights/other"}},
        {"code": "other"},
        {"cpu": "3"},
        {"memory": "2Gi"},
        {"runAsUser": 1234},
        {"image": "registry.example/python:3.13"},
        {"rcloneImage": "registry.example/rclone:1.0"},
        {"target": replace(SHARE, name="other")},
        {"source": replace(STORE, endpoint="http://other:9000")},
        {"source": replace(STORE, region="eu-west-1")},
        {"source": replace(STORE, path_style=True)},
        {"source": replace(STORE, credentials="other")},
        {"source": replace(STORE, ca=CaBundle(kind="Secret", name="ca"))},
        {"source": VolumeClaim(name="other")},
    ],
    ids=str,
)
def test_what_a_pod_reads_makes_another_job(change):
    assert key(**change) != key()


def test_words_about_the_program_leave_it_the_same_program_and_instructions_do_not():
    files = program()
    name = "run.py"
    told = files[name].replace('"""', '"""Reworded. ', 1) + "\n# A remark.\n\n"
    assert told != files[name]
    assert code_key({**files, name: told}) == code_key(files)
    assert code_key({**files, name: files[name] + "\nLIMIT = 3\n"}) != code_key(files)
    assert code_key({**files, "more.py": ""}) != code_key(files)
    quoted = 'def f():\n    """Says."""\n    return "# not a remark"\n'
    assert code_key({"a.py": quoted}) != code_key({"a.py": quoted.replace("# not", "# now")})


def reworded(source: str) -> str:
    """`source` with another text in every docstring that Python finds, and a comment in front of
    it.
    """
    lines = source.splitlines()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    ]
    for text in sorted((node.body[0] for node in nodes), key=lambda text: -text.lineno):
        indent = " " * text.col_offset
        lines[text.lineno - 1 : text.end_lineno] = [
            f"{indent}# Says:",
            f'{indent}"""Other, "quoted"',
            "",
            f'{indent}words: # here."""',
        ]
    return "\n".join(lines)


def test_every_docstring_of_the_program_is_left_out_of_its_key():
    files = {name: text for name, text in program().items() if text.strip()}
    other = {name: reworded(text) for name, text in files.items()}
    assert all(other[name] != files[name] for name in files)
    assert code_key(other) == code_key(files)


@pytest.mark.parametrize(
    "value",
    [
        '"""a # b"""',
        "'''a\"b # b'''",
        r'"a\"# b"',
        r"'a\'# b'",
        'f"{x} # b"',
        '("c"  # d\n    "# b")',
    ],
)
def test_a_text_with_a_hash_is_a_value_and_no_comment(value):
    source = f"def f(x):\n    # What it says.\n    return {value}  # a remark\n"
    assert code_key({"a.py": source}) != code_key({"a.py": source.replace("# b", "# c")})
    assert code_key({"a.py": source}) == code_key(
        {"a.py": source.replace("remark", "note").replace("What", "How")}
    )
