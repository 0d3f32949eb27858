"""`inferplan new`, as a person uses it: what it writes, what it refuses, and what never shows."""

from __future__ import annotations

import errno
import getpass
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import inferplan.pulumi_engine.secrets
from inferplan.commands import main
from inferplan.components.gateway.keys import seed_error
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, new_salt, open_secrets
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.files import create
from inferplan.workspace.project import stack_files
from tests.canaries import hits

ROOT = Path(__file__).resolve().parents[3]
PHRASE = "canary: none but the owner knows"  # made for these tests
SEED = "inferplan:apiKeySeed"
OWN = "8c1f6b0e7d2a4953b6f0c7e8d9a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3"
PROVIDER = "canary/of+the/provider/secret"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    for name in ("Pulumi.yaml", "inferplan/infra", "schemas"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    for folder in ("stacks", "policies/stacks"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (
        "stacks/Pulumi.local.yaml",
        "stacks/Pulumi.onprem.yaml",
        "policies/stacks/local.json",
    ):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PHRASE)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE_FILE", raising=False)
    # What is sealed and opened by the same process needs no million rounds; tests/engine shows them
    # to Pulumi itself.
    monkeypatch.setattr(inferplan.pulumi_engine.secrets, "_ROUNDS", 10)
    return tmp_path


@pytest.fixture
def new(capfd):
    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as caught:
            main.run(("new", *arguments))
        said = capfd.readouterr()
        return int(caught.value.code or 0), said.out + said.err

    return run


def stack(name: str) -> Path:
    return Path("stacks") / f"Pulumi.{name}.yaml"


def opened(name: str, passphrase: str = PHRASE) -> dict[str, str]:
    file = read_stack(stack(name))
    return dict(
        open_secrets(
            file.secrets,
            salt=file.encryption_salt,
            provider=None,
            environment={"PULUMI_CONFIG_PASSPHRASE": passphrase},
        ).values
    )


def files() -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(Path().rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def with_secrets(passphrase: str, *, edit: Any = lambda text: text) -> None:
    """The stack `rich`: local with an imported key and a secret of a provider, all under
    `passphrase`.
    """
    salt, box = new_salt(passphrase)
    text = re.sub(r"encryptionsalt: .*", f"encryptionsalt: {salt}", stack("local").read_text())
    text = re.sub(
        r"secure: v1:.*",
        f"secure: {box.encrypt('0123456789abcdef' * 4)}\n  aws:secretKey: {{secure:"
        f" {box.encrypt(PROVIDER)}}}",
        text,
    )
    text = text.replace(
        "chat: {keys: [2, 1]}",
        f'chat: {{keys: [2, 1], importedKeys: {{"1": {{secure: "{box.encrypt(OWN)}"}}}}}}',
    )
    stack("rich").write_bytes(edit(text).encode())


def test_the_copy_differs_in_its_secrets_and_in_the_remark_about_them_alone(new):
    assert new("acme")[0] == 0
    before, after = (stack(name).read_text().splitlines() for name in ("local", "acme"))
    changed = [(old, now) for old, now in zip(before, after, strict=True) if old != now]
    assert changed[0] == (
        before[1],
        before[1].removesuffix(f" Passphrase of the secret: {EXAMPLE_PASSPHRASE}"),
    )
    assert [old.split(":")[0].strip() for old, _ in changed[1:]] == ["encryptionsalt", "secure"]
    assert validate(read_stack(stack("acme"))) == validate(read_stack(stack("local")))


def test_every_stack_gets_a_seed_of_its_own_in_the_form_that_the_program_expects(new):
    for name in ("acme", "beta"):
        assert new(name)[0] == 0
    seeds = {opened(name)[SEED] for name in ("acme", "beta")}
    assert len(seeds) == 2
    assert all(re.fullmatch("[0-9a-f]{64}", seed) and seed_error(seed) is None for seed in seeds)


def test_it_may_be_read_by_whom_the_umask_lets(new):
    before = os.umask(0o027)
    try:
        assert new("acme")[0] == 0
    finally:
        os.umask(before)
    assert stack("acme").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text,
        lambda text: "\ufeff" + text.replace("\n", "\r\n"),
        lambda text: re.sub(r"secure: (v1:[^\s\"}]+)\n", r"secure: >-\n      \1\n\n", text),
        lambda text: re.sub(
            r"inferplan:apiKeySeed:\n    secure: (\S+)",
            r"apiKeySeed: {'secure': '\1'}  # the seed",
            text,
        ),
        lambda text: text.replace(
            "encryptionsalt: ", "secretsprovider: passphrase\nencryptionsalt:   "
        ).replace("config:", "\n# ü\nconfig:"),
    ],
    ids=["plain", "Windows", "folded", "flow", "spaced"],
)
def test_secrets_other_than_the_seed_are_copied_from_any_layout(new, edit):
    with_secrets(PHRASE, edit=edit)
    code, said = new("acme", "--from", "rich")
    assert code == 0, said
    assert "the same secret as in rich: consumers.chat.importedKeys.1, aws:secretKey\n" in said
    before, after = opened("rich"), opened("acme")
    assert {key: text for key, text in after.items() if before[key] == text} == {
        'inferplan:consumers.chat.importedKeys["1"]': OWN,
        "aws:secretKey": PROVIDER,
    }
    assert not set(read_stack(stack("acme")).secrets.values()) & set(
        read_stack(stack("rich")).secrets.values()
    )
    blank = re.compile(rb"(encryptionsalt: +|secure'?: (>-\s+)?)[\"']?v1:[^\s\"'}]+[\"']?")
    assert blank.sub(b"", stack("acme").read_bytes()).replace(b"\r", b"").split() == (
        blank.sub(b"", stack("rich").read_bytes())
        .replace(f" Passphrase of the secret: {EXAMPLE_PASSPHRASE}".encode(), b"")
        .split()
    )


