"""`inferplan draw`: the page of a stack, compared with a saved plan, and with the cluster's state."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inferplan.commands import main
from inferplan.commands.draw import command as draw
from inferplan.kube.facts import read
from inferplan.review.rendering.picture import as_file
from inferplan.status.models import ModelRow
from inferplan.status.status import PoolRow, StackState, StoreRow
from inferplan.workspace.workspace import open_workspace
from tests.rehearsal.commands import ROOT


@pytest.fixture(autouse=True)
def project(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(list(arguments))
    return int(ended.value.code or 0)


def test_the_page_shows_the_stack_with_one_sum_and_no_change(tmp_path):
    page, picture = tmp_path / "map.html", tmp_path / "map.svg"
    assert run("draw", "prod", "--html", str(page), "--svg", str(picture)) == 0
    text = page.read_text()
    for name in ("llama-3-70b", "qwen-3-14b", "h100", "l40s", "weights", "shared", "chat", "batch"):
        assert name in text
    assert "$93,134" in text
    assert "$0.00" not in text
    assert "compared with" not in text
    assert picture.read_text().startswith("<svg ")


def test_the_picture_of_the_docs_is_that_of_the_example():
    """`inferplan draw prod --svg docs/images/platform.svg` makes it again."""
    workspace = open_workspace("prod")
    shown = read(workspace.record().outputs)
    assert shown
    assert (ROOT / "docs/images/platform.svg").read_text() == as_file("inferplan/prod", {}, shown)


def test_a_router_has_a_box_with_a_line_to_its_model():
    model = {"engine": "vllm", "pool": "l4", "replicas": 2, "consumers": ["chat"]}
    routed = {"router": {"policy": "prefix_hash", "replicas": 2}}
    platform = {("consumer", "chat"): {}, ("pool", "l4"): {"minNodes": 1}, ("model", "m"): model}
    plain = as_file("a", {}, platform)
    assert "router" not in plain
    text = as_file("a", {}, platform | {("model", "m"): model | routed})
    assert "router m; prefix_hash, 2 replicas" in text
    assert text.count("<path") == plain.count("<path") + 1


def test_a_comparison_marks_what_differs(tmp_path):
    earlier = tmp_path / "earlier.json"
    assert run("plan", "prod", "--save", str(earlier)) == 0
    file = tmp_path / "Pulumi.prod.yaml"
    text = (ROOT / "stacks" / "Pulumi.prod.yaml").read_text()
    assert "pool: h100" in text
    file.write_text(text.replace("replicas: 2", "replicas: 1", 1))
    page = tmp_path / "map.html"
    assert run("draw", str(file), "--against", str(earlier), "--html", str(page)) == 0
    assert 'class="box model changed"' in page.read_text()


def test_live_adds_the_state_and_writes_again_until_it_is_ended(tmp_path, monkeypatch):
    model = ModelRow(name="llama-3-70b", engine="vllm", pool="h100", ready=1, wanted=2, endpoint="x", reason="Unschedulable", server="fake")  # fmt: skip
    state = StackState(
        pools=(PoolRow(name="h100", accelerator="nvidia-h100", nodes_ready=1, nodes=2, accelerators_used=4, accelerators=16),),
        models=(model,),
        stores=(StoreRow(name="shared", kind="efs", place="x", state="Bound"),),
        consumers=(),
    )  # fmt: skip

    monkeypatch.setattr(draw, "read_status", lambda *_: SimpleNamespace(state=state))
    pages: list[str] = []
    page = tmp_path / "map.html"

    def sleep(seconds: float) -> None:
        assert seconds == 2
        pages.append(page.read_text())
        if len(pages) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(draw.time, "sleep", sleep)
    assert run("draw", "prod", "--live", "--every", "2", "--html", str(page)) == 130
    for each in pages:
        assert "1 of 2 Ready, fake: Unschedulable" in each
        assert "1 of 2 nodes Ready, 4 of 16 accelerators used" in each
        assert '<meta http-equiv="refresh" content="2">' in each


def test_live_and_against_exclude_each_other(capsys):
    assert run("draw", "prod", "--live", "--against", "main") == 2
    assert "Leave one out" in capsys.readouterr().err
