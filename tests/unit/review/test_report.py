from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from inferplan.kube import marks
from inferplan.review.reading.reader import read_file
from inferplan.review.rendering import html as page
from inferplan.review.rendering import markdown as comment
from inferplan.review.rendering.markdown import marker
from inferplan.review.report import Report, as_json, make_report
from tests.review_streams import SECRET, UNKNOWN, facts, preview, stack_step, step, stream, urn

KUBERNETES = Path(__file__).resolve().parents[2] / "fixtures" / "kubernetes-previews"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def report_on(*events, **options) -> Report:
    return make_report([preview(*events, **options)])


def every_rendering(report: Report) -> str:
    return comment.render(report) + page.render(report) + as_json(report)


@pytest.fixture(scope="module")
def changes() -> Report:
    return make_report([read_file(KUBERNETES / "changes.ndjson")])


def test_verdict_and_counts_are_in_one_line_after_the_marker(changes):
    first, second = comment.render(changes).splitlines()[:2]
    assert first == marker(changes)
    assert second.startswith(
        "## ⚠️ <code>tiny/dev</code>: 3 risks, 1 of them critical · 1 to create, 1 to update, 2 to"
        " replace, 1 to delete"
    )


def test_every_delete_and_replace_is_a_risk_with_its_cause(changes):
    assert [(each.what, each.name, each.cause) for each in changes.stacks[0].risks] == [
        ("replaced", "k", "data.a: secret → secret (changed)"),
        ("runs another image", "preheat", "spec.template.spec.containers[c].image: x → y"),
        ("deleted", "gpu-0", "no longer declared"),
        ("replaced", "preheat", "spec.template.spec.containers[0].image: x → y"),
    ]


def test_deletions_without_loss_are_folded_and_not_counted_as_risks():
    old, new = {"metadata": {"name": "a-1"}}, {"metadata": {"name": "a-2"}}
    report = report_on(step("replace", CONFIG_MAP, "a", old, new, keys=["metadata.name"]))
    assert report.verdict == "no risky changes"
    assert "1 routine step, deletions and replacements that lose no" in comment.render(report)
    assert "metadata.name: a-1 → a-2" in comment.render(report)


def test_a_run_without_changes_says_so():
    report = make_report([read_file(KUBERNETES / "no-change.ndjson")])
    assert report.verdict == "no changes"
    assert "### Risks" not in comment.render(report)


def test_a_mandatory_violation_blocks_and_shows_its_words():
    report = make_report([read_file(KUBERNETES / "policy-violations.ndjson")])
    text = comment.render(report)
    assert report.verdict == "blocked: 1 mandatory policy violation"
    assert "Images carry a tag." in text
    assert "container image 'x' has no tag" in text
    assert text.index("mandatory") < text.index("advisory")


def test_a_policy_that_cannot_be_judged_is_folded_and_blocks_nothing():
    report = make_report(
        [read_file(KUBERNETES.parent / "engine-events" / "31fea1f8" / "eventstream.json")]
    )
    assert all(not each.evaluated for each in report.stacks[0].policies)
    assert "1 policy could not be evaluated" in comment.render(report)
    assert not report.verdict.startswith("blocked")


def test_a_cut_stream_is_incomplete_and_never_no_changes(tmp_path):
    path = tmp_path / "cut.ndjson"
    path.write_bytes((KUBERNETES / "no-change.ndjson").read_bytes()[:30000])
    report = make_report([read_file(path)])
    assert report.verdict.startswith("incomplete:")
    assert "This preview is incomplete" in comment.render(report)


def test_the_digest_and_the_stream_of_one_change_show_the_same_properties():
    digest = make_report([read_file(KUBERNETES / "changes.digest.json")]).stacks[0]
    streamed = make_report([read_file(KUBERNETES / "changes.ndjson")]).stacks[0]
    wanted = {"k", "m", "gpu-0"}
    tables = [
        {each.name: each.properties for each in stack.resources if each.name in wanted}
        for stack in (digest, streamed)
    ]
    assert tables[0] == tables[1]


def test_a_changed_secret_shows_as_changed_and_an_unknown_as_known_after_up():
    diff = {
        "data.a": {"diffKind": "update", "inputDiff": False},
        "data.b": {"diffKind": "update", "inputDiff": False},
    }
    old, new = {"data": {"a": SECRET, "b": "1"}}, {"data": {"a": SECRET, "b": UNKNOWN}}
    rows = (
        report_on(step("update", CONFIG_MAP, "c", old, new, diff=diff))
        .stacks[0]
        .resources[0]
        .properties
    )
    assert [(each.path, each.old, each.new) for each in rows] == [
        ("data.a", "secret", "secret (changed)"),
        ("data.b", '"1"', "known after up"),
    ]


