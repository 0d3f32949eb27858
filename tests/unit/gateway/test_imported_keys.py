"""Keys that users bring: which are accepted, where they go, and that nothing shows one."""

from __future__ import annotations

import base64
import json
import secrets
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.imported_keys import collisions, imported_key_error, tail_of
from inferplan.components.gateway.keys import seed_weakness
from inferplan.components.gateway.proxy_keys import proxy_keys
from inferplan.pulumi_engine.secrets import open_secrets
from inferplan.stackfile import imported_keys

SEED = "8f14e45fceea167a5a36dedd4bea25433a6f1c0d9be27bd24e7b53c6a1d2f3e4"
KEY = "sk-live-Zt7Qm2Lx9Rk4Vw8Nc3Hd6Bp1Jg5Ys0Ff"
ENCRYPTED = {"secure": "v1:bm9uY2U=:Y2lwaGVy"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: secrets.token_hex(32),
        lambda: secrets.token_urlsafe(32),
        lambda: f"sk-{secrets.token_hex(30)}",
    ],
)
def test_keys_of_random_bytes_are_accepted(make):
    assert [imported_key_error(make()) for _ in range(10)] == [None] * 10
    assert imported_key_error(KEY) is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "The key has 0 characters. Use 40 to 200."),
        (KEY[:39], "has 39 characters"),
        (KEY * 8, "characters. Use 40 to 200."),
        (KEY[:-1] + " ", "characters that an Authorization header does not allow"),
        (KEY[:-1] + '"', "characters that an Authorization header does not allow"),
        (KEY[:-1] + "ü", "characters that an Authorization header does not allow"),
        ("a" * 64, "bits without its last 8 characters. Use at least 128"),
        ("correct-horse-" * 4, "keyboard rows or repeated parts"),
        (KEY[:24] * 3, "keyboard rows or repeated parts"),
        (string.ascii_lowercase + string.ascii_uppercase, "keyboard rows or repeated parts"),
        ("sk-0987654321poiuytrewqlkjhgfdsamnbvcxz13579024", "keyboard rows or repeated parts"),
        ("sk-portal-key-of-the-acme-support-desk-november-2026", "keyboard rows or repeated parts"),
        ("ipk_chat_1_" + KEY, "The key starts like a derived key (ipk_ or ips_)"),
        ("ips_" + KEY, "The key starts like a derived key (ipk_ or ips_)"),
    ],
)
def test_a_key_that_can_be_guessed_or_sent_badly_is_refused_without_being_quoted(key, said):
    fault = imported_key_error(key)
    assert fault is not None
    assert said in fault
    assert not key or key[4:20] not in fault


def test_two_keys_that_end_alike_are_told_by_their_places():
    other = KEY[:-1].swapcase() + KEY[-1]
    assert collisions({("a", 1): KEY, ("b", 2): other, ("c", 1): secrets.token_hex(32)}) == {
        ("b", 2): ("a", 1)
    }


def _consumer(**written):
    return ConsumerSpec.model_validate_json(json.dumps(written))


def test_the_proxy_finds_a_imported_key_by_its_end_and_holds_no_more_of_it():
    consumers = {
        "legacy": _consumer(keys=[2, 1], importedKeys={"1": ENCRYPTED}),
        "chat": _consumer(keys=[1]),
    }
    made = proxy_keys(SEED, consumers, ["llama"], {("legacy", 1): KEY})
    assert KEY[:-8] not in made.text
    assert f"    _{tail_of(KEY)} legacy;" in made.text
    assert "    legacy_2 " in made.text
    assert "    legacy_1 " not in made.text
    assert (
        made.fingerprint
        != proxy_keys(SEED, consumers, ["llama"], {("legacy", 1): KEY.swapcase()}).fingerprint
    )


def test_an_imported_key_of_a_version_that_is_not_listed_is_refused():
    with pytest.raises(
        ValueError,
        match=(
            r"importedKeys has version 3, which is not in keys \(1, 2\)\. Add the version to keys,"
            r" or remove it"
        ),
    ):
        _consumer(keys=[2, 1], importedKeys={"3": ENCRYPTED})


SECTION = {
    "legacy": {"keys": [1], "importedKeys": {"1": KEY, "2": ENCRYPTED}},
    "chat": {"keys": [1]},
}


def test_nothing_that_looks_at_the_section_meets_a_key():
    assert KEY not in json.dumps(imported_keys.mask_keys(SECTION))
    assert imported_keys.mask_keys(SECTION)["legacy"]["importedKeys"] == {
        "1": {"secure": "[secret]"},
        "2": {"secure": "[secret]"},
    }
    assert imported_keys.mask_plain_keys(SECTION)["legacy"]["importedKeys"] == {
        "1": {"secure": "[secret]"},
        "2": ENCRYPTED,
    }
    assert imported_keys.plain_keys(SECTION) == {("legacy", 1): KEY}
    assert imported_keys.ciphertexts(SECTION) == {
        'consumers.legacy.importedKeys["2"]': ENCRYPTED["secure"]
    }


def test_opened_keys_reach_the_program_as_the_cli_passes_them():
    config = {
        "inferplan:consumers": json.dumps(
            {"legacy": {"keys": [1], "importedKeys": {"1": ENCRYPTED}}}
        )
    }
    secrets = {"inferplan:apiKeySeed": SEED, 'inferplan:consumers.legacy.importedKeys["1"]': KEY}
    passed, secret_keys = imported_keys.with_secrets(config, secrets)
    assert secret_keys == {"inferplan:apiKeySeed", "inferplan:consumers"}
    assert json.loads(passed["inferplan:consumers"]) == {
        "legacy": {"keys": [1], "importedKeys": {"1": KEY}}
    }
    assert set(passed) == {"inferplan:apiKeySeed", "inferplan:consumers"}


def test_a_plan_without_the_passphrase_judges_no_placeholder_as_weak():
    ciphertexts = {"inferplan:apiKeySeed": "v1:aGVsbG8=", "importedKey": ENCRYPTED["secure"]}
    opened = open_secrets(ciphertexts, salt="v1:salt", provider=None, environment={})
    assert opened.placeholders
    assert not {*opened.values.values()} & {*ciphertexts.values()}
    assert seed_weakness(opened.values["inferplan:apiKeySeed"]) is None
    assert imported_key_error(opened.values["importedKey"]) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["importedKeys", "a", "1", "secure"]), inner)
        ),
    )
)
def test_no_shape_of_a_section_makes_the_search_fail(section):
    imported_keys.mask_keys(section)
    imported_keys.plain_keys(section)
    imported_keys.ciphertexts(section)
    imported_keys.mask_plain_keys(section)


def test_faults_name_the_place_and_the_command_and_never_the_key():
    weak = base64.b64encode(b"x" * 40).decode()
    found = list(imported_keys.errors({("legacy", 1): weak}, secret=True)) + list(
        imported_keys.errors({("legacy", 1): KEY}, secret=False)
    )
    assert [each.path for each in found] == [("consumers", "legacy", "importedKeys", "1")] * 2
    assert "The secret is in plain text but must be encrypted." in found[1].message
    assert (
        "pulumi config set --secret --path 'consumers.legacy.importedKeys[\"1\"]'"
        in found[1].message
    )
    assert all(weak[:12] not in each.message and KEY[:12] not in each.message for each in found)
