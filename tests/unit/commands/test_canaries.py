"""Every secret that a stack holds or that is made of one, on every surface a command has: none
shows anywhere.
"""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest

from inferplan.commands import main
from inferplan.components.gateway import keys
from inferplan.pulumi_engine.secrets import new_salt
from tests.canaries import hits, spellings
from tests.printed_keys import read_key

ROOT = Path(__file__).parents[3]
PASSPHRASE = "canary-Passphrase-Qm2Lx9Rk4Vw8Nc3Hd6"  # noqa: S105 - made for this test
SEED = "canaryseed7Tq2Lx9Rk4Vw8Nc3Hd6Bp1Jg5Ys0FfZm8Uv"
OWN = "sk-canary-Zt7Wn2Ex9Ak4Cw8Mc3Kd6Dp1Gg5Hs0Uf"
PROVIDER = "canaryAwsSecretKey/Tz5Rm3Qn8Wv2Kx7Yp4Lc9"


def _secrets() -> dict[str, str]:
    derived = {
        f"key {version} of {who}": read_key(keys.consumer_key(SEED, who, version)).secret
        for who, version in (("chat", 2), ("batch", 1))
    }
    servers = {
        f"server key of {model}": keys.server_key(SEED, model)[4:]
        for model in ("llama-3-8b", "llama-3-70b")
    }
    own_hash = {
        "hash of a key": keys.proxy_digest(keys.consumer_key(SEED, "chat", 2), keys.pepper(SEED))
    }
    return {
        "passphrase": PASSPHRASE,
        "seed": SEED,
        "own key": OWN,
        "provider": PROVIDER,
        "pepper": keys.pepper(SEED),
        **derived,
        **servers,
        **own_hash,
    }


one_salt = functools.cache(new_salt)  # a key takes a third of a second


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("Pulumi.yaml", "inferplan/infra", "policies"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "stacks").mkdir()
    salt, box = one_salt(PASSPHRASE)
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    text = re.sub(r"encryptionsalt: .*", f"encryptionsalt: {salt}", text)
    text = re.sub(
        r"secure: v1:.*",
        f"secure: {box.encrypt(SEED)}\n  aws:secretKey: {{secure: {box.encrypt(PROVIDER)}}}",
        text,
    )
    text = text.replace(
        "chat: {keys: [2, 1]}",
        f'chat: {{keys: [2, 1], importedKeys: {{"1": {{secure: "{box.encrypt(OWN)}"}}}}}}',
    )
    (tmp_path / "stacks" / "Pulumi.local.yaml").write_text(text)
    shutil.copy(
        tmp_path / "stacks" / "Pulumi.local.yaml", tmp_path / "stacks" / "Pulumi.other.yaml"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def told(capfd):
    def run(*arguments: str) -> tuple[int, bytes]:
        with pytest.raises(SystemExit) as ended:
            main.run(arguments)
        said = capfd.readouterr()
        return int(ended.value.code or 0), (said.out + said.err).encode()

    return run


def _written(project: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(project)): path.read_bytes()
        for path in project.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_a_canary_is_found_in_every_spelling():
    for secret in _secrets().values():
        for spelled in spellings(secret):
            assert hits({"it": secret}, {"there": b"..." + spelled + b"..."})


@pytest.mark.slow
def test_nothing_that_plans_checks_and_reports_shows_a_secret(project, told):
    surfaces = {}
    for name, arguments in {
        "validate": ("validate", "local"),
        "plan": ("plan", "local", "--all", "--save", "a.plan", "--events", "a.ndjson"),
        "second plan": ("plan", "other", "--against", "a.plan", "--all", "--events", "b.ndjson"),
        "check": ("check", "local"),
        "check as sarif": ("check", "local", "--format", "sarif"),
        "check as junit": ("check", "local", "--format", "junit"),
        "report": ("report", "a.ndjson"),
        "report in files": (
            "report",
            "a.ndjson",
            "--markdown",
            "a.md",
            "--html",
            "a.html",
            "--json",
            "a.json",
        ),
        "status": ("status", "local"),
        "keys add": ("keys", "add", "batch", "--stack", "local"),
        "keys retire": ("keys", "retire", "chat", "1", "--stack", "local"),
    }.items():
        code, surfaces[name] = told(*arguments)
        assert code in {"report": (0, 3), "status": (1,)}.get(arguments[0], (0,)), surfaces[
            name
        ].decode()
    surfaces |= _written(project)
    assert {"a.plan", "a.ndjson", "b.ndjson", "a.md", "a.html", "a.json"} <= set(surfaces)
    assert hits(_secrets(), surfaces) == []


def test_keys_show_prints_only_derived_keys(told, project):  # noqa: ARG001 - the stack must be there
    _, shown = told("keys", "show", "chat", "--stack", "local")
    assert hits(_secrets(), {"keys show": shown}) == ["key 2 of chat in keys show"]


@pytest.mark.parametrize(
    "spoilt",
    [
        ("secure: v1:", "secure: v1:AAAA"),
        ("engine: vllm", "engine: vlm"),
        ("secretsprovider", None),
        ("    batch: {keys: [1]}", f'    batch: {{keys: [1], importedKeys: {{"1": {OWN}}}}}'),
        ("  aws:secretKey:", f"  inferplan:note: {OWN}\n  aws:secretKey:"),
    ],
    ids=[
        "a damaged seed",
        "a misspelt engine",
        "another passphrase",
        "an own key in clear",
        "an unknown key",
    ],
)
def test_no_error_shows_a_secret(project, told, monkeypatch, spoilt):
    path = project / "stacks" / "Pulumi.local.yaml"
    before, after = spoilt
    if after is None:
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", f"{PASSPHRASE}x")
    else:
        path.write_text(path.read_text().replace(before, after))
    code, said = told("plan", "local", "--all", "--events", "a.ndjson")
    assert code != 0
    written = {
        name: content
        for name, content in _written(project).items()
        if not name.startswith("stacks/")
    }
    assert hits(_secrets(), {"plan": said, **written}) == []


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("inferplan.components.gateway.keys.fingerprint", False),
        ("inferplan.pulumi_engine.plan.events.events_of", True),
    ],
)
def test_neither_word_nor_trace_of_a_defect_shows_a_secret(project, told, monkeypatch, where, kept):
    def broken(*_arguments, **_named):
        raise RuntimeError("a defect where secrets are at hand")

    monkeypatch.setattr(where, broken)
    code, said = told("plan", "local", "--events", "a.ndjson")
    assert code != 0
    assert b"a defect where secrets are at hand" in said
    written = {
        name: content
        for name, content in _written(project).items()
        if not name.startswith("stacks/")
    }
    assert any(name.endswith(".trace") for name in written) == kept
    assert hits(_secrets(), {"plan": said, **written}) == []