def test_a_value_that_becomes_a_secret_hides_what_it_was():
    diff = {"data.a": {"diffKind": "update", "inputDiff": False}}
    report = report_on(
        step(
            "update",
            CONFIG_MAP,
            "c",
            {"data": {"a": "canary-plain"}},
            {"data": {"a": SECRET}},
            diff=diff,
        )
    )
    assert "canary-plain" not in every_rendering(report)


def test_without_a_detailed_diff_the_inputs_are_compared():
    old = {"spec": {"clusterIP": "10.0.0.1", "replicas": 1}}
    new = {"spec": {"clusterIP": "10.0.0.2", "replicas": 1, "extra": [1, 2]}}
    stack = report_on(step("update", "kubernetes:core/v1:Service", "m", old, new)).stacks[0]
    assert [(each.path, each.old, each.new) for each in stack.resources[0].properties] == [
        ("spec.clusterIP", '"10.0.0.1"', '"10.0.0.2"'),
        ("spec.extra", "", "[1, 2]"),
    ]
    assert "changes its address or ports" in [each.what for each in stack.risks]


def test_stack_outputs_are_compared():
    outputs = (
        report_on(stack_step({"url": "a", "key": SECRET}, {"url": "b", "key": SECRET, "new": 1}))
        .stacks[0]
        .outputs
    )
    assert [(each.path, each.old, each.new) for each in outputs] == [
        ("new", "", "1"),
        ("url", "a", "b"),
    ]


@pytest.mark.parametrize(
    ("event", "what", "words"),
    [
        (
            step("delete", "aws:s3/bucket:Bucket", "w", {"bucket": "w"}),
            "deleted",
            "every object in the bucket is lost",
        ),
        (
            step("delete", "aws:efs/fileSystem:FileSystem", "f", {}),
            "deleted",
            "every file on it is lost",
        ),
        (
            step("delete", "kubernetes:core/v1:PersistentVolumeClaim", "p", {}),
            "deleted",
            "weights have to be fetched again",
        ),
        (
            step("replace", "aws:eks/nodeGroup:NodeGroup", "n", {}, {}, keys=["instanceTypes"]),
            "replaced",
            "all its nodes are replaced",
        ),
        (
            facts({"consumer": {"chat": {"keys": [2, 1]}}}, {"consumer": {"chat": {"keys": [2]}}}),
            "loses key 1",
            "denied (401)",
        ),
        (
            facts(
                {"stack": {"stack": {"keyHistory": {"desk": {"issued": 4, "spent": [2, 4]}}}}},
                {
                    "consumer": {"desk": {"keys": [5, 4]}},
                    "stack": {"stack": {"keyHistory": {"desk": {"issued": 5, "spent": 3}}}},
                },
            ),
            "revoked keys become valid again for",
            "can call",
        ),
        (
            facts(
                {"stack": {"stack": {"keyHistory": {"desk": {"issued": 4, "spent": 4}}}}},
                {"stack": {"stack": {"keyHistory": {"desk": {"issued": 3, "spent": 3}}}}},
            ),
            "nothing records the revoked keys of",
            "same key again",
        ),
        (
            facts({"consumer": {"chat": {"keys": [1]}}}, {}),
            "loses every key (key 1)",
            "denied (401)",
        ),
        (
            step(
                "update",
                "kubernetes:networking.k8s.io/v1:Ingress",
                "i",
                {"spec": {"rules": [{"host": "a"}]}},
                {"spec": {"rules": [{"host": "b"}]}},
            ),
            "changes its host",
            "no response",
        ),
        (
            step(
                "update",
                "kubernetes:core/v1:Service",
                "s",
                {"spec": {"ports": [{"port": 80}]}},
                {"spec": {"ports": [{"port": 81}]}},
            ),
            "changes its address or ports",
            "no response",
        ),
        (
            step("update", DEPLOYMENT, "d", {"spec": {"replicas": 2}}, {"spec": {"replicas": 0}}),
            "stops",
            "no replica is ready",
        ),
        (
            step("same", "aws:s3/bucket:Bucket", "w", {}, {}, old_state={"protect": True}),
            "loses its protection",
            "without being rejected",
        ),
    ],
)
def test_a_risk_says_what_it_means_in_words(event, what, words):
    risks = report_on(event).stacks[0].risks
    assert [each.what for each in risks] == [what]
    assert words in risks[0].consequence


