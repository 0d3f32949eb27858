"""`inferplan init`: a repository of one's own, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml

from inferplan.commands import main
from inferplan.commands.init import repository
from inferplan.pulumi_engine import secrets
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, unlock
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace import project
from tests.patience import PATIENCE_SECONDS

FILES = [
    ".github/workflows/comment.yml",
    ".github/workflows/drift.yml",
    ".github/workflows/preview.yml",
    ".github/workflows/up.yml",
    ".gitignore",
    "Pulumi.yaml",
    "README.md",
    "__main__.py",
    "policies/PulumiPolicy.yaml",
    "policies/__main__.py",
    "policies/stacks/local.json",
    "requirements.lock",
    "requirements.txt",
    "schemas/stack.schema.json",
    "stacks/Pulumi.local.yaml",
]


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.setattr(project, "SELECTION", project.Selection())
    # Each new repository has a salt of its own, and no test here is about the strength of its key.
    monkeypatch.setattr(secrets, "_ROUNDS", 1000)
    for name in ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(arguments)
    return int(ended.value.code or 0)


def _files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def _every_requirement_has_a_hash(folder: Path) -> None:
    """Neither file names anything without a hash."""
    for name in ("requirements.txt", "requirements.lock"):
        text = re.sub(r"\\\n\s*", "", (folder / name).read_text())
        for line in (
            each for each in text.splitlines() if each and not each.startswith(("#", "--"))
        ):
            assert "--hash=sha256:" in line, line
    for workflow in (folder / ".github" / "workflows").glob("*.yml"):
        installs = re.findall(r"pip install.*", workflow.read_text())
        assert all("--require-hashes --requirement requirements.txt" in each for each in installs)


def test_a_repository_installs_a_wheel_by_its_sha256(tmp_path, capsys):
    wheel = tmp_path / "inferplan-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert _run("init", "copied", "--wheel", str(wheel)) == 0
    _every_requirement_has_a_hash(tmp_path / "copied")
    line = f"./wheels/{wheel.name} --hash=sha256:{digest}"
    assert line in (tmp_path / "copied" / "requirements.txt").read_text().splitlines()
    assert (tmp_path / "copied" / "wheels" / wheel.name).read_bytes() == b"a wheel"
    url = f"https://mirror.acme.example/{wheel.name}"
    assert _run("init", "linked", "--wheel", f"{url}#sha256={digest}") == 0
    line = f"{url} --hash=sha256:{digest}"
    assert line in (tmp_path / "linked" / "requirements.txt").read_text().splitlines()
    for bad in (url, "inferplan", "inferplan==0.1.0", "https://x/y.whl#sha256=0", "missing.whl"):
        assert _run("init", "bad", "--wheel", bad) == 2
        assert "is not a wheel of inferplan" in capsys.readouterr().err
        assert not (tmp_path / "bad").exists()


def test_a_repository_has_a_program_of_two_lines_one_stack_and_its_own_secrets(tmp_path, capsys):
    assert _run("init", "acme-models") == _run("init", "other") == 0
    folder = tmp_path / "acme-models"
    assert _files(folder) == sorted([*FILES, ".passphrase"])
    assert [line for line in (folder / "__main__.py").read_text().splitlines() if line] == [
        "from inferplan.infra.program import run",
        "run()",
    ]
    _every_requirement_has_a_hash(folder)
    assert "name: acme-models\n" in (folder / "Pulumi.yaml").read_text()
    assert (folder / ".passphrase").stat().st_mode & 0o777 == 0o600
    assert ".passphrase" in (folder / ".gitignore").read_text().splitlines()
    passphrases = [
        (tmp_path / name / ".passphrase").read_text().strip() for name in ("acme-models", "other")
    ]
    stacks = [
        read_stack(tmp_path / name / "stacks" / "Pulumi.local.yaml")
        for name in ("acme-models", "other")
    ]
    seeds = {
        unlock(word, str(each.encryption_salt)).decrypt(each.secrets["inferplan:apiKeySeed"])
        for word, each in zip(passphrases, stacks, strict=True)
    }
    assert len(seeds) == len(set(passphrases)) == 2
    printed = capsys.readouterr()
    assert not [word for word in (*passphrases, *seeds) if word in printed.out + printed.err]
    assert "inferplan up local --project acme-models" in printed.out
    assert "requirements.txt says how" in printed.out
    assert "export" not in printed.out


def test_the_passphrase_of_the_project_is_found_without_a_variable(tmp_path, capsys):
    assert _run("init", "acme") == 0
    shutil.copytree(tmp_path / "acme", tmp_path / "lost")
    (tmp_path / "lost" / ".passphrase").unlink()
    for name, known in (("acme", True), ("lost", False)):
        capsys.readouterr()
        assert _run("keys", "show", "chat", "--stack", "local", "--project", name) == (
            0 if known else 2
        )
        assert ("ipk_chat_1_" in capsys.readouterr().out) is known


def test_a_passphrase_of_the_project_that_is_another_stacks_gives_placeholders(tmp_path, capsys):
    assert _run("init", "acme") == 0
    (tmp_path / "acme" / ".passphrase").write_text("another stack's")
    assert _run("plan", "local", "--project", "acme") == 0
    assert "is not this stack's" in capsys.readouterr().err


def test_without_a_passphrase_the_cli_is_not_called(tmp_path, monkeypatch, capsys):
    """The CLI would report this only after a cluster has started."""
    pulumi = tmp_path / "bin" / "pulumi"
    pulumi.parent.mkdir()
    pulumi.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 1\n")
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", str(pulumi.parent), prepend=os.pathsep)
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path / "state"))
    assert _run("init", "acme") == 0
    (tmp_path / "acme" / ".passphrase").unlink()
    assert _run("up", "local", "--project", "acme") == 1
    assert "Set one of them, or add --engine rehearsal" in capsys.readouterr().err
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "state" / "clusters").exists()


@pytest.mark.parametrize("where", repository.PLACES)
def test_the_stack_of_every_place_passes_the_pack(where, capsys):
    assert _run("init", where, "--where", where, "--consumer", "chat", "--consumer", "batch") == 0
    assert _run("check", "--project", where) == 0
    assert f"{where} passes: 0 violations, 0 advisory, 0 exempt" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["local", "cluster"])
def test_without_accelerators_a_small_model_runs_on_cpus(where, tmp_path, capsys):
    assert _run("init", where, "--where", where, "--accelerator", "cpu") == 0
    printed = capsys.readouterr().out
    assert ("--node real" in printed) is (where == "local")
    text = (tmp_path / where / "stacks" / f"Pulumi.{where}.yaml").read_text()
    assert "accelerator: cpu" in text
    assert "qwen-3-600m:" in text
    assert _run("check", "--project", where) == 0
    assert f"{where} passes: 0 violations, 0 advisory" in capsys.readouterr().out


def test_a_cloud_without_cpu_models_says_what_it_offers(tmp_path, capsys):
    assert _run("init", "acme", "--where", "aws", "--accelerator", "cpu") == 2
    assert "models run on accelerators there. Use nvidia-t4, " in capsys.readouterr().err
    assert not (tmp_path / "acme").exists()


@pytest.mark.slow
@pytest.mark.parametrize("where", repository.PLACES)
def test_every_accelerator_on_offer_gives_a_stack_whose_only_errors_are_its_placeholders(
    where, tmp_path, capsys
):
    offers = repository.choices(where)
    assert len(offers) > 5
    for name in offers:
        answers = repository.Answers(where=where, accelerator=name)
        repository.make_repository(tmp_path / name, answers)
        _run("validate", "--json", "--project", str(tmp_path / name))
        [check] = json.loads(capsys.readouterr().out)
        remedies = (
            "Write a name of a domain that you own",
            "Write the network of your users",
            "Write a role or user of yours",
            "Write your account",
            "Write the id of your subnet",
        )
        assert all(
            any(each in error["message"] for each in remedies) for error in check["errors"]
        ), (name, check["errors"])


def test_a_cluster_that_exists_is_named_by_its_context_or_its_arn(tmp_path, capsys):
    arn = "arn:aws:eks:eu-central-1:123456789012:cluster/shared_GPU"
    assert _run("init", "on-eks", "--where", "eks", "--cluster", arn) == 0
    text = (tmp_path / "on-eks" / "stacks" / "Pulumi.eks.yaml").read_text()
    cluster = yaml.safe_load(text)["config"]["inferplan:cluster"]
    subnets = cluster.pop("subnets")
    assert cluster == {
        "provider": "eks",
        "name": "shared_GPU",
        "region": "eu-central-1",
        "account": "123456789012",
    }
    assert list(subnets) == ["eu-central-1a", "eu-central-1b"]
    context = "teleport.acme/gpu@west:1"
    assert _run("init", "on-k8s", "--where", "cluster", "--cluster", context) == 0
    text = (tmp_path / "on-k8s" / "stacks" / "Pulumi.cluster.yaml").read_text()
    assert yaml.safe_load(text)["config"]["inferplan:cluster"]["context"] == context
    capsys.readouterr()
    for where, name, message in (
        ("eks", "shared_GPU", "'shared_GPU' is not an ARN: aws eks describe-cluster --name NAME"),
        ("cluster", "two words", "'two words' is not a context: kubectl config get-contexts"),
        ("aws", arn, "no cluster exists for --where aws. Use --where cluster, eks"),
    ):
        assert _run("init", "bad", "--where", where, "--cluster", name) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "bad").exists()


def test_a_passphrase_of_the_environment_is_used_and_not_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "one of my own")
    assert _run("init", "acme") == 0
    assert _files(tmp_path / "acme") == FILES
    stack = read_stack(tmp_path / "acme" / "stacks" / "Pulumi.local.yaml")
    assert unlock("one of my own", str(stack.encryption_salt))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
    assert _run("init", "second") == 2
    assert (
        "PULUMI_CONFIG_PASSPHRASE is the public passphrase of the examples"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "second").exists()


def test_every_wrong_answer_is_in_one_message_and_nothing_is_left(tmp_path, capsys):
    assert (
        _run("init", "acme", "--accelerator", "h1000", "--model", "gpt", "--consumer", "Chat!") == 2
    )
    message = capsys.readouterr().err
    for part in (
        "--accelerator: 'h1000' is not a known accelerator",
        "--model: 'gpt' is unknown",
        "--consumer: 'Chat!' is not a name",
    ):
        assert part in message
    assert _run("init", "acme", "--where", "moon") == 2
    assert _run("init", "acme", "--where", "aws", "--accelerator", "gaudi-3") == 2
    assert "no instance type there has 1 gaudi-3. Use nvidia-" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_another_model_of_the_hub_takes_as_many_accelerators_as_it_needs(tmp_path):
    model = "meta-llama/Llama-3.1-70B-Instruct@" + "0" * 39 + "1:142Gi"
    assert _run("init", "acme", "--model", model, "--accelerator", "nvidia-h100") == 0
    text = (tmp_path / "acme" / "stacks" / "Pulumi.local.yaml").read_text()
    assert "llama-3-1-70b-instruct:" in text
    assert "tensorParallelSize: 4" in text
    assert _run("validate", "--project", "acme") == 0


def test_a_folder_with_files_is_rejected_with_their_names(tmp_path, capsys):
    (tmp_path / "acme").mkdir()
    for number in range(12):
        (tmp_path / "acme" / f"file{number:02}").touch()
    (tmp_path / "note").touch()
    assert _run("init", "acme") == 2
    names = ", ".join(f"file{number:02}" for number in range(10))
    assert f"acme is not empty: {names} and 2 more. Nothing was changed." in capsys.readouterr().err
    assert _run("init", "note") == _run("init", "missing/acme") == 2
    assert len(_files(tmp_path)) == 13


def test_an_empty_folder_is_filled_and_stays_the_same_folder(tmp_path):
    (tmp_path / "acme").mkdir()
    before = (tmp_path / "acme").stat().st_ino
    os.chdir(tmp_path / "acme")
    assert _run("init", ".") == 0
    assert (tmp_path / "acme").stat().st_ino == before
    assert "name: acme\n" in (tmp_path / "acme" / "Pulumi.yaml").read_text()


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("step", ["write_bytes", "rename"])
@pytest.mark.parametrize("number", [1, 5])
def test_an_interrupt_while_it_writes_leaves_nothing(exists, step, number, tmp_path, monkeypatch):
    folder = tmp_path / "acme"
    if exists:
        folder.mkdir()
    real, calls = getattr(Path, step), []

    def interrupted(self: Path, *rest: object) -> object:
        calls.append(self)
        if len(calls) == number:
            raise KeyboardInterrupt
        return real(self, *rest)

    monkeypatch.setattr(Path, step, interrupted)
    assert _run("init", "acme") == 130
    assert len(calls) == number
    assert _files(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == (["acme"] if exists else [])


def _state(pid: int) -> str:
    """What the process does, as /proc spells it; S is a process that waits."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _typed(*answers: str | None) -> tuple[int, str]:
    """The exit code and output of `inferplan init acme` on a terminal; None is Ctrl-C."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(  # noqa: S606 - the command itself
            sys.executable,
            [
                sys.executable,
                "-c",
                "from inferplan.commands.main import main; main()",
                "init",
                "acme",
            ],
        )
    signal.alarm(PATIENCE_SECONDS)
    output = ""
    for answer in answers:
        asked = output.count("]: ") + 1
        while output.count("]: ") < asked:
            output += os.read(terminal, 4096).decode()
        # A Ctrl-C between the prompt and the wait for a key stays unseen until the next key
        # (CPython's input).
        while answer is None and _state(pid) != "S":
            os.sched_yield()
        os.write(terminal, b"\x03" if answer is None else f"{answer}\n".encode())
    try:
        while text := os.read(terminal, 4096):
            output += text.decode()
    except OSError:
        pass  # the terminal of a process that ended
    signal.alarm(0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output


def test_it_asks_five_questions_on_a_terminal(tmp_path):
    code, output = _typed("cluster", "rack-7", "gaudi-3", "chat, batch", "")
    assert code == 0, output
    assert output.count("]: ") == 5
    text = (tmp_path / "acme" / "stacks" / "Pulumi.cluster.yaml").read_text()
    assert "context: rack-7" in text
    assert "accelerator: gaudi-3" in text
    assert "consumers: [chat, batch]" in text


def test_a_wrong_answer_is_asked_again_and_the_others_stay(tmp_path):
    size = "Qwen/Qwen3-8B@b968826d9c46dd6066d109eabc6255188de91218"
    code, output = _typed(
        "azure", "local", "H100", "nvidia-h100", "Chat!, batch", "chat,batch", "llama", f"{size}:9000Gi", f"{size}:17Gi"
    )  # fmt: skip
    assert code == 0, output
    assert "'azure' is unknown. Use local" in output
    assert "Did you mean 'nvidia-h100'?" in output
    assert "'Chat!' is not a name" in output
    assert "'llama' is unknown" in output
    assert "less memory than the model needs" in output
    text = (tmp_path / "acme" / "stacks" / "Pulumi.local.yaml").read_text()
    assert "accelerator: nvidia-h100" in text
    assert "consumers: [chat, batch]" in text


@pytest.mark.parametrize("answers", [(None,), ("local", "nvidia-l4", "", None)])
def test_ctrl_c_at_a_question_leaves_nothing(answers, tmp_path):
    code, output = _typed(*answers)
    assert code == 130, output
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in output


def test_the_workflows_of_a_new_repository_name_no_file_that_it_does_not_have(tmp_path):
    assert _run("init", "acme") == 0
    for path in (tmp_path / "acme" / ".github" / "workflows").iterdir():
        text = path.read_text()
        assert not re.search(r"\bmake \w|inferplan/policies|bootstrap", text), path.name
    links = re.findall(r"\]\(([^)]+)\)", (tmp_path / "acme" / "README.md").read_text())
    assert links
    assert all((tmp_path / "acme" / each).exists() for each in links)


NAMES = (
    "chat",
    "no",
    "on",
    "null",
    "true",
    "y",
    "a",
    "e5",
    "x" * 40,
    "a-1",
    "24x7-ops",
    "-a",
    "a-",
    "A",
    "v1",
    "default",
    "gateway",
    "team_a",
    "7",
)
REPOSITORIES = (
    "owner/7b-chat",
    "owner/7",
    "1.0/2.0",
    "o/-",
    "o/No",
    "o/gateway",
    "o/v1",
    "o/default",
    "o/vllm",
    f"o/{'m' * 70}",
    "o/Q.W_E-3",
)


@pytest.mark.parametrize("where", sorted(repository.PLACES))
@pytest.mark.parametrize(
    "option",
    [("--consumer", each) for each in NAMES]
    + [("--model", f"{each}@{'7' * 40}:16Gi") for each in REPOSITORIES],
)
def test_whatever_init_accepts_makes_a_valid_stack_and_what_it_rejects_leaves_nothing(
    where, option, tmp_path, capsys
):
    code = _run("init", "1.0-own.x", "--where", where, *option)
    if code == 0:
        validate(read_stack(tmp_path / "1.0-own.x" / "stacks" / f"Pulumi.{where}.yaml"))
        assert isinstance(
            yaml.safe_load((tmp_path / "1.0-own.x" / "Pulumi.yaml").read_text())["name"], str
        )
    else:
        assert code == 2
        assert "Traceback" not in capsys.readouterr().err
        assert not (tmp_path / "1.0-own.x").exists()


@pytest.mark.parametrize("where", sorted(repository.PLACES))
def test_every_accelerator_and_model_that_init_offers_makes_a_valid_stack(where, tmp_path):
    for accelerator in repository.choices(where):
        for model in repository.MODELS:
            name = f"{accelerator}-{model}"
            if (
                _run("init", name, "--where", where, "--accelerator", accelerator, "--model", model)
                == 0
            ):
                validate(read_stack(tmp_path / name / "stacks" / f"Pulumi.{where}.yaml"))


def test_a_consumer_that_begins_with_a_digit_is_rejected_by_init_as_by_validate(tmp_path, capsys):
    assert _run("init", "own", "--consumer", "24x7-ops", "--consumer", "chat") == 2
    assert "--consumer: '24x7-ops' is not a name" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "own").exists()
