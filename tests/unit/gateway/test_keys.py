"""Derivation and spelling of keys."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import secrets
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inferplan.components.gateway import keys
from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.gateway.proxy_keys import proxy_keys
from tests.printed_keys import read_key

SEED = "0123456789abcdef" * 4
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
VERSIONS = st.integers(1, 999_999)


def test_keys_are_what_they_were_since_clients_hold_them():
    """Computed once with HKDF (RFC 5869) from `cryptography` 50 and by hand from HMAC alone, below."""
    assert (
        keys.consumer_key(SEED, "chat-a", 2)
        == "ipk_chat-a_2_p0Buv4Ndb36Fr3Q7NCIqPvSc0kyat8ox8o6V7GnVKxO_1LGMr6"
    )
    assert keys.server_key(SEED, "m") == "ips_wMpKSmmyFDApH3LtPKbV5IXZW7ASSVH3Ei2NhrKVTKr"


def test_derivation_is_hkdf_as_the_rfc_spells_it():
    import hmac

    extracted = hmac.new(b"inferplan/api-keys", SEED.encode(), hashlib.sha256).digest()
    expanded = hmac.new(
        extracted, b"inferplan\x00v1\x00consumer-key\x00chat\x001" + b"\x01", hashlib.sha256
    ).digest()
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number = 0
    for character in read_key(keys.consumer_key(SEED, "chat", 1)).secret:
        number = number * 62 + digits.index(character)
    assert number == int.from_bytes(expanded, "big")


def test_the_secret_part_holds_256_bits():
    assert keys.SECRET_DIGITS * math.log2(62) >= 256


@given(NAMES, VERSIONS)
@example("a-1", 1)
@example("ipk", 1)
def test_a_printed_key_reads_back_as_what_it_was_made_of(name, version):
    printed = keys.consumer_key(SEED, name, version)
    read = read_key(printed)
    assert (read.consumer, read.version) == (name, version)
    pattern = keys.PRINTED_PATTERN.replace("(?<", "(?P<")
    matched = re.fullmatch(pattern, printed)
    assert matched is not None
    assert (matched["owner"], int(matched["version"])) == (name, version)


@given(st.tuples(NAMES, VERSIONS), st.tuples(NAMES, VERSIONS))
@example(("a", 11), ("a-1", 1))
@example(("a1", 1), ("a", 11))
def test_two_keys_are_equal_only_when_consumer_and_version_are(one, other):
    assert (keys.consumer_key(SEED, *one) == keys.consumer_key(SEED, *other)) == (one == other)
    secrets = {read_key(keys.consumer_key(SEED, *each)).secret for each in (one, other)}
    assert (len(secrets) == 1) == (one == other)


@given(NAMES, st.integers(0, 200), st.characters(codec="ascii"))
def test_a_mistyped_character_is_noticed(name, place, character):
    printed = keys.consumer_key(SEED, name, 1)
    place %= len(printed)
    mistyped = printed[:place] + character + printed[place + 1 :]
    if mistyped == printed:
        return
    with pytest.raises(ValueError, match="key"):
        read_key(mistyped)


@given(st.text(max_size=200))
def test_no_text_makes_reading_fail_otherwise_and_none_is_quoted(text):
    with pytest.raises(ValueError, match="key") as refused:
        read_key(f"{text}é")
    assert len(text) < 12 or text not in str(refused.value)


def test_a_key_never_shows_in_its_parts_repr():
    read = read_key(keys.consumer_key(SEED, "chat", 1))
    assert read.secret not in repr(read)


def test_consumers_servers_pepper_and_seeds_have_nothing_in_common():
    other = SEED[::-1]
    made = [keys.consumer_key(seed, "x", 1).split("_")[3] for seed in (SEED, other)]
    made += [keys.server_key(seed, "x").split("_")[1] for seed in (SEED, other)]
    made += [keys.pepper(seed) for seed in (SEED, other)]
    assert len(set(made)) == len(made)


def test_white_space_around_the_seed_changes_nothing():
    assert keys.server_key(f" {SEED}\n", "m") == keys.server_key(SEED, "m")


@pytest.mark.parametrize("weak", ["", "short", "a" * 64, "abcabcabc" * 8, "0" * 43])
def test_a_weak_seed_is_refused_without_being_quoted(weak):
    fault = keys.seed_error(weak)
    assert fault is not None
    assert "apiKeySeed" in fault
    assert "openssl rand -hex 32" in fault
    assert not weak or weak not in fault
    with pytest.raises(ValueError, match="apiKeySeed"):
        keys.consumer_key(weak, "chat", 1)


GUESSABLE = [
    "IchBinEinSehrLangerAberLeiderErratbarerSatzMitInferplan",
    "klmnopqrst" * 5,
    "correct horse battery staple and a few more words",
    "inferplan is the best platform of our company 2026",
    "Inferplan-Production-Seed-Do-Not-Share-November-2026",
    "Der schnelle braune Fuchs springt ueber den faulen Hund",
    "poiuytrewqlkjhgfdsamnbvcxz0987654321poiuytrewq",
    "Tr0ub4dor&3Tr0ub4dor&4Tr0ub4dor&5Tr0ub4dor&6Tr0ub4dor&7",
    "0123456789abcdef" * 4,
]


@pytest.mark.parametrize("seed", GUESSABLE)
def test_a_seed_of_words_rows_or_repeats_is_guessable_and_one_key_would_betray_all(seed):
    error = keys.seed_weakness(seed)
    assert error is not None
    assert "Anyone who has one key could find the seed and derive every key" in error
    assert "openssl rand -hex 32" in error
    assert seed[:8] not in error


@pytest.mark.parametrize(
    "make",
    [
        lambda: secrets.token_hex(32),
        lambda: secrets.token_urlsafe(32),
        lambda: secrets.token_hex(64),
    ],
)
def test_random_seeds_are_never_called_guessable(make):
    assert [keys.seed_weakness(make()) for _ in range(25)] == [None] * 25


def test_judging_needs_no_word_list_before_a_secret_is_judged():
    code = (
        "import sys, inferplan.stackfile.settings, inferplan.components.gateway.keys;"
        " sys.exit('zxcvbn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_openssl_prints_is_a_seed():
    assert (
        keys.seed_error("8e2f0d9c4b7a6e5f1c3d2b1a0f9e8d7c6b5a49382716f5e4d3c2b1a09f8e7d6c") is None
    )
    assert keys.seed_error(base64.b64encode(bytes(range(32))).decode()) is None


def _consumer(*versions, **more):
    return ConsumerSpec.model_validate({"keys": list(versions), **more})


def test_the_proxy_s_file_holds_hashes_of_keys_and_never_a_key():
    consumers = {"chat": _consumer(2, 1), "batch": _consumer(1)}
    text = proxy_keys(SEED, consumers, ["llama"]).text
    for name, version in (("chat", 1), ("chat", 2), ("batch", 1)):
        key = keys.consumer_key(SEED, name, version)
        assert key not in text
        assert read_key(key).secret not in text
        assert f'{name}_{version} "{keys.proxy_digest(key, keys.pepper(SEED))}"' in text
    assert SEED not in text
    assert keys.server_key(SEED, "llama") in text


def test_the_proxy_s_digest_is_what_nginx_computes():
    digest = hashlib.md5(b"key pepper", usedforsecurity=False).digest()
    assert keys.proxy_digest("key", "pepper") == base64.urlsafe_b64encode(digest).decode().rstrip(
        "="
    )


def test_the_fingerprint_changes_with_versions_expiry_models_and_seed_and_is_in_the_first_line():
    def made(seed=SEED, models=("m",), **consumers):
        return proxy_keys(seed, consumers or {"chat": _consumer(1)}, models)

    base = made()
    assert base.text.splitlines()[0] == f"# fingerprint {base.fingerprint}"
    others = [
        made(chat=_consumer(2, 1)),
        made(chat=_consumer(1, expires={1: "2027-01-01"})),
        made(models=("m", "n")),
        made(seed=SEED[::-1]),
    ]
    assert len({base.fingerprint, *(each.fingerprint for each in others)}) == 5
    assert made() == base
    assert base.fingerprint not in (
        hashlib.sha256(SEED.encode()).hexdigest(),
        hashlib.sha256(base.text.encode()).hexdigest()[:16],
    )


def test_the_order_in_which_versions_are_written_changes_nothing():
    assert proxy_keys(SEED, {"chat": _consumer(1, 2)}, ["a", "b"]) == proxy_keys(
        SEED, {"chat": _consumer(2, 1)}, ["b", "a"]
    )


def test_the_file_stays_out_of_the_repr():
    made = proxy_keys(SEED, {"chat": _consumer(1)}, ["llama"])
    assert keys.server_key(SEED, "llama") not in repr(made)