@pytest.mark.parametrize(
    "event",
    [
        step("create", "aws:s3/bucket:Bucket", "w", None, {"bucket": "w"}),
        facts({"consumer": {"chat": {"keys": [1]}}}, {"consumer": {"chat": {"keys": [2, 1]}}}),
        step("update", DEPLOYMENT, "d", {"spec": {"replicas": 2}}, {"spec": {"replicas": 3}}),
        step(
            "update",
            "kubernetes:networking.k8s.io/v1:Ingress",
            "i",
            {"spec": {}},
            {"spec": {"rules": [{"host": "b"}]}},
        ),
    ],
)
def test_additions_are_not_a_risk(event):
    assert report_on(event).stacks[0].risks == ()


def test_a_bucket_policy_is_not_a_bucket():
    risks = report_on(step("delete", "aws:s3/bucketPolicy:BucketPolicy", "w", {})).stacks[0].risks
    assert (
        risks[0].consequence
        == "requests that it denied are allowed, and requests that it allowed are denied"
    )


HOSTILE = [
    "</code></details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "@everyone look, #123 and org/repo#1",
    "a | b ` c ``` d",
    "[click](javascript:alert(1)) ![x](http://evil.example/x.png)",
    "\x1b[31mred\x1b[0m <{%fg 1%}>tag<{%reset%}>",
    "line\n## heading\n/merge\n- [ ] task",
    "--><h1>out</h1><!--",
    "{{ 7 * 7 }} {% raw %}",
    "\u202etxt.exe",
]


def hostile_report(text: str) -> Report:
    diagnostic = {
        "diagnosticEvent": {"urn": urn(DEPLOYMENT, text), "message": text, "severity": "error"}
    }
    policy = {
        "policyEvent": {
            "resourceUrn": urn(DEPLOYMENT, text),
            "message": f"{text}\n{text}",
            "policyName": text,
            "policyPackName": text,
            "enforcementLevel": text,
            "severity": text,
        }
    }
    diff = {text: {"diffKind": text, "inputDiff": False}, "x": {"diffKind": "update-replace"}}
    return report_on(
        diagnostic,
        policy,
        stack_step({"a": "b"}, {"a": text, text: text}),
        step(
            "replace",
            DEPLOYMENT,
            text,
            {"x": text, text: text},
            {"x": f"{text} ", text: [text]},
            diff=diff,
            keys=[text],
        ),
        step("create", f"evil:{text}:Kind", text, None, {text: {text: text}}),
        PolicyPacks={text: text},
    )