def test_secrets_of_an_example_need_no_passphrase_of_its_own(new):
    with_secrets(EXAMPLE_PASSPHRASE)
    assert new("acme", "--from", "rich")[0] == 0
    assert opened("acme")["aws:secretKey"] == PROVIDER


def test_secrets_under_another_passphrase_are_named_and_nothing_is_written(new):
    with_secrets("somebody else's")
    before = files()
    code, said = new("acme", "--from", "rich")
    assert code == 2
    assert (
        "under a passphrase other than yours: consumers.chat.importedKeys.1, aws:secretKey. Give"
        " the passphrase of rich" in said
    )
    assert files() == before


def test_neither_passphrase_nor_secret_shows_anywhere(new):
    with_secrets(PHRASE)
    written = {name: content for name, content in files().items() if "rich" not in name}
    surfaces = {}
    for name, arguments in {
        "made": ("acme", "--from", "rich"),
        "again": ("acme", "--from", "rich"),
        "faults": ("beta", "--from", "bad"),
    }.items():
        stack("bad").write_text(stack("rich").read_text().replace("engine: vllm", "engine: vlm"))
        surfaces[name] = new(*arguments)[1].encode()
    stack("bad").unlink()
    secrets = {
        "passphrase": PHRASE,
        "own key": OWN,
        "provider": PROVIDER,
        "seed": opened("rich")[SEED],
        "new seed": opened("acme")[SEED],
    }
    assert files().keys() - written.keys() == {"stacks/Pulumi.acme.yaml", "stacks/Pulumi.rich.yaml"}
    assert hits(secrets, {**files(), **surfaces}) == []


@pytest.mark.parametrize("name", ["", "a b", "acme/dev", "../acme", "a:b", "ü", "a" * 101, "a\n"])
def test_a_name_that_pulumi_rejects_is_rejected(new, name):
    before = files()
    code, said = new(name)
    assert code == 2
    assert "cannot name a stack" in said
    assert files() == before


@pytest.mark.parametrize("name", ["A_b.c-1", ".", "a" * 100])
def test_a_name_that_pulumi_takes_is_taken_and_what_a_rehearsal_lacks_is_said(new, name):
    code, said = new(name)
    assert code == 0
    assert "Pulumi accepts the name, but a rehearsal does not: " in said
    assert f"inferplan up {name}" not in said
    assert stack_files(Path.cwd()).keys() == {name, "local", "onprem"}


