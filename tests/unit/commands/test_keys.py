"""`inferplan keys`, as a person uses it: what it shows, what it changes in the stack file, and what
it leaves alone.
"""

from __future__ import annotations

import os
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import inferplan.workspace.keys
from inferplan.commands import main
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.documents.yaml_edit import add_item, remove_entry
from inferplan.documents.yaml_tree import read_tree, to_data
from inferplan.planning.notes import expiring
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, unlock
from tests.printed_keys import read_key

PROJECT = Path(__file__).parents[3]
VARIABLES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
CHAT = "    chat: {keys: [2, 1]}\n"
RECORD = "chat: {issued: 2}"
NOTED = '"3": "2026-11-21"'


@pytest.fixture
def stack(tmp_path, monkeypatch):
    (tmp_path / "inferplan" / "infra").mkdir(parents=True)
    (tmp_path / "stacks").mkdir()
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    return Path(shutil.copy(PROJECT / "stacks" / "Pulumi.local.yaml", tmp_path / "stacks"))


@pytest.fixture
def keys(capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main.run(("keys", *arguments, "--stack", "local"))
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def _write(stack, consumer):
    text = stack.read_bytes().decode()
    assert CHAT in text
    text = text.replace(CHAT, consumer)
    versions = yaml.safe_load(consumer)["chat"]["keys"]
    gaps = sorted({*range(1, max(versions))} - {*versions})
    record = f"chat: {{issued: {max(versions)}{f', spent: {gaps}' if gaps else ''}}}"
    stack.write_bytes(text.replace(RECORD, record).encode())


def _without_record(text):
    """The file without its line about earlier versions; other tests judge that."""
    return re.sub(rb"keyHistory: \{.*\}", b"", text)


@pytest.mark.usefixtures("stack")
def test_show_prints_the_valid_keys_newest_first(keys, monkeypatch):
    monkeypatch.setenv(VARIABLES[0], EXAMPLE_PASSPHRASE)
    code, out, err = keys("show", "chat")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[:2] for row in rows] == [["2", "valid"], ["1", "valid"]]
    read = [read_key(row[2]) for row in rows]
    assert [(each.consumer, each.version) for each in read] == [("chat", 2), ("chat", 1)]
    assert read[0].secret != read[1].secret


def test_show_says_until_when_a_key_is_valid(stack, keys, monkeypatch):
    monkeypatch.setenv(VARIABLES[0], EXAMPLE_PASSPHRASE)
    monkeypatch.setattr(inferplan.workspace.keys, "today", lambda: date(2027, 1, 31))
    _write(stack, '    chat: {keys: [2, 1], expires: {"1": "2027-01-30", "2": "2027-01-31"}}\n')
    rows = [line.split("\t")[:2] for line in keys("show", "chat")[1].splitlines()]
    assert rows == [["2", "valid to 2027-01-31"], ["1", "expired 2027-01-30"]]


def test_value_prints_the_newest_valid_key_and_nothing_else(stack, keys, monkeypatch):
    monkeypatch.setenv(VARIABLES[0], EXAMPLE_PASSPHRASE)
    monkeypatch.setattr(inferplan.workspace.keys, "today", lambda: date(2027, 1, 31))
    _write(stack, '    chat: {keys: [3, 2, 1], expires: {"3": "2027-01-30", "2": "2027-02-28"}}\n')
    code, out, err = keys("show", "chat", "--value")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert read_key(out.strip()).version == 2


def test_value_without_a_valid_key_says_how_to_add_one(stack, keys, monkeypatch):
    monkeypatch.setenv(VARIABLES[0], EXAMPLE_PASSPHRASE)
    monkeypatch.setattr(inferplan.workspace.keys, "today", lambda: date(2027, 1, 31))
    _write(stack, '    chat: {keys: [1], expires: {"1": "2027-01-30"}}\n')
    code, out, err = keys("show", "chat", "--value")
    assert (code, out) == (1, "")
    assert "inferplan keys add chat --stack local" in err


@pytest.mark.usefixtures("stack")
def test_value_belongs_to_show(keys):
    code, _, err = keys("add", "chat", "--value")
    assert code == 2
    assert "--value is not valid with add" in err


@pytest.mark.usefixtures("stack")
def test_no_key_is_derived_while_the_seed_is_encrypted(keys):
    code, out, err = keys("show", "chat")
    assert (code, out) == (2, "")
    assert (
        "neither PULUMI_CONFIG_PASSPHRASE nor PULUMI_CONFIG_PASSPHRASE_FILE is set. Set"
        " PULUMI_CONFIG_PASSPHRASE" in err
    )
    assert "ipk_" not in err


