"""The report on a whole change: what a workflow lost, forged or left out is red and named, never
"no stack is touched".
"""

from __future__ import annotations

import json

import pytest

from inferplan.commands.main import run
from tests.checkouts import git, small_project

SETTINGS = "inferplan/policies/stacks/prod.json"
BUDGET = '{"monthlyUsd": 120000}'
EXEMPTION = {
    "rule": "pod-require-non-root",
    "resource": "Deployment/gateway",
    "path": "spec",
    "state": "violation",
    "reason": "needed",
    "owner": "platform",
    "expires": "2027-05-31",
}


def plan_of(stack, *, planner="inferplan", op="same", resources=(("core/v1:ConfigMap", "c"),)):
    """The events of a plan of `stack`."""
    steps = []
    for kind, name in resources:
        urn = f"urn:pulumi:{stack}::inferplan::kubernetes:{kind}::{name}"
        state = {"type": f"kubernetes:{kind}", "urn": urn, "inputs": {}}
        steps.append(
            {
                "resOutputsEvent": {
                    "metadata": {
                        "op": op,
                        "urn": urn,
                        "type": state["type"],
                        "old": state,
                        "new": state,
                        "provider": f"urn:pulumi:{stack}::inferplan::pulumi:providers:kubernetes::k::1",
                    }
                }
            }
        )
    bodies = [
        {
            "preludeEvent": {
                "planner": planner,
                "config": {"inferplan:budget": BUDGET} if stack == "prod" else {},
            }
        },
        *steps,
        {
            "summaryEvent": {
                "isPreview": True,
                "resourceChanges": {op: len(steps)},
                "result": "succeeded",
                "PolicyPacks": {"inferplan": "1"},
            }
        },
    ]
    return "".join(json.dumps(body) + "\n" for body in bodies)