def test_a_stack_that_is_there_is_left_as_it_is(new):
    stack("acme").write_text("mine")
    code, said = new("acme")
    assert (code, stack("acme").read_text()) == (2, "mine")
    assert "stacks/Pulumi.acme.yaml exists already and was left as it is. Use another name" in said


@pytest.mark.parametrize("links", [True, False])
def test_a_stack_that_comes_to_be_there_meanwhile_is_left_as_it_is(new, monkeypatch, links):
    from inferplan.planning.new_stack import StackCopy

    def refused(*_):
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refused)
    monkeypatch.setattr(
        StackCopy, "reads_back", lambda _copy, _written: bool(stack("acme").write_text("another's"))
    )
    code, said = new("acme")
    assert (code, stack("acme").read_text()) == (2, "another's")
    assert "exists already" in said
    assert not Path("policies/stacks/acme.json").exists()


def test_a_file_system_without_links_will_do(new, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    assert new("acme")[0] == 0
    assert opened("acme")


@pytest.mark.parametrize("nth", [0, 1])
def test_a_full_disk_leaves_nothing_behind(new, monkeypatch, nth):
    writes = iter(range(9))

    def full(_descriptor):
        if next(writes) == nth:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = files()
    code, said = new("acme")
    assert code == 1
    assert "cannot be written: No space left on device; nothing was left behind" in said
    assert files() == before


def test_a_run_that_is_killed_before_the_end_leaves_no_stack(new):
    child = os.fork()
    if not child:
        create(
            stack("acme"),
            b"config: {}\n",
            sound=lambda _: bool(os.kill(os.getpid(), signal.SIGKILL)),
        )
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert stack_files(Path.cwd()).keys() == {"local", "onprem"}
    assert new("acme")[0] == 0


def test_a_copy_that_would_read_otherwise_is_not_kept(new, monkeypatch):
    monkeypatch.setattr(
        "inferplan.planning.new_stack.replace_scalar",
        lambda text, _path, _plain: text.replace("replicas: 2", "replicas: 3"),
    )
    before = files()
    code, said = new("acme")
    assert code == 2
    assert "was not written: the copy would not mean what it should" in said
    assert files() == before


@pytest.mark.parametrize("provider", ["awskms://alias/x?region=eu-central-1", ""])
def test_a_source_whose_secrets_only_pulumi_can_decrypt_is_rejected_with_the_command(new, provider):
    text = stack("onprem").read_text()
    stack("kms").write_text(
        re.sub("encryptionsalt: .*", f"secretsprovider: {provider}" if provider else "", text)
    )
    code, said = new("acme", "--from", "kms")
    assert code == 2
    option = f" --secrets-provider '{provider}'," if provider else ","
    assert f"pulumi stack init acme --copy-config-from kms{option}" in said
    assert 'pulumi config set --stack acme --secret apiKeySeed "$(openssl rand -hex 32)"' in said
    assert not stack("acme").exists()


def test_a_source_with_validation_errors_is_rejected_with_their_lines(new):
    stack("bad").write_text(stack("local").read_text().replace("pool: l40s", "pool: l40"))
    code, said = new("acme", "--from", "bad")
    assert code == 2
    assert "stacks/Pulumi.bad.yaml:18:7: models.llama-3-8b.pool: Unknown pool 'l40'." in said
    assert not stack("acme").exists()


def test_what_the_pack_excuses_is_copied_unless_it_is_there(new):
    assert new("acme")[0] == 0
    assert (
        Path("policies/stacks/acme.json").read_bytes()
        == Path("policies/stacks/local.json").read_bytes()
    )
    Path("policies/stacks/beta.json").write_text("{}")
    assert "beta.json" not in new("beta")[1]
    assert Path("policies/stacks/beta.json").read_text() == "{}"
    assert new("gamma", "--from", "onprem")[0] == 0
    assert not Path("policies/stacks/gamma.json").exists()


def test_exemptions_follow_the_name_of_the_cluster_that_the_copy_creates(new):
    for path in ("stacks/Pulumi.staging.yaml", "policies/stacks/staging.json"):
        shutil.copy(ROOT / path, path)
    code, said = new("harbor", "--from", "staging")
    assert code == 0, said
    assert "the cluster that it creates is named harbor" in said
    assert "it names the stores and host of staging" in said
    assert "it names the stores and host of staging" in said
    settings = validate(read_stack(stack("harbor")))
    assert getattr(settings.cluster, "name", "") == "harbor"
    exemptions = json.loads(Path("policies/stacks/harbor.json").read_text())["exemptions"]
    assert [each["resource"] for each in exemptions] == [
        "Cluster/harbor",
        "FileSystem/shared",
        "Key/harbor",
    ]


@pytest.mark.parametrize("name", ["a.b", "-x"])
def test_a_name_that_no_cluster_can_have_leaves_the_copied_one(new, name):
    shutil.copy(ROOT / "stacks/Pulumi.staging.yaml", "stacks/Pulumi.staging.yaml")
    code, said = new("--from", "staging", "--", name)
    assert code == 0, said
    assert getattr(validate(read_stack(stack(name))).cluster, "name", "") == "inference-staging"


def test_a_number_as_the_name_of_a_stack_stays_text(new):
    shutil.copy(ROOT / "stacks/Pulumi.staging.yaml", "stacks/Pulumi.staging.yaml")
    assert new("123", "--from", "staging")[0] == 0
    assert getattr(validate(read_stack(stack("123"))).cluster, "name", "") == "123"


def test_a_file_elsewhere_will_do_and_its_schema_is_still_found(new):
    (Path("docs") / "deep").mkdir(parents=True)
    text = stack("local").read_text().replace("../schemas", "../../schemas")
    Path("docs/deep/Pulumi.far.yaml").write_text(text)
    assert new("acme", "--from", "docs/deep/Pulumi.far.yaml")[0] == 0
    assert stack("acme").read_text().splitlines()[0] == stack("local").read_text().splitlines()[0]


def test_every_command_that_it_tells_to_type_next_exists(new):
    told = new("acme", "--from", "onprem")[1]
    typed = re.findall(r"(?m)^  inferplan (\S+) acme", told)
    assert typed == ["validate", "up"]
    assert set(typed) <= set(main.COMMANDS)
    assert "it names the cluster, stores and host of onprem; change them" in told


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {},
            (
                "acme: cannot prompt for a passphrase: stdin is not a terminal. Set"
                " PULUMI_CONFIG_PASSPHRASE"
            ),
        ),
        (
            {"PULUMI_CONFIG_PASSPHRASE": ""},
            "PULUMI_CONFIG_PASSPHRASE is an empty passphrase, which encrypts nothing",
        ),
        (
            {"PULUMI_CONFIG_PASSPHRASE": EXAMPLE_PASSPHRASE},
            "is the public passphrase of the examples",
        ),
        (
            {"PULUMI_CONFIG_PASSPHRASE_FILE": "none"},
            "cannot read none (from PULUMI_CONFIG_PASSPHRASE_FILE)",
        ),
    ],
)
def test_an_empty_or_public_passphrase_is_rejected(new, monkeypatch, environment, said):
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    code, told = new("acme")
    assert code in (1, 2)
    assert said in told
    assert not stack("acme").exists()


def test_a_passphrase_file_will_do(new, monkeypatch):
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "phrase")
    Path("phrase").write_text(f"{PHRASE}\n")
    assert new("acme")[0] == 0
    assert opened("acme")[SEED]


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (
            [PHRASE, PHRASE],
            0,
            "read -rs PULUMI_CONFIG_PASSPHRASE && export PULUMI_CONFIG_PASSPHRASE",
        ),
        ([PHRASE, "x"], 2, "the two passphrases differ and nothing was written"),
        ([""], 2, "the typed text is an empty passphrase"),
        ([EOFError()], 2, "no passphrase was typed and nothing was written"),
        ([PHRASE, KeyboardInterrupt()], 130, "interrupted"),
    ],
)
def test_on_a_terminal_the_passphrase_is_asked_for_twice(new, monkeypatch, typed, code, said):
    answers = iter(typed)

    def asked(_prompt):
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(getpass, "getpass", asked)
    ended, told = new("acme")
    assert (ended, stack("acme").exists()) == (code, not code)
    assert said in told
    assert PHRASE not in told
    if not code:
        assert opened("acme")[SEED]