def test_a_seed_encrypted_by_another_provider_refers_to_the_cluster(stack, keys):
    stack.write_text("secretsprovider: awskms://alias/x\n" + stack.read_text())
    code, out, err = keys("show", "chat")
    assert (code, out) == (2, "")
    assert "the stack's secrets belong to awskms" in err
    assert (
        "kubectl -n inference get secret consumer-chat -o jsonpath='{.data.api-key}' | base64 -d"
        in err
    )


@pytest.mark.usefixtures("stack")
def test_a_wrong_passphrase_shows_neither_it_nor_a_key(keys, monkeypatch):
    monkeypatch.setenv(VARIABLES[0], "canary-passphrase")
    code, out, err = keys("show", "chat")
    assert (code, out) == (1, "")
    assert "canary" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CHAT, f"    chat: {{keys: [3, 2, 1], issued: {{{NOTED}}}}}\n"),
        (
            "    chat: {keys: [1, 2]}  # oldest first\n",
            f"    chat: {{keys: [1, 2, 3], issued: {{{NOTED}}}}}  # oldest first\n",
        ),
        (
            '    chat: {keys: [2], issued: {"2": "2026-01-31"}, limits: {concurrentRequests: 8}}\n',
            (
                f'    chat: {{keys: [3, 2], issued: {{"2": "2026-01-31", {NOTED}}}, limits:'
                " {concurrentRequests: 8}}\n"
            ),
        ),
        (
            "    chat:\n      keys:\n        - 2  # app\n        - 1\n",
            (
                "    chat:\n      keys:\n        - 3\n        - 2  # app\n        - 1\n     "
                f" issued: {{{NOTED}}}\n"
            ),
        ),
        (
            '    chat:\n      issued:\n        "2": "2026-01-31"  # app\n      keys: [2]\n',
            (
                f'    chat:\n      issued:\n        "2": "2026-01-31"  # app\n        {NOTED}\n    '
                "  keys: [3, 2]\n"
            ),
        ),
        (
            "    chat:\n      keys:\n      # app\n      - 2\n      - 1\n",
            (
                "    chat:\n      keys:\n      # app\n      - 2\n      - 1\n      - 3\n     "
                f" issued: {{{NOTED}}}\n"
            ),
        ),
        (
            "    chat:\r\n      keys:\r\n      - 2\r\n",
            f"    chat:\r\n      keys:\r\n      - 3\r\n      - 2\r\n      issued: {{{NOTED}}}\r\n",
        ),
        (
            "    chat: {keys: [\n      2,  # app\n      1,\n    ]}\n",
            f"    chat: {{keys: [\n      3, 2,  # app\n      1,\n    ], issued: {{{NOTED}}}}}\n",
        ),
    ],
)
def test_add_writes_the_next_version_into_the_list_and_its_day(
    stack, keys, monkeypatch, before, after
):
    monkeypatch.setattr(inferplan.workspace.keys, "today", lambda: date(2026, 11, 21))
    _write(stack, before)
    around = stack.read_bytes()
    code, out, err = keys("add", "chat")
    assert (code, err) == (0, "")
    assert _without_record(stack.read_bytes()) == _without_record(
        around.replace(before.encode(), after.encode())
    )
    assert re.search("makes version 3 valid in addition to (1, )?2:", out)
    assert "inferplan up local" in out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CHAT, "    chat: {keys: [2]}\n"),
        ("    chat: {keys: [ 1, 2 ]}  # both\n", "    chat: {keys: [ 2 ]}  # both\n"),
        ("    chat: {keys: [3, 1, 2]}\n", "    chat: {keys: [3, 2]}\n"),
        (
            "    chat:\n      keys:\n      # all\n      - 2\n      - 1  # old app\n",
            "    chat:\n      keys:\n      # all\n      - 2\n",
        ),
        (
            "    chat: {keys: [\n      2,  # app\n      1,\n    ]}\n",
            "    chat: {keys: [\n      2,  # app\n    ]}\n",
        ),
        (
            "    chat: {keys: [\n      2,\n      1\n    ]}\n",
            "    chat: {keys: [\n      2\n    ]}\n",
        ),
        ('    chat: {keys: [2, 1], expires: {"1": "2027-01-30"}}\n', "    chat: {keys: [2]}\n"),
        (
            (
                '    chat: {keys: [2, 1], issued: {"2": "2026-11-21", "1": "2026-01-30"}, expires:'
                ' {"1": "2027-01-30"}}\n'
            ),
            '    chat: {keys: [2], issued: {"2": "2026-11-21"}}\n',
        ),
        (
            (
                '    chat:\n      keys: [2, 1]\n      expires:\n        "2": "2028-01-01"  # app\n '
                '       "1": "2027-01-30"\n'
            ),
            '    chat:\n      keys: [2]\n      expires:\n        "2": "2028-01-01"  # app\n',
        ),
        (
            '    chat:\n      keys: [2, 1]\n      expires:\n        "1": "2027-01-30"\n',
            "    chat:\n      keys: [2]\n",
        ),
    ],
)
def test_retire_takes_one_version_out_and_its_date_with_it(stack, keys, before, after):
    _write(stack, before)
    around = stack.read_bytes()
    code, out, err = keys("retire", "chat", "1")
    assert (code, err) == (0, "")
    assert _without_record(stack.read_bytes()) == _without_record(
        around.replace(before.encode(), after.encode())
    )
    assert "version 1 stays valid until the next up" in out
    assert "old gateway pods accept the key for up to 20 s longer" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("retire", "batch", "1"),
            (
                "1 is the last key of batch, which would lock it out; first: inferplan keys add"
                " batch --stack local"
            ),
        ),
        (("retire", "chat", "7"), "chat has no valid key version 7; valid are 1, 2"),
        (("retire", "chat"), "Name the version: inferplan keys retire chat VERSION --stack local"),
        (("add", "chat", "3"), "keys add takes no version"),
        (
            ("add", "chta"),
            "Unknown consumer 'chta'. Did you mean 'chat'? Consumers in local: batch, chat.",
        ),
    ],
)
def test_what_cannot_be_done_is_said_and_the_file_is_left(stack, keys, arguments, said):
    before = stack.read_bytes()
    code, out, err = keys(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert stack.read_bytes() == before


def test_the_eleventh_key_is_rejected(stack, keys):
    _write(stack, f"    chat: {{keys: {list(range(10, 0, -1))}}}\n")
    assert "has 10 valid keys, the maximum. Retire one, for example 1" in keys("add", "chat")[2]


def test_a_layout_that_cannot_be_edited_safely_is_left_to_the_person(stack, keys):
    _write(stack, "    chat:\n      keys:\n      - 2\n      -\n        1\n")
    before = stack.read_bytes()
    code, _, err = keys("retire", "chat", "1")
    assert code == 2
    assert (
        "was left as it is: the dash of the entry is on another line. Edit consumers in"
        " stacks/Pulumi.local.yaml by hand" in err
    )
    assert stack.read_bytes() == before


def test_a_stack_with_faults_is_not_touched(stack, keys):
    stack.write_text(stack.read_text().replace("replicas: 2", "replicas: two"))
    before = stack.read_bytes()
    code, _, err = keys("add", "chat")
    assert code == 2
    assert (
        "replicas: 'two' is not valid. Expected a whole number or a range, for example {min: 1,"
        " max: 3}." in err
    )
    assert stack.read_bytes() == before


def test_the_file_keeps_its_mode_its_link_and_its_folder(stack, keys):
    real = stack.with_name("real.yaml")
    stack.rename(real)
    stack.symlink_to(real.name)
    real.chmod(0o640)
    assert keys("add", "chat")[0] == 0
    assert stack.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "keys: [3, 2, 1]" in real.read_text()
    assert sorted(each.name for each in stack.parent.iterdir()) == [
        "Pulumi.local.yaml",
        "real.yaml",
    ]


def test_a_write_that_fails_leaves_the_old_file_whole(stack, keys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = stack.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    code, _, err = keys("add", "chat")
    assert (code, stack.read_bytes()) == (1, before)
    assert "No space left on device; nothing was changed" in err
    assert [each.name for each in stack.parent.iterdir()] == ["Pulumi.local.yaml"]


def test_adding_then_retiring_what_was_there_rotates_and_no_version_ever_comes_back(
    stack, keys, monkeypatch
):
    monkeypatch.setattr(inferplan.workspace.keys, "today", lambda: date(2026, 11, 21))
    for old in (2, 3, 4):
        assert keys("add", "chat")[0] == 0
        assert keys("retire", "chat", str(old))[0] == 0
    assert 'chat: {keys: [5, 1], issued: {"5": "2026-11-21"}}' in stack.read_text()


_COMMENT = st.text("abü😀 :,#[]{}-'\"", max_size=12).map(lambda text: f"  # {text}")
_VERSIONS = st.lists(st.integers(1, 99), min_size=2, max_size=5, unique=True)


@st.composite
def _documents(draw):
    """A list in some layout, comments all around it: the text and the versions."""
    versions, line_break = draw(_VERSIONS), draw(st.sampled_from(["\n", "\r\n"]))
    indent = " " * draw(st.integers(1, 4))
    note = lambda: draw(st.just("") | _COMMENT)  # noqa: E731 - one short draw, in this place only
    match draw(st.sampled_from(["flow", "lines", "block"])):
        case "flow":
            body = [f"{indent}k: [{', '.join(map(str, versions))}]{note()}"]
        case "lines":
            body = [
                f"{indent}k: [{note()}",
                *(f"{indent}  {each},{note()}" for each in versions),
                f"{indent}]{note()}",
            ]
        case _:
            body = [f"{indent}k:{note()}", *(f"{indent}- {each}{note()}" for each in versions)]
    lines = [f"#{note()}", f"a:{note()}", *body, f"{indent}z: {{y: 1}}{note()}", f"b: 2{note()}"]
    return line_break.join([*lines, ""]), versions


def _data(text):
    tree = read_tree(text)
    assert tree.root is not None
    return to_data(tree.root)


@given(_documents(), st.booleans())
def test_adding_changes_nothing_but_the_list(document, first):
    text, versions = document
    made = add_item(text, ("a", "k"), "100", first=first)
    assert sorted(_data(made)["a"]["k"]) == [*sorted(versions), 100]
    # What was put in is one stretch: the rest of the file is the same before and after it.
    ahead = next(
        index for index, (old, new) in enumerate(zip(text, made, strict=False)) if old != new
    )
    assert made.endswith(text[ahead:])


@given(_documents(), st.data())
def test_removing_keeps_every_other_item_and_every_comment_of_other_lines(document, data):
    text, versions = document
    index = data.draw(st.integers(0, len(versions) - 1))
    made = remove_entry(text, ("a", "k", index))
    before, after = _data(text), _data(made)
    assert after["a"].pop("k") == [*versions[:index], *versions[index + 1 :]]
    before["a"].pop("k")
    assert after == before
    touched = {
        number
        for number, (old, new) in enumerate(zip(text.splitlines(), made.splitlines(), strict=False))
        if old != new
    }
    if len(made.splitlines()) == len(text.splitlines()):
        assert len(touched) <= 1
    else:
        # One line went, and the lines before and after it are as they were.
        gone = min(touched)
        assert made.splitlines(keepends=True)[gone:] == text.splitlines(keepends=True)[gone + 1 :]


@pytest.mark.parametrize(("last_day", "noted"), [("2027-02-01", True), ("2027-09-01", False)])
def test_a_plan_notes_keys_that_expire_soon(stack, capsys, monkeypatch, last_day, noted):
    monkeypatch.setattr(inferplan.workspace.keys, "today", lambda: date(2027, 1, 31))
    _write(stack, f'    chat: {{keys: [2, 1], expires: {{"1": "{last_day}"}}}}\n')
    (stack.parents[1] / "inferplan" / "infra" / "__main__.py").write_text("")
    with pytest.raises(SystemExit) as caught:
        main.run(("plan", "local"))
    out, err = capsys.readouterr()
    assert not caught.value.code
    line = (
        "note: key 1 of chat expires in 1 day (2027-02-01); next: move its clients to version 2,"
        " then inferplan keys retire chat 1 --stack local"
    )
    assert (line in err.splitlines()) == noted
    assert "expires" not in out


def test_keys_that_expire_soon_or_did_are_noted_with_what_to_type():
    consumers = {
        "chat": ConsumerSpec.model_validate(
            {"keys": [2, 1], "expires": {1: "2027-01-30", 2: "2027-03-02"}}
        ),
        "batch": ConsumerSpec.model_validate({"keys": [1], "expires": {1: "2027-01-31"}}),
        "later": ConsumerSpec.model_validate({"keys": [1], "expires": {1: "2027-03-03"}}),
        "never": ConsumerSpec.model_validate({"keys": [1]}),
    }
    assert list(expiring(consumers, "local", date(2027, 1, 31))) == [
        "key 1 of batch expires today (2027-01-31); next: inferplan keys add batch --stack local",
        (
            "key 1 of chat expired on 2027-01-30 and is rejected; next: inferplan keys retire chat 1"
            " --stack local"
        ),
        (
            "key 2 of chat expires in 30 days (2027-03-02); next: inferplan keys add chat --stack"
            " local"
        ),
    ]
    soon = list(expiring(consumers, "local", date(2027, 1, 25)))
    assert (
        "key 1 of chat expires in 5 days (2027-01-30); next: move its clients to version 2, then"
        " inferplan keys retire chat 1" in soon[1]
    )


IMPORTED = "sk-live-Zt7Qm2Lx9Rk4Vw8Nc3Hd6Bp1Jg5Ys0Ff"


def _import_key(stack, key=IMPORTED):
    salt = stack.read_text().split("encryptionsalt: ")[1].split("\n")[0]
    ciphertext = unlock(EXAMPLE_PASSPHRASE, salt).encrypt(key)
    _write(
        stack,
        '    chat:\n      keys: [2, 1]\n      importedKeys:\n        "1": {secure:'
        f' "{ciphertext}"}}  # of the old portal\n',
    )
    return ciphertext


def test_a_key_that_was_imported_is_listed_and_never_shown(stack, keys, monkeypatch):
    monkeypatch.setenv(VARIABLES[0], EXAMPLE_PASSPHRASE)
    _import_key(stack)
    code, out, err = keys("show", "chat")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["2", "1"]
    assert rows[1][2] == "(imported, not shown)"
    assert IMPORTED[:12] not in out


def test_retiring_an_imported_version_takes_its_key_out_of_the_file(stack, keys):
    ciphertext = _import_key(stack)
    code, _, err = keys("retire", "chat", "1")
    assert (code, err) == (0, "")
    assert ciphertext not in stack.read_text()
    assert "importedKeys" not in stack.read_text()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("sk-tooshort-canary", "The key has 18 characters. Use 40 to 200."),
        (
            "canary-canary-" * 4,
            (
                "The key can be guessed: it has at most 121 bits without its last 8 characters. Use"
                " at least 128 bits."
            ),
        ),
        (f"ipk_chat_1_{IMPORTED}", "The key starts like a derived key (ipk_ or ips_)"),
    ],
)
def test_a_plan_rejects_a_weak_key_at_its_line_without_quoting_it(
    stack, monkeypatch, capsys, key, said
):
    monkeypatch.setenv(VARIABLES[0], EXAMPLE_PASSPHRASE)
    shutil.copytree(
        PROJECT / "inferplan" / "infra",
        stack.parents[1] / "inferplan" / "infra",
        dirs_exist_ok=True,
    )
    _import_key(stack, key)
    with pytest.raises(SystemExit) as caught:
        main.run(("plan", "local"))
    captured = capsys.readouterr()
    assert caught.value.code not in (0, None)
    assert f"consumers.chat.importedKeys.1: {said}" in " ".join(
        (captured.out + captured.err).split()
    )
    assert key[4:18] not in captured.out + captured.err
    assert "Traceback" not in captured.err