def findings(stack):
    from inferplan.review.findings import findings_of, save

    return save(findings_of([], stack=stack, base="a", head="b", outcome="ready"))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A project whose program only marks it as one."""
    folder = tmp_path / "repository"
    folder.mkdir()
    small_project(folder)
    # Two exemptions, whatever the example stacks have.
    known = [EXEMPTION | {"resource": f"ConfigMap/known-{index}"} for index in range(2)]
    (folder / SETTINGS).write_text(json.dumps({"exemptions": known}))
    git(folder, "commit", "--quiet", "--all", "--message", "Exemptions")
    monkeypatch.chdir(folder)
    return folder


def head(folder, edit):
    """A commit with what `edit` does to the folder; the working tree goes back to the base."""
    edit()
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "Head")
    commit = git(folder, "rev-parse", "HEAD")
    git(folder, "reset", "--quiet", "--hard", "HEAD~1")
    return commit


def report(folder, commit, files, *options):
    """Exit code, Markdown and JSON of the report on the change to `commit`, given `files` by name."""
    events = folder.parent / "events"
    events.mkdir(exist_ok=True)
    paths = []
    for name, content in files.items():
        path = events / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(str(path))
    out, data = folder.parent / "report.md", folder.parent / "report.json"
    arguments = [
        "report",
        "--complete",
        "--base",
        "main",
        "--commit",
        commit,
        "--markdown",
        str(out),
        "--json",
        str(data),
        *options,
    ]
    with pytest.raises(SystemExit) as end:
        run([*arguments, "--", *paths])
    return int(end.value.code or 0), out.read_text(), json.loads(data.read_text())


def edit_stack(folder, stack):
    path = folder / "stacks" / f"Pulumi.{stack}.yaml"
    return lambda: path.write_text(path.read_text() + "# changed\n")


def edit_settings(folder, change):
    def edit():
        path = folder / SETTINGS
        settings = json.loads(path.read_text())
        change(settings)
        path.write_text(json.dumps(settings))

    return edit


def test_a_stack_without_a_preview_is_red_and_listed_with_the_others(repository):
    commit = head(
        repository, lambda: (repository / "inferplan" / "infra" / "code.py").write_text("# other\n")
    )
    code, text, data = report(repository, commit, {"local.ndjson": plan_of("local")})
    assert code == 3
    verdicts = {each["stack"]: each["verdict"] for each in data["stacks"]}
    assert set(verdicts) == {"dev", "local", "onprem", "prod", "staging"}
    assert verdicts.pop("local") == "no changes"
    assert all(each.startswith("incomplete: there is no preview") for each in verdicts.values())
    assert "prod" in text


@pytest.mark.parametrize("content", ["", "{", "no json", '{"preludeEvent": {}}\n', b"\xff\xfe\x00"])
def test_one_unreadable_or_empty_file_loses_no_other_stack(repository, content):
    def edit():
        edit_stack(repository, "prod")()
        edit_stack(repository, "local")()

    code, _, data = report(
        repository,
        head(repository, edit),
        {"prod.ndjson": content, "local.ndjson": plan_of("local")},
    )
    assert code == 3
    assert [each["stack"] for each in data["stacks"]] == ["prod", "local"]
    assert data["stacks"][0]["rank"] == 0


def test_two_previews_of_one_stack_are_not_believed(repository):
    commit = head(repository, edit_stack(repository, "prod"))
    code, text, _ = report(
        repository, commit, {"prod.ndjson": plan_of("prod"), "again.ndjson": plan_of("prod")}
    )
    assert code == 3
    assert "it has 2 previews" in text


def test_a_deleted_stack_file_is_red_whatever_preview_there_is(repository):
    commit = head(repository, (repository / "stacks" / "Pulumi.prod.yaml").unlink)
    for files in ({}, {"prod.ndjson": plan_of("prod")}):
        code, text, _ = report(repository, commit, files)
        assert code == 3
        assert "its stack file is deleted" in text


def test_a_change_of_nothing_that_runs_is_calm_and_says_so(repository):
    code, text, _ = report(
        repository, head(repository, lambda: (repository / "README.md").write_text("x")), {}
    )
    assert code == 0
    assert "⚪ this change affects no stack" in text


def test_a_missing_rehearsal_is_said_and_one_that_is_there_is_not(repository):
    commit = head(repository, edit_stack(repository, "prod"))
    events = {"prod.ndjson": plan_of("prod")}
    assert "was not rehearsed" in report(repository, commit, events)[1]
    assert (
        "was not rehearsed"
        not in report(repository, commit, {**events, "prod.findings.json": findings("prod")})[1]
    )


def test_a_fork_is_never_called_a_preview_of_the_pulumi_cli(repository):
    commit = head(repository, edit_stack(repository, "prod"))
    forged = {"prod.ndjson": plan_of("prod", planner="pulumi")}
    assert "was previewed by the Pulumi CLI" in report(repository, commit, forged)[1]
    text = report(repository, commit, forged, "--fork")[1]
    assert "planned by the code of a fork" in text
    assert "was previewed by the Pulumi CLI" not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda settings: settings["exemptions"].append(EXEMPTION),
            ["gets an exemption", "rule pod-require-non-root", "2027-05-31"],
        ),
        (
            lambda settings: settings["exemptions"][0].update(expires="2027-11-01"),
            ["gets a longer exemption", "2027-11-01"],
        ),
        (
            lambda settings: settings["exemptions"][0].update(expires="2027-01-15"),
            ["loses its exemption sooner, on 2027-01-15 instead of 2027-05-31"],
        ),
        (
            lambda settings: settings["exemptions"][0].update(reason="another"),
            ["keeps an exemption whose reason changes"],
        ),
        (
            lambda settings: settings.update(levels={"pod-require-non-root": "disabled"}),
            ["enforced less strictly", "rule pod-require-non-root"],
        ),
        (
            lambda settings: settings.update(levels={"network-require-tls": "advisory"}),
            ["enforced less strictly", "rule network-require-tls"],
        ),
        (
            lambda settings: settings.update(
                parameters={"image-restrict-registries": {"registries": ["*"]}}
            ),
            ["allows something else", "rule image-restrict-registries"],
        ),
        (lambda settings: settings.update(surprise=True), ["changes a policy setting", "surprise"]),
    ],
)
def test_weaker_policy_settings_are_risks(repository, change, words):
    commit = head(repository, edit_settings(repository, change))
    code, text, data = report(repository, commit, {"prod.ndjson": plan_of("prod")})
    (stack,) = data["stacks"]
    assert (code, stack["stack"], stack["rank"]) == (0, "prod", 3)
    (risk,) = stack["risks"]
    said = f"{risk['what']} {risk['kind']} {risk['name']} {risk['cause']}"
    assert [word for word in words if word not in said] == []
    assert "no violation found" in text


def test_exemptions_in_force_are_listed_with_no_violation_found(repository):
    known = [("core/v1:ConfigMap", f"known-{index}") for index in range(2)]
    events = {"prod.ndjson": plan_of("prod", resources=known)}
    code, text, data = report(repository, head(repository, edit_stack(repository, "prod")), events)
    count = len(json.loads((repository / SETTINGS).read_text())["exemptions"])
    assert code == 0
    assert f"with {count} exemptions in force" in text
    assert len(data["stacks"][0]["exemptions"]) == count
    assert data["stacks"][0]["risks"] == []


def test_an_exemption_of_a_resource_that_the_stack_does_not_have_is_not_in_force(repository):
    events = {"prod.ndjson": plan_of("prod", resources=[("core/v1:ConfigMap", "known-1")])}
    _, text, data = report(repository, head(repository, edit_stack(repository, "prod")), events)
    assert "with 1 exemption in force" in text
    assert len(data["stacks"][0]["exemptions"]) == 1


def test_fewer_exemptions_are_no_risk_and_unreadable_settings_are(repository):
    commit = head(
        repository, edit_settings(repository, lambda settings: settings["exemptions"].pop())
    )
    assert (
        report(repository, commit, {"prod.ndjson": plan_of("prod")})[2]["stacks"][0]["risks"] == []
    )
    commit = head(repository, lambda: (repository / SETTINGS).write_text("{"))
    (risk,) = report(repository, commit, {"prod.ndjson": plan_of("prod")})[2]["stacks"][0]["risks"]
    assert risk["what"] == "policy settings cannot be read"


def test_a_change_of_the_rules_themselves_is_a_risk_in_every_stack(repository):
    def edit():
        (repository / "inferplan" / "policies" / "rules").mkdir()
        (repository / "inferplan" / "policies" / "rules" / "image.py").write_text("")

    data = report(
        repository,
        head(repository, edit),
        {f"{name}.ndjson": plan_of(name) for name in ("local", "prod")},
    )[2]
    told = {each["stack"]: [risk["what"] for risk in each["risks"]] for each in data["stacks"]}
    assert told["prod"] == told["local"] == ["the policy pack changes"]


def test_a_budget_that_is_raised_is_a_risk_for_the_cli_too(repository):
    stack = repository / "stacks" / "Pulumi.prod.yaml"
    commit = head(
        repository,
        lambda: stack.write_text(
            stack.read_text().replace("monthlyUsd: 120000", "monthlyUsd: 150000")
        ),
    )
    events = plan_of("prod", planner="").replace("120000", "150000")
    (risk,) = report(repository, commit, {"prod.ndjson": events})[2]["stacks"][0]["risks"]
    assert (risk["what"], "$120,000 → $150,000" in risk["cause"]) == ("has a higher budget", True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--complete"], "--complete compares --base with --commit. Give both"),
        (["--complete", "--base", "main", "--commit", "nowhere"], "'nowhere'"),
        ([], "EVENTS is missing"),
        (["--mask", "(", "x.ndjson"], "--mask: '(' is not a regular expression"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_bad_options_get_a_sentence(capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        run(["report", *arguments])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


RULES = "inferplan/policies/rules.toml"


@pytest.fixture
def pack(repository):
    """The identity of a pack of two rules that the base has."""
    from inferplan.commands.report.report import Change

    (repository / RULES).parent.mkdir(parents=True, exist_ok=True)
    (repository / RULES).write_text("[mine-one]\nrows = []\n\n[mine-two]\nrows = []\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Rules")
    return Change(repository, git(repository, "rev-parse", "main"), "").guards("prod").packs[0]


def stated(content, pack):
    return content.replace(
        '"PolicyPacks": {"inferplan": "1"}', json.dumps({"PolicyPacks": pack})[1:-1]
    )


@pytest.mark.parametrize("has_pack", [False, True])
def test_a_stream_without_a_pack_is_judged_where_the_base_has_one(repository, has_pack):
    """The pack of a repository that `init` makes is in the wheel; its folder names it."""
    if has_pack:
        (repository / "policies").mkdir(exist_ok=True)
        (repository / "policies" / "PulumiPolicy.yaml").write_text("version: 0.1.0\n")
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message", "Pack")
    content = plan_of("prod", resources=[("core/v1:Service", "vllm")])
    content = content.replace('"PolicyPacks": {"inferplan": "1"}', '"PolicyPacks": {}')
    commit = head(repository, edit_stack(repository, "prod"))
    code, _, data = report(repository, commit, {"prod.ndjson": content})
    whats = [each["what"] for each in data["stacks"][0]["risks"]]
    assert (code, "hides violations" in whats) == ((3, True) if has_pack else (0, False))


def first_risk(folder, commit, content):
    _, text, data = report(folder, commit, {"prod.ndjson": content})
    (stack,) = [each for each in data["stacks"] if each["stack"] == "prod"]
    return (
        next(
            ((each["what"], each["weight"], each["cause"]) for each in stack["risks"]), ("", 9, "")
        ),
        text,
    )


@pytest.mark.parametrize("content", [None, "[mine-one]\nrows = []\n"])
def test_a_pack_that_is_thinned_out_is_critical_and_counts_its_rules(repository, pack, content):
    path = repository / RULES
    commit = head(
        repository, lambda: path.unlink() if content is None else path.write_text(content)
    )
    (what, weight, cause), text = first_risk(repository, commit, plan_of("prod"))
    assert (what, weight) == ("the policy pack changes", 0)
    assert " 2 rules, sha256:" in pack
    assert f"{pack} → " in cause
    assert " 1 rules" in cause or content is None
    assert "policies/rules.toml" in text


def test_a_plan_that_another_pack_judged_is_critical_and_the_same_pack_is_not(repository, pack):
    commit = head(repository, edit_stack(repository, "prod"))
    assert first_risk(repository, commit, stated(plan_of("prod"), {"inferplan": pack}))[0] == (
        "",
        9,
        "",
    )
    other = pack.replace("2 rules", "1 rules").replace("sha256:", "sha256:0")
    (what, weight, cause), _ = first_risk(
        repository, commit, stated(plan_of("prod"), {"inferplan": other})
    )
    assert (what, weight) == ("was judged by another policy pack", 0)
    assert cause == f"{pack} → {other}"
    (what, weight, cause), _ = first_risk(
        repository, commit, stated(plan_of("prod"), {"inferplan": "0.1.0"})
    )
    assert (what, weight) == ("was judged by another policy pack", 0)
    assert cause == f"{pack} → one that states only its version, 0.1.0"
    (what, weight, _), _ = first_risk(repository, commit, stated(plan_of("prod"), {}))
    assert (what, weight) == ("no policy pack ran", 0)


def with_identity(content, identity):
    """`content` as Pulumi's engine writes it: the version in the summary, the rest as a message of
    the pack for the stack.
    """
    event = {
        "policyName": "inferplan-pack",
        "policyPackName": "inferplan",
        "enforcementLevel": "advisory",
    }
    said = {
        "policyEvent": event | {"message": f"States which pack judged this stack.\n{identity}\n"}
    }
    return (
        json.dumps(said) + "\n" + stated(content, {"inferplan|local|inferplan/policies": "0.1.0"})
    )


def test_the_identity_reaches_the_report_from_the_events_of_the_cli(repository, pack):
    commit = head(repository, edit_stack(repository, "prod"))
    risk, text = first_risk(
        repository, commit, with_identity(plan_of("prod", planner="pulumi"), pack)
    )
    assert risk == ("", 9, "")
    assert pack in text
    assert "inferplan-pack" not in text
    (what, weight, cause), _ = first_risk(
        repository,
        commit,
        with_identity(plan_of("prod", planner="pulumi"), pack.replace("sha256:", "sha256:0")),
    )
    assert (what, weight) == ("was judged by another policy pack", 0)
    assert cause.startswith(f"{pack} → ")


@pytest.mark.parametrize("name", ["kube/names.py", "images/catalogue.toml", "hardware/ec2.csv"])
def test_data_that_rules_read_belongs_to_the_pack(repository, pack, name):
    path = repository / "inferplan" / name

    def change():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# another reading of the rules\n")

    (what, weight, cause), text = first_risk(repository, head(repository, change), plan_of("prod"))
    assert (what, weight) == ("the policy pack changes", 0)
    assert f"{pack} → " in cause
    assert name in text