def markup_of(text: str) -> str:
    """Markdown with everything taken away that is shown as it stands."""
    return re.sub(r"&#?\w+;", "", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_markdown(text):
    rendered = comment.render(hostile_report(text))
    markup = markup_of(re.sub(r"```mermaid\n.*?\n```", "", rendered, flags=re.S))
    assert not re.search(r"<(?!/?(?:code|details|summary|sub)>|!-- )", markup)
    assert not re.search(r"@|(?<![#\n])#(?!#* )|\]\(", markup.replace("-->", ""))
    assert "\x1b" not in rendered
    assert "{%fg" not in rendered
    for line in rendered.splitlines():
        assert not line.startswith("/")
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4


class Tags(HTMLParser):
    """What elements and attributes a piece of HTML has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element_when_a_markdown_library_lays_it_out(text):
    laid_out = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .render(comment.render(hostile_report(text)))
    )
    ours = {
        "h2",
        "h3",
        "p",
        "ul",
        "li",
        "strong",
        "em",
        "code",
        "sub",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "hr",
    }
    assert Tags(laid_out).seen <= ours
    assert Tags(laid_out).attributes <= {"class"}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_a_picture(text):
    rendered = comment.render(hostile_report(text))
    picture = re.search(r"```mermaid\n(.*?)\n```", rendered, flags=re.S)
    assert picture
    for line in picture[1].splitlines()[1:]:
        assert re.fullmatch(r'  (n\d+\["[^"`]*"\]:::\w+|n\d+ --> n\d+|classDef .*)', line)
    assert not re.search(r"<(?!/?b>|br/>)", picture[1])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_html(text):
    rendered = page.render(hostile_report(text))
    body = rendered.partition("<body>")[2].rpartition("<script>")[0]
    assert "<script" not in body
    assert "<img" not in body
    assert "\x1b" not in rendered
    assert "49" not in body.partition("<section>")[2] or "7 * 7" in body


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_leaves_tables_and_folds_whole(text):
    rendered = comment.render(hostile_report(text))
    markup = markup_of(re.sub(r"```mermaid\n.*?\n```", "", rendered, flags=re.S))
    assert markup.count("<details>") == markup.count("</details>")
    assert not re.search(r"<(?!/?(?:code|details|summary|sub)>|!-- )", markup)


CANARIES = {
    "wrapped": {"a": {**SECRET, "plaintext": "canary-wrapped"}},
    "kubernetes": {"data": {"a": "canary-kubernetes"}, "stringData": {"b": "canary-string"}},
    "environment": {"env": [{"name": "HF_TOKEN", "value": "canary-env"}]},
    "named": {"password": "canary-named", "apiKeySeed": "canary-seed"},
    "shaped": {
        "note": "AKIAIOSFODNN7CANARYX",
        "url": "https://anna:canary-url@host/x",
        "more": "Bearer canary-bearer-0123456789",
    },
    "key": {"note": "-----BEGIN RSA PRIVATE KEY-----\ncanary-pem\n-----END RSA PRIVATE KEY-----"},
    "output": {"a": {marks.SIGNATURE: marks.OUTPUT, "value": "canary-output", "secret": True}},
}


@pytest.mark.parametrize("op", ["create", "update", "replace", "delete"])
@pytest.mark.parametrize("name", sorted(CANARIES))
def test_no_canary_reaches_any_output(name, op):
    inputs = CANARIES[name]
    old, new = (
        (None if op == "create" else inputs),
        (None if op == "delete" else {**inputs, "x": 1}),
    )
    report = report_on(
        step(op, "kubernetes:core/v1:Secret", name, old, new),
        stack_step({}, inputs if name != "kubernetes" else {}),
        {"diagnosticEvent": {"message": json.dumps(CANARIES["shaped"]), "severity": "error"}},
        {
            "policyEvent": {
                "message": f"bad: {CANARIES['key']['note']}",
                "policyName": "p",
                "enforcementLevel": "advisory",
            }
        },
    )
    assert not re.search("canary|CANARY", every_rendering(report))


def many(count: int) -> Report:
    def config_map(index):
        return step(
            "create",
            CONFIG_MAP,
            f"c{index:04}",
            None,
            {"data": {"text": f"{'réplica of the model ' * 7}{index}"}},
        )

    return report_on(
        step("delete", "aws:s3/bucket:Bucket", "weights", {}),
        *(config_map(index) for index in range(count)),
    )


@pytest.mark.parametrize("budget", [4000, 20000, 60000])
def test_a_long_report_is_cut_by_whole_resource_and_says_how_many(budget):
    report = many(400)
    text = comment.render(report, budget=budget)
    left_out = re.search(r"… (\d+) more resources left out", text)
    assert left_out
    assert len(text) <= budget
    assert len(text.encode()) <= 3 * budget
    assert (
        text.count("<details><summary>🆕") + int(left_out[1]) + text.count("<details><summary>🗑️")
        == 401
    )
    assert text.count("<details>") == text.count("</details>")
    assert "every object in the bucket is lost" in text
    assert "Reproduce" in text or text.rstrip().endswith("---")


def test_what_fits_is_not_cut():
    assert "left out" not in comment.render(many(20))


def test_a_budget_that_holds_nothing_is_refused_with_one_that_does():
    with pytest.raises(ValueError, match=r"is too small\. The report needs --budget \d+\.$"):
        comment.render(many(3), budget=100)


@pytest.mark.parametrize(
    "name", ["changes.ndjson", "policy-violations.ndjson", "changes.digest.json"]
)
def test_the_same_input_gives_the_same_bytes(name):
    first, second = (every_rendering(make_report([read_file(KUBERNETES / name)])) for _ in range(2))
    assert first == second


def test_the_order_of_the_files_changes_nothing():
    files = [
        KUBERNETES / name
        for name in ("changes.ndjson", "no-change.ndjson", "policy-violations.ndjson")
    ]
    assert comment.render(make_report([read_file(path) for path in files])) == comment.render(
        make_report([read_file(path) for path in reversed(files)])
    )


def test_a_picture_of_too_many_components_becomes_a_tree():
    text = comment.render(many(60))
    assert "```mermaid" not in text
    assert "61 changed components" in text


def test_a_picture_shows_components_and_what_changes_inside():
    component = step("same", "inferplan:serving:VllmService", "m", {}, {})
    inside = step(
        "update",
        DEPLOYMENT,
        "m",
        {"a": 1},
        {"a": 2},
        parent=urn("inferplan:serving:VllmService", "m"),
    )
    text = comment.render(report_on(component, inside))
    assert 'n0["~ <b>m</b><br/>VllmService<br/>~ Deployment"]:::update' in text


def test_a_plan_without_the_cli_says_what_it_cannot_see():
    content = stream(stack_step()).replace(
        b'"preludeEvent": {', b'"preludeEvent": {"planner": "inferplan", '
    )
    from inferplan.review.reading.reader import read_bytes

    assert "without credentials" in comment.render(make_report([read_bytes(content)]))
    assert "by the Pulumi CLI" in comment.render(report_on(stack_step()))


def test_the_page_loads_nothing_from_anywhere(changes):
    text = page.render(changes)
    assert not re.search(r"(?:src|href)\s*=", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    "folder",
    sorted((KUBERNETES.parent / "engine-events").iterdir()),
    ids=lambda folder: folder.name,
)
def test_every_recorded_run_can_be_reported(folder):
    report = make_report([read_file(folder / "eventstream.json")])
    assert every_rendering(report)
    assert "{%" not in comment.render(report)


BUCKET = "aws:s3/bucket:Bucket"
ROUTINE = step(
    "replace",
    CONFIG_MAP,
    "a",
    {"metadata": {"name": "a-1"}},
    {"metadata": {"name": "a-2"}},
    keys=["metadata.name"],
)
LOSS = [step("delete", BUCKET, name, {"bucket": name}) for name in ("weights", "logs")]
INTERRUPTION, STOP = (
    step("update", DEPLOYMENT, "m", {"spec": {"replicas": 2}}, {"spec": {"replicas": after}})
    for after in (1, 0)
)


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ([LOSS[0]], "1 critical risk"),
        ([STOP], "1 critical risk"),
        ([INTERRUPTION], "1 risk"),
        ([LOSS[0], INTERRUPTION], "2 risks, 1 of them critical"),
        ([LOSS[0], ROUTINE], "1 critical risk"),
    ],
)
def test_a_reader_finds_as_many_risks_as_the_verdict_counts(events, verdict):
    report = report_on(*events)
    assert report.verdict == verdict
    html = page.render(report)
    listed = re.search(r"<h3>Risks</h3><ul[^>]*>(.*?)</ul>", html, re.DOTALL)
    assert listed
    shown = comment.render(report).partition("### Risks\n\n")[2].partition("\n\n")[0]
    assert verdict.startswith(f"{listed[1].count('<li ')} ")
    assert verdict.startswith(f"{shown.count('- ')} ")


def test_a_page_without_risks_has_no_heading_for_them_and_folds_routine_steps():
    html = page.render(report_on(ROUTINE))
    assert "Risks" not in html
    folded = re.search(
        r"<details><summary>1 routine step, [^<]*</summary><ul[^>]*>(.*?)</ul></details>",
        html,
        re.DOTALL,
    )
    assert folded
    assert "ConfigMap a" in folded[1]


def test_the_first_screen_says_in_words_who_loses_what():
    gate = {"gateway": {"door": {"implementation": "nginx"}}}
    sides = (
        {**gate, "model": {"phi-4": {"consumers": each}}}
        for each in (["web", "etl", "qa"], ["web"])
    )
    html = page.render(report_on(facts(*sides), LOSS[0], INTERRUPTION))
    first = html[html.index("<h1>") : html.index('class="bar"')]
    assert "etl and qa lose phi-4</b>: requests with their keys are denied" in first
    assert "weights is deleted</b>" in first
    assert "m runs fewer replicas</b>" in first
    assert [first.count(f">{word}</span>") for word in ("critical", "disruptive")] == [3, 1]
    assert 'class="verdict weight-0"' in html
    calm = page.render(report_on(ROUTINE))
    assert 'class="verdict rank-4"' in calm
    assert ">no risk</span>" in calm


def test_unchanged_figures_are_folded_and_changed_ones_are_open():
    machine = {
        "instanceTypes": ["g6e.4xlarge"],
        "labels": {"inferplan.dev/pool": "l40s"},
        "scalingConfig": {"minSize": 1, "maxSize": 2},
    }
    grown = machine | {"scalingConfig": {"minSize": 1, "maxSize": 4}}
    kind = "aws:eks/nodeGroup:NodeGroup"
    same, more = (
        page.render(report_on(step(op, kind, "l40s", machine, new), ROUTINE))
        for op, new in (("same", machine), ("update", grown))
    )
    for title in ("Capacity", "Monthly cost"):
        assert f"<details><summary>{title} (unchanged)</summary>" in same
        assert f"<h3>{title}</h3>" in more
