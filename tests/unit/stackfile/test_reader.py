"""The notation of stack files: what is handed on, and which faults are found where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.stackfile.reader import MAX_BYTES, StackFile, read_stack, stack_path

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def read(tmp_path):
    def write_and_read(content: str | bytes) -> StackFile:
        path = tmp_path / "Pulumi.test.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_stack(path, shown_path="stacks/Pulumi.test.yaml")

    return write_and_read


def lines(file: StackFile) -> list[str]:
    return [
        line.removeprefix("stacks/Pulumi.test.yaml:")
        for line in InvalidStack(file.shown_path, file.errors).lines
    ]


def test_configuration_is_handed_on_as_the_cli_passes_it_and_secrets_as_ciphertext(read):
    file = read(
        "secretsprovider: awskms://alias/key\nencryptionsalt: v1:abc\nconfig:\n  aws:region:"
        " eu-central-1\n  inferplan:models: {b: {n: 1, t: '<1>'}, a: [true, null, 1.5]}\n "
        " inferplan:apiKeySeed:\n    secure: v1:x:y\n  aws:secretKey: {secure: v1:p:q}\n"
    )
    assert file.errors == ()
    assert file.config == {
        "aws:region": "eu-central-1",
        "inferplan:models": r'{"a":[true,null,1.5],"b":{"n":1,"t":"\u003c1\u003e"}}',
    }
    assert json.loads(file.config["inferplan:models"])["b"]["t"] == "<1>"
    assert file.secrets == {"inferplan:apiKeySeed": "v1:x:y", "aws:secretKey": "v1:p:q"}
    assert file.encryption_salt == "v1:abc"


def test_keys_may_stand_without_the_namespace_of_the_project_as_in_pulumi_but_not_twice(read):
    file = read("config:\n  cluster: {provider: simulated}\n  inferplan:models: {}\n  models: {}\n")
    assert file.config["inferplan:cluster"] == '{"provider":"simulated"}'
    assert lines(file) == [
        "4:3: models: Duplicate key 'inferplan:models', with and without its prefix. Remove one."
    ]
    assert file.locate(("cluster", "provider")).line == 2


def test_positions_are_those_of_keys_and_of_list_items_and_else_of_the_nearest_parent(read):
    file = read(
        "config:\n  inferplan:models:\n    chat:\n      pool: l40s\n      consumers: [a,\n       "
        " b]\n"
    )
    assert (
        file.locate(("models", "chat", "pool")).line,
        file.locate(("models", "chat", "pool")).column,
    ) == (4, 7)
    assert (
        file.locate(("models", "chat", "consumers", 1)).line,
        file.locate(("models", "chat", "consumers", 1)).column,
    ) == (6, 9)
    assert file.locate(("models", "chat", "weights", "path")).line == 3
    assert file.locate(("nodePools",)).line == 1
    assert file.written(("models", "chat", "pool")) == "l40s"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "1:1: The file is empty. Write a mapping that starts with 'config:'"),
        ("# nothing\n", "1:1: The file is empty"),
        ("- 1\n", "1:1: The file holds a list"),
        ("text\n", "1:1: The file holds text"),
        ("encryptionsalt: x\n", "1:1: Missing required field config."),
        ("config: [1]\n", "1:1: config: A list is not valid."),
        (
            "config:\n\tinferplan:models: {}\n",
            "2:1: A tab indents this line, but YAML allows only spaces.",
        ),
        ("config:\n  a: {b: [1}\n", "2:"),
        ("config: {}\n---\nconfig: {}\n", "2:1: A second document starts here"),
        ("config:\n  inferplan:cluster: &c {}\n", "2:22: cluster: Anchors (&) are not supported."),
        (
            "config:\n  inferplan:cluster: &c {}\n  inferplan:models: *c\n",
            "3:21: models: Aliases (*) are not supported.",
        ),
        (
            "config:\n  inferplan:models:\n    <<: {}\n",
            "3:5: models['<<']: Merge keys (<<) are not supported.",
        ),
        ("config:\n  inferplan:models: !!set {}\n", "2:21: models: Tags (!) are not supported."),
        (
            "config:\n  inferplan:models:\n    1: {}\n",
            "3:5: models.1: Key 1 is not text. Quote it: '1'",
        ),
        (
            "config:\n  inferplan:models:\n    no: {}\n",
            "3:5: models.no: Invalid key. no is ambiguous: some YAML parsers read a boolean",
        ),
        (
            "config:\n  inferplan:models:\n    ? [a]\n    : b\n",
            "3:7: models: A key cannot be a list or a mapping.",
        ),
        (
            "config:\n  inferplan:models:\n    a: {}\n    a: {}\n",
            "4:5: models.a: Duplicate key 'a', first on line 3. Remove one.",
        ),
        (
            "config:\n  inferplan:x: {a: 12:30}\n",
            "2:20: x.a: 12:30 is ambiguous: some YAML parsers read a base-60 number",
        ),
        ("konfig: {}\nconfig: {}\n", "1:1: konfig: Unknown field 'konfig'. Did you mean 'config'?"),
        (
            "inferplan:models: {}\nconfig: {}\n",
            "1:1: inferplan:models: Unknown field 'inferplan:models'. Indent it below config.",
        ),
        (
            "config:\n  inferpan:models: {}\n",
            "2:3: inferpan:models: Unknown namespace 'inferpan'. Did you mean 'inferplan:models'?",
        ),
        (
            "config:\n  inferplan:config:models: {}\n",
            (
                "2:3: config:models: Key 'inferplan:config:models' has 3 parts. Expected"
                " namespace:name, for example inferplan:models."
            ),
        ),
        (
            "config:\n  inferplan:models: {a: {secure: v1:x:y}}\n",
            "2:22: models.a: Encrypted values are not supported here.",
        ),
        ("config: {}\nencryptionsalt: [a]\n", "2:1: encryptionsalt: A list is not valid."),
        ("config: {a: {b: \x01}}\n", "1:17: A control character"),
    ],
)
def test_a_fault_of_notation_is_found_where_it_stands(read, content, fault):
    assert any(line.startswith(fault) for line in lines(read(content))), lines(read(content))


@pytest.mark.parametrize(
    "clear", ["topsecret", "1234567", "{secure: 1}", "[topsecret]", "{secure: a, more: topsecret}"]
)
def test_a_secret_in_clear_is_refused_with_the_remedy_and_never_repeated(read, clear):
    file = read(f"config:\n  inferplan:apiKeySeed: {clear}\n")
    [line] = lines(file)
    assert line.startswith("2:3: apiKeySeed: ")
    assert "pulumi config set --secret apiKeySeed" in line
    assert "topsecret" not in line
    assert "1234567" not in line
    assert file.config == {}
    assert file.secrets == {}


def test_the_repr_of_a_stack_file_shows_no_secret(read):
    file = read(
        "config:\n  inferplan:apiKeySeed: topsecret\n  aws:secretKey: {secure: v1:cipher:text}\n"
    )
    assert "topsecret" not in repr(file)
    assert "cipher" not in repr(file)


def test_a_file_that_is_no_text_is_refused_with_the_place(read):
    assert lines(read(b"config: {}\n# caf\xe9\n")) == [
        "2:6: Byte 0xe9 is not valid UTF-8. Save the file as UTF-8."
    ]
    assert "not valid UTF-8" in lines(read("config: {}".encode("utf-16")))[0]
    assert "control character" in lines(read(b"\x00\x01\x02"))[0]


def test_a_byte_order_mark_is_no_fault(read):
    assert read("\ufeffconfig: {}\n").errors == ()


def test_a_huge_file_is_refused_unread(read):
    assert "larger than 1024 KiB" in lines(read(b"#" * (MAX_BYTES + 1)))[0]


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 100_000,
        "{a: " * 50_000,
        "- " * 50_000,
        "\n".join(" " * n + f"a{n}:" for n in range(400)),
    ],
)
def test_a_nesting_bomb_is_refused(read, bomb):
    assert any("nested more than 32 levels deep" in line for line in lines(read(bomb)))


def test_an_alias_bomb_stays_small(read):
    layers = "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    file = read(f"a0: &a0 [x]\n{layers}config: {{}}\n")
    assert any("are not supported. Write the value out." in line for line in lines(file))


def test_tabs_in_several_lines_are_all_listed(read):
    found = lines(read("config:\n\tinferplan:models:\n\t\tchat: {}\n"))
    assert [line.partition(":")[0] for line in found] == ["2", "3"]


@pytest.mark.parametrize("path", ["missing.yaml", ".", "a\0b.yaml"])
def test_a_path_that_is_no_readable_file_is_a_fault(tmp_path, path):
    [error] = read_stack(tmp_path / path).errors
    assert "does not exist" in error.message or "Cannot read the file" in error.message


def test_the_stack_file_is_found_by_the_projects_stack_config_dir(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: x\nstackConfigDir: environments\n")
    assert stack_path(tmp_path, "prod") == tmp_path / "environments" / "Pulumi.prod.yaml"
    (tmp_path / "Pulumi.yaml").write_text("name: x\n")
    assert stack_path(tmp_path, "prod") == tmp_path / "Pulumi.prod.yaml"


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.name
)
def test_the_example_stacks_are_free_of_faults(path):
    assert read_stack(path).errors == ()
