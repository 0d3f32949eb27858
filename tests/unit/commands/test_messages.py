"""Troubleshooting: a message that was printed leads to its page, and the table has no message that
nothing prints.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import inferplan
from inferplan.commands import main
from inferplan.commands.docs.messages import further_pages, messages
from inferplan.commands.failures import explain
from inferplan.commands.pages import pages
from inferplan.errors import OperationError

PACKAGE = Path(inferplan.__file__).parent
# As printed by a command, the API server or a kubelet, and the page for it.
PRINTED = {
    "There is no Pulumi.yaml in /srv/team or above it. Change into the folder": "first-steps",
    "Unknown stack 'prdo'. Stacks in this project: dev, prod.": "commands",
    "pulumi is not on PATH. Nothing was changed.": "commands#two-engines-one-program",
    "kube-apiserver: no space left on the disk that holds /var/lib/inferplan": "installing#the-control-plane",
    "process 4711 (inferplan up lab) is changing this cluster since 10:00:00, 3 s ago": (
        "rehearsal#processes-and-files"
    ),
    'error: context "lab-eu" does not exist': "tutorials/rack#3-check-the-real-cluster",
    "0/7 nodes are available: 3 Insufficient\n  habana.ai/gaudi, 4 node(s) had untolerated taint": (
        "runbooks/pods-pending"
    ),
    'pods "llm-0" is forbidden: exceeded quota: gpus, requested: 8': "runbooks/pods-pending",
    'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false': (
        "bring-your-own#pods"
    ),
    "container vllm: ImagePullBackOff: Back-off pulling image": "bring-your-own#images",
    "container vllm ended with exit code 137 (OOMKilled, memory limit 16Gi)": (
        "runbooks/container-restarts"
    ),
    'persistentvolumeclaim "scratch" not found': "storage#stores",
    "pod has unbound immediate PersistentVolumeClaims": "storage#stores",
    "qwen answers 429: team-a exceeded its limits, or the gateway holds": "gateway#configuration",
    "qwen answers 401: the API key has expired; use a newer version of it.": "keys",
    "the certificate of https://llm.acme.example is not trusted on this machine: self-signed": (
        "client"
    ),
}
# Words of the kubelet, the scheduler, the API server and Pulumi.
OF_OTHERS = {
    "Insufficient …",
    "ImagePullBackOff",
    "ErrImagePull",
    "OOMKilled",
    "persistentvolumeclaim … not found",
    "unbound immediate PersistentVolumeClaims",
    "context … does not exist",
    "stack is currently locked",
    "exceeded quota",
    "violates PodSecurity",
}


@pytest.mark.parametrize(("printed", "page"), PRINTED.items())
def test_a_printed_message_ends_with_its_page(capsys, printed, page):
    explain(OperationError(printed))
    last = capsys.readouterr().err.splitlines()
    assert [each for each in last if each.startswith("More: ")] == [f"More: inferplan docs {page}"]


def test_a_message_that_names_a_page_gets_no_other():
    assert not further_pages("exceeded quota. Read inferplan docs queues")
    assert not further_pages("a message that no table has")


def _texts_of_the_package() -> list[str]:
    """Every text of the code, with … for what a format string fills in, and the other files."""
    texts = []
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".toml", ".sh", ".j2"):
            texts.append(" ".join(path.read_text(encoding="utf-8").split()))
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    each.value if isinstance(each, ast.Constant) else "…" for each in node.values
                )
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def _halves(part: str) -> list[tuple[str, str]]:
    """The text as a whole, and each way to put it together from two."""
    return [(part, ""), *((part[:at], part[at:]) for at in range(4, len(part) - 3))]


def test_something_prints_every_message_of_the_table():
    rows = list(messages())
    texts = _texts_of_the_package()
    unknown = [
        text
        for row in rows
        for text in row.texts
        if text not in OF_OTHERS
        and not all(
            any(
                all(any(half in each for each in texts) for half in halves)
                for halves in _halves(part)
            )
            for part in re.split(r"…|\d+: ?", text)
            if part.strip()
        )
    ]
    assert not unknown
    assert len(rows) >= 40
    assert {each.page.partition("#")[0] for each in rows} <= set(pages())


def test_a_pasted_message_is_answered_with_its_cause(capsys):
    with pytest.raises(SystemExit):
        main.run(["docs", "Warning  FailedScheduling  0/3 nodes: 3 Insufficient nvidia.com/gpu."])
    shown = capsys.readouterr()
    assert "enlarge the pool" in shown.out
    assert "inferplan docs runbooks/pods-pending" in shown.out