def test_a_plain_text_key_is_rejected_at_its_line_without_being_quoted(stack, capsys):
    _write(stack, f'    chat: {{keys: [1], importedKeys: {{"1": {IMPORTED}}}}}\n')
    with pytest.raises(SystemExit) as caught:
        main.run(("validate", "local"))
    captured = capsys.readouterr()
    told = " ".join((captured.out + captured.err).split())
    assert caught.value.code not in (0, None)
    assert (
        "consumers.chat.importedKeys.1: The secret is in plain text but must be encrypted. Consider"
        " it compromised, and set a new one: pulumi config set --secret --path" in told
    )
    assert IMPORTED[:12] not in told


def _history(stack):
    return yaml.safe_load(stack.read_text())["config"]["inferplan:keyHistory"]


def _edit(stack, before, after):
    assert before in stack.read_text()
    stack.write_text(stack.read_text().replace(before, after))


def test_a_retired_newest_key_never_returns(stack, keys):
    assert keys("retire", "chat", "2")[0] == 0
    assert _history(stack)["chat"] == {"issued": 2, "spent": [2]}
    assert keys("add", "chat")[0] == 0
    assert "keys: [3, 1]" in stack.read_text()
    assert _history(stack)["chat"] == {"issued": 3, "spent": [2]}
    assert keys("retire", "chat", "1")[0] == 0
    assert _history(stack) == {"chat": {"issued": 3, "spent": 2}, "batch": {"issued": 1}}


