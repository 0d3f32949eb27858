from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from inferplan.review.reading.reader import read_file
from inferplan.review.rendering import html as page
from inferplan.review.report import make_report
from tests.patience import PATIENCE_SECONDS

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "kubernetes-previews"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Runs in the page once it is loaded, and leaves what it saw in the document for the dump.
_PROBE = """
<script>
{
const saw = [];
const visible = () => [...document.querySelectorAll(".resource")].filter(node => node.offsetParent !== null).length;
const colour = () => getComputedStyle(document.body).backgroundColor;
saw.push(["all", visible()]);
const filter = document.getElementById("filter");
filter.value = "spec.replicas"; filter.dispatchEvent(new Event("input"));
saw.push(["filtered", visible()], ["told", document.getElementById("shown").textContent]);
filter.value = ""; filter.dispatchEvent(new Event("input"));
const op = document.getElementById("op");
op.value = "replace"; op.dispatchEvent(new Event("change"));
saw.push(["replaced", visible()]);
op.value = ""; op.dispatchEvent(new Event("change"));
document.getElementById("open").click();
saw.push(["open", document.querySelectorAll(".resource[open]").length]);
const before = colour(); document.getElementById("theme").click();
saw.push(["recoloured", before !== colour()], ["wide", document.documentElement.scrollWidth > innerWidth]);
document.body.dataset.saw = JSON.stringify(saw);
}
</script>
"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs a browser: apt-get install chromium"
)


def browser(*arguments: str, profile: Path) -> str:
    line = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        *arguments,
    ]
    return subprocess.run(
        line, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stdout


def left_by_the_page(dumped: str) -> Any:
    """The JSON that a script of the page left in `data-saw` of its body."""

    class Body(HTMLParser):
        saw = ""

        def handle_starttag(self, tag, attrs):
            if tag == "body":
                self.saw = dict(attrs).get("data-saw") or ""

    body = Body()
    body.feed(dumped)
    assert body.saw, "the page's script did not run to its end"
    return json.loads(body.saw)


@pytest.fixture(scope="module")
def saw(tmp_path_factory):
    """What the page of a real preview shows and does in a real browser."""
    folder = tmp_path_factory.mktemp("page")
    text = page.render(make_report([read_file(FIXTURES / "changes.ndjson")]))
    path = folder / "report.html"
    path.write_text(text.replace("</body>", f"{_PROBE}</body>"), encoding="utf-8")
    dumped = browser("--dump-dom", path.as_uri(), profile=folder / "profile")
    return dict(left_by_the_page(dumped))


def test_every_changed_resource_is_on_the_page(saw):
    assert saw["all"] == 5


def test_the_filter_leaves_what_it_names_and_says_how_many(saw):
    assert saw["filtered"] == 1
    assert saw["told"] == "1 of 5 resources"


def test_the_choice_of_an_operation_leaves_its_resources(saw):
    assert saw["replaced"] == 2


def test_all_can_be_opened_at_once(saw):
    assert saw["open"] == 5


def test_the_theme_turns_and_the_page_keeps_its_width(saw):
    assert saw["recoloured"] is True
    assert saw["wide"] is False


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_readers_scheme(tmp_path, scheme):
    text = page.render(make_report([read_file(FIXTURES / "changes.ndjson")]))
    probe = (
        "<script>document.body.dataset.back ="
        " getComputedStyle(document.body).backgroundColor</script></body>"
    )
    path = tmp_path / "report.html"
    path.write_text(text.replace("</body>", probe), encoding="utf-8")
    flags = (
        ["--blink-settings=preferredColorScheme=0"]
        if scheme == "dark"
        else ["--blink-settings=preferredColorScheme=1"]
    )
    dumped = browser(*flags, "--dump-dom", path.as_uri(), profile=tmp_path / "profile")
    (back,) = re.findall(r'data-back="rgb\((\d+), ', dumped)
    assert (int(back) < 100) is (scheme == "dark")


@pytest.mark.parametrize("width", [400, 390, 320])
def test_nothing_overflows_a_phone(tmp_path, width):
    from tests.review_streams import preview, step

    long = "x" * 400
    group = {
        "instanceTypes": ["g6e.4xlarge"],
        "scalingConfig": {"minSize": 1, "maxSize": 2},
        "labels": {"inferplan.dev/pool": long[:60]},
    }
    events = [
        step(
            "update",
            "kubernetes:core/v1:ConfigMap",
            long[:200],
            {"data": {long: long}},
            {"data": {long: long + "y"}},
        ),
        step("delete", "aws:s3/bucket:Bucket", "weights", {"bucket": long}),
        step("create", "aws:eks/nodeGroup:NodeGroup", "g", None, group),
        {"diagnosticEvent": {"message": long, "severity": "warning"}},
    ]
    inner = page.render(
        make_report([read_file(FIXTURES / "changes.ndjson"), preview(*events)])
    ).replace("<details", "<details open")
    probe = """<script>
onload = () => {
  const page = document.querySelector("iframe").contentDocument, root = page.documentElement;
  const wide = [...page.querySelectorAll("main *")].filter(node => !node.closest(".scroll") && node.getBoundingClientRect().right > root.clientWidth + 1);
  document.body.dataset.saw = JSON.stringify([root.clientWidth, root.scrollWidth, wide.map(node => node.tagName), page.querySelectorAll("main").length,
    [...page.querySelectorAll("table")].every(node => node.closest(".scroll")), [...page.querySelectorAll(".scroll")].some(node => node.scrollWidth > node.clientWidth),
    [...page.querySelectorAll(".scroll")].every(node => getComputedStyle(node).backgroundAttachment.includes("local") && node.tabIndex === 0),
    Math.min(...[...page.querySelectorAll("td")].map(node => node.getBoundingClientRect().width))]);
};
</script>"""
    path = tmp_path / "phone.html"
    frame = (
        f'<iframe style="width:{width}px;height:800px;border:0"'
        f' srcdoc="{html.escape(inner, quote=True)}"></iframe>'
    )
    path.write_text(f"<!doctype html><body>{frame}{probe}</body>", encoding="utf-8")
    dumped = browser("--dump-dom", path.as_uri(), profile=tmp_path / "profile")
    (told,) = re.findall(r'<body data-saw="([^"]*)"', dumped)
    client, scroll, wide, mains, boxed, scrolls, shaded, narrowest = json.loads(html.unescape(told))
    assert (scroll <= client, wide, mains, boxed, scrolls) == (True, [], 1, True, True), told
    # Shadows show that a table goes on, and a keyboard reaches it.
    assert shaded, told
    # A column is scrolled to, and not squeezed until its words break.
    assert narrowest >= 90
