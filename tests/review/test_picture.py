"""The picture of a platform: what it shows, also of a large one, and what a browser and its
accessibility rules say about the page.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from importlib.resources import files
from itertools import product
from typing import Any

import pytest

from inferplan.review.rendering import html as report_page
from inferplan.review.rendering import map_page
from inferplan.review.rendering.picture import NARROW, WIDE, pictures
from inferplan.review.report import StackReport, make_report
from tests.lanes import in_full
from tests.review.test_browser import CHROMIUM, browser, left_by_the_page
from tests.review_streams import facts, preview

MARKUP = '<img src=x onerror=alert(1)>"&'
# The rules of WCAG 2 and of best practice; what axe calls serious or critical fails.
AXE = """
<script>%s</script>
<script>
axe.run(document, {resultTypes: ["violations"]}).then(found => {
  document.body.dataset.saw = JSON.stringify({
    wide: document.documentElement.scrollWidth > innerWidth,
    violations: found.violations.filter(each => ["serious", "critical"].includes(each.impact)).map(each => [each.id, each.nodes.map(node => node.html.slice(0, 120))]),
    passes: found.passes.length,
  });
});
</script>
"""


def platform(models: int, nodes: int, consumers: int, prefix: str = "m") -> dict[str, Any]:
    names = [f"c{index}" for index in range(consumers)]
    return {
        "version": 1,
        "consumer": {name: {"keys": [1], "requestsPerMinute": 60} for name in names},
        "gateway": {"gateway": {"scheme": "https", "host": "llm.example.org", "implementation": "nginx", "replicas": 2, "internet": True}},
        "route": {"best": {"shares": {f"{prefix}0": 90.0}, "consumers": names[:1]}},
        "model": {
            f"{prefix}{index}": {
                "engine": "vllm", "pool": f"p{index % 4}", "replicas": 1, "maxReplicas": 1 + index % 2, "accelerators": 2,
                "consumers": names[index % 3 :: 3], "weights": {"store": "s3"}, "preheat": {"into": "nfs"},
            }
            for index in range(models)
        },
        "pool": {
            f"p{index}": {"provider": "existing", "accelerator": "nvidia-h100", "accelerators": 8, "minNodes": nodes // 4, "maxNodes": nodes // 4}
            for index in range(4)
        },
        "store": {"s3": {"type": "s3", "location": "s3://weights/llm"}, "nfs": {"type": "nfs", "location": "nfs.example.org:/models"}},
    }  # fmt: skip


def report(before: dict[str, Any], after: dict[str, Any]) -> StackReport:
    [stack] = make_report([preview(facts(before, after))]).stacks
    return stack


def drawn(
    before: dict[str, Any], after: dict[str, Any]
) -> list[tuple[str, ET.Element, ET.Element]]:
    stack = report(before, after).facts
    return [
        (caption, ET.fromstring(wide), ET.fromstring(narrow))  # noqa: S314 - it is our own
        for caption, wide, narrow in pictures("shop/prod", stack.before, stack.after)
    ]


def boxes(svg: ET.Element) -> dict[str, str]:
    """The class of each box by its key."""
    return {
        each.attrib["data-key"]: each.attrib["class"]
        for each in svg.iter()
        if "data-key" in each.attrib
    }


def test_a_platform_that_stays_is_one_picture_with_every_subject_and_no_mark():
    same = platform(3, 4, 2)
    [(caption, wide, narrow)] = drawn(same, same)
    assert caption == ""
    expected = {
        "consumer c0", "consumer c1", "gateway gateway", "route best", "model m0", "model m1", "model m2",
        "pool p0", "pool p1", "pool p2", "pool p3", "store s3", "store nfs",
    }  # fmt: skip
    assert set(boxes(wide)) == set(boxes(narrow)) == expected
    assert all(each.endswith(" same") for each in boxes(wide).values())


def test_a_change_is_two_pictures_that_mark_what_goes_what_comes_and_what_differs():
    before, after = platform(3, 4, 2), platform(4, 4, 2)
    after["model"]["m1"]["replicas"] = 5
    after["model"]["m2"]["consumers"] = ["c0", "c1"]
    del after["route"]["best"]
    (first, old, _), (second, new, _) = drawn(before, after)
    assert (first, second) == ("Before", "After")
    assert boxes(old)["route best"] == "box route gone"
    assert boxes(new)["model m3"] == "box model new"
    assert boxes(new)["model m1"] == "box model changed"
    assert boxes(new)["model m0"] == "box model same"
    # Without colours too.
    names = {each.text for svg in (old, new) for each in svg.iter() if each.get("class") == "name"}
    assert {"- best", "+ m3", "~ m1", "m0"} <= names
    lines = {
        (each.attrib["data-start"], each.attrib["data-end"]): each.attrib["class"]
        for each in new.iter()
        if "data-start" in each.attrib
    }
    gained = set(after["model"]["m2"]["consumers"]) - set(before["model"]["m2"]["consumers"])
    for name in ("c0", "c1"):
        expected = "line new" if name in gained else "line same"
        assert lines[f"consumer {name}", "model m2"] == expected


def test_squares_count_the_accelerators_that_models_use():
    one = platform(1, 4, 1)
    one["model"]["m0"] |= {"replicas": 3, "maxReplicas": 3}
    one["pool"]["p0"]["maxNodes"] = 2
    [(_, wide, _)] = drawn(one, one)
    [pool] = [each for each in wide.iter() if each.attrib.get("data-key") == "pool p0"]
    uses = [
        each.attrib["class"].split()[-1] for each in pool if "cell" in each.attrib.get("class", "")
    ]
    assert (uses.count("used"), uses.count("free"), uses.count("later")) == (6, 2, 8)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_large_platform_overlaps_nowhere_and_every_text_fits(width):
    many = platform(100, 200, 30)
    [(_, *both)] = drawn(many, many)
    svg = both[0] if width == WIDE else both[1]
    rects = []
    for group in svg.iter("{http://www.w3.org/2000/svg}g"):
        first = group.find("{http://www.w3.org/2000/svg}rect")
        assert first is not None
        x, y, w, h = (float(first.attrib[each]) for each in ("x", "y", "width", "height"))
        rects.append((group.attrib["class"].split()[1], x, y, w, h))
        for text in group.iter("{http://www.w3.org/2000/svg}text"):
            assert float(text.attrib["x"]) + 7.3 * len(text.text or "") <= x + w
            assert y <= float(text.attrib["y"]) <= y + h
        for cell in group.iter("{http://www.w3.org/2000/svg}rect"):
            assert x <= float(cell.attrib["x"]) <= x + w
            assert y <= float(cell.attrib["y"]) <= y + h
    assert max(x + w for _, x, _, w, _ in rects) <= width
    leaves = [each for each in rects if each[0] != "pool"]
    assert len(leaves) == 100 + 30 + 1 + 1 + 2
    for index, (_, x, y, w, h) in enumerate(leaves):
        for _, x2, y2, w2, h2 in leaves[index + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_names_are_text_and_never_markup():
    odd = {
        ("model", MARKUP): {"engine": MARKUP, "pool": MARKUP},
        ("store", MARKUP): {"type": MARKUP},
    }
    [(_, wide, _)] = pictures(MARKUP, {}, odd)
    assert "<img" not in wide
    assert f"model {MARKUP}" in boxes(ET.fromstring(wide))  # noqa: S314 - it is our own
    assert "<img" not in map_page.render(report({"version": 1}, platform(1, 4, 1)), compared=MARKUP)


def test_a_page_loads_nothing():
    page = map_page.render(report(platform(2, 4, 1), platform(3, 4, 1)))
    assert not re.findall(
        r"""(?:src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg|llm\.example)""", page
    )


def test_the_report_has_the_same_pictures():
    before, after = platform(2, 4, 1), platform(3, 4, 1)
    text = report_page.render(make_report([preview(facts(before, after))]))
    for caption, wide, narrow in pictures("shop/prod", *_subjects(before, after)):
        assert f"<h3>{caption}</h3>" in text
        for each in (wide, narrow):
            assert re.sub(r'aria-label="[^"]*"', "", each) in re.sub(
                r'aria-label="[^"]*"', "", text
            )


def _subjects(before: dict[str, Any], after: dict[str, Any]) -> tuple[Any, Any]:
    stated = report(before, after).facts
    return stated.before, stated.after


SAMPLE = (("map", 400, "dark"), ("report", 1200, "light"))


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
@pytest.mark.parametrize(
    ("page", "width", "theme"),
    [
        *SAMPLE,
        *in_full(
            *(
                case
                for case in product(("map", "report"), (400, 1200), ("light", "dark"))
                if case not in SAMPLE
            )
        ),
    ],
)
def test_a_browser_and_its_accessibility_rules_find_nothing_serious(tmp_path, page, width, theme):
    before, after = platform(20, 40, 8), platform(21, 40, 8)
    text = (
        map_page.render(report(before, after), compared="main")
        if page == "map"
        else report_page.render(make_report([preview(facts(before, after))]))
    )
    rules = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    text = text.replace("<html", f'<html data-theme="{theme}"', 1)
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", AXE % rules + "</body>"), encoding="utf-8")
    dumped = browser(
        "--dump-dom",
        f"--window-size={width},900",
        "--virtual-time-budget=60000",
        path.as_uri(),
        profile=tmp_path / "profile",
    )
    saw = left_by_the_page(dumped)
    assert saw["violations"] == []
    assert saw["wide"] is False
    assert saw["passes"] > 10