def test_the_first_change_of_a_key_starts_the_history_of_every_consumer(stack, keys):
    _edit(stack, CHAT, "    chat: {keys: [1]}\n")
    stack.write_text(re.sub(r"  inferplan:keyHistory: .*\n", "", stack.read_text()))
    assert keys("add", "batch")[0] == 0
    assert _history(stack) == {"chat": {"issued": 1}, "batch": {"issued": 2}}


@pytest.mark.parametrize(
    ("edits", "message", "pasted"),
    [
        (
            [(CHAT, "    chat: {keys: [1]}\n")],
            (
                "keyHistory.chat: Versions of chat that are neither in keys (1) nor spent: 2. Write"
                " chat: {issued: 2, spent: [2]} in keyHistory, or restore them."
            ),
            [(RECORD, "chat: {issued: 2, spent: [2]}")],
        ),
        (
            [("[chat, batch]", "[chat]"), ("    batch: {keys: [1]}\n", "")],
            (
                "keyHistory.batch: batch was removed, but its versions 1 are not spent: a new batch"
                " would get the same keys. Write batch: {issued: 1, spent: 1}"
            ),
            [("batch: {issued: 1}", "batch: {issued: 1, spent: 1}")],
        ),
        (
            [("batch: {issued: 1}", "batch: {issued: 1, spent: 1}")],
            (
                "consumers.batch.keys[0]: Version 1 of batch is spent: a revoked key never becomes"
                " valid again. Write keys: [2], and batch: {issued: 2, spent: 1} in keyHistory."
            ),
            [
                ("batch: {keys: [1]}", "batch: {keys: [2]}"),
                ("batch: {issued: 1, spent: 1}", "batch: {issued: 2, spent: 1}"),
            ],
        ),
        (
            [(RECORD, "chat: {issued: 2, spent: 1}")],
            (
                "consumers.chat.keys[1]: Version 1 of chat is spent: a revoked key never becomes"
                " valid again. Write keys: [2]; for another key, run: inferplan keys add chat"
            ),
            [(CHAT, "    chat: {keys: [2]}\n")],
        ),
        (
            [("  inferplan:keyHistory: {chat: {issued: 2}, batch: {issued: 1}}\n", "")],
            (
                "consumers.chat.keys: Missing keyHistory, which keeps the retired keys of chat from"
                " becoming valid again. Add inferplan:keyHistory: {batch: {issued: 1}, chat:"
                " {issued: 2}}"
            ),
            [
                (
                    "  inferplan:apiKeySeed",
                    (
                        "  inferplan:keyHistory: {chat: {issued: 2}, batch: {issued: 1}}\n "
                        " inferplan:apiKeySeed"
                    ),
                )
            ],
        ),
        (
            [(CHAT, "    chat: {keys: [3, 2, 1]}\n")],
            (
                "keyHistory.chat: Version 3 of chat is not recorded as issued. Write chat: {issued:"
                " 3} in keyHistory."
            ),
            [(RECORD, "chat: {issued: 3}")],
        ),
    ],
)
def test_a_hand_edit_of_keys_is_one_error_whose_remedy_is_valid_when_pasted(
    stack, capsys, edits, message, pasted
):
    for before, after in edits:
        _edit(stack, before, after)
    code, errors = _validated(capsys)
    assert (code, len(errors)) == (2, 1)
    assert message in errors[0]
    for before, after in pasted:
        _edit(stack, before, after)
    assert _validated(capsys) == (0, [])


def _validated(capsys):
    """The exit code of validate and its errors, each in one line."""
    with pytest.raises(SystemExit) as caught:
        main.run(("validate", "local"))
    captured = capsys.readouterr()
    text = " ".join((captured.out + captured.err).split())
    return (
        int(caught.value.code or 0),
        re.split(r"stacks/Pulumi\.local\.yaml:[0-9]+:[0-9]+: ", text)[1:],
    )


def test_a_key_that_was_dropped_by_hand_is_not_issued_again(stack, keys):
    _edit(stack, CHAT, "    chat: {keys: [1]}\n")
    code, _, err = keys("add", "chat")
    assert code == 2
    assert "neither in keys (1) nor spent: 2" in err
    _edit(stack, RECORD, "chat: {issued: 2, spent: [2]}")
    assert keys("add", "chat")[0] == 0
    assert "keys: [3, 1]" in stack.read_text()


def test_many_versions_are_listed_by_their_ends(stack, keys):
    _edit(stack, CHAT, "    chat: {keys: [999999]}\n")
    code, _, err = keys("show", "chat")
    assert code == 2
    assert "neither in keys (999999) nor spent: 1 to 999998." in err
