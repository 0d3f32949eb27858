"""The texts that a match of a row contains are complete: looking for them first misses nothing."""

from __future__ import annotations

import random
import re

import pytest

from inferplan.policies.subjects import secret_texts
from inferplan.tables import table
from tests.disclosure.canaries import TEXTS, VALUES

ROWS = table("policies/rules/secret_texts.toml")
# One text for each alternative of each row that states what its matches contain.
SAMPLES = {
    "hubs": ["hf_" + "a1" * 16, "sk-" + "a1" * 12, "nvapi-" + "a1" * 21],
    "clouds": ["AKIA" + "A1" * 8, "ASIA" + "A1" * 8, "AIza" + "a" * 35],
    "forges": [
        *(f"gh{kind}_" + "a1" * 16 for kind in "pousr"),
        *("github_pat_" + "a1" * 21, "glpat-" + "a1" * 11),
        *(f"xox{kind}-" + "a1" * 11 for kind in "abprs"),
    ],
    "jwt": ["eyJ" + "a" * 9 + ".eyJ" + "b" * 9 + "." + "c" * 9],
    "slack": ["hooks.slack.com/services/T0/B0/" + "a" * 12],
    "discord": [
        f"{host}.com/api/webhooks/{'1' * 15}/{'a' * 20}" for host in ("discord", "discordapp")
    ],
    "teams": ["contoso.webhook.office.com/webhookb2/" + "a" * 24],
    "signed": [
        f"https://a.example/b?{name}={'a1' * 10}"
        for name in ("sig", "signature", "X-Amz-Signature", "token", "access_token", "api_key")
    ],
    "pem": ["-----BEGIN RSA PRIVATE KEY-----"],
    "url": ["redis://user:kestrel9@cache"],
    "telegram": ["api.telegram.org/bot1234567:" + "a" * 32],
    "age": ["AGE-SECRET-KEY-1" + "A1" * 26],
    "mysql": [f"{name} -h db -pKestrel9" for name in ("mysql", "mariadb", "sshpass")],
    "netrc": ["machine a login b password kestrel"],
}


def test_every_stated_text_has_a_sample():
    assert SAMPLES.keys() == ROWS["needs"].keys()
    for row, needs in ROWS["needs"].items():
        assert all(any(each in text for text in SAMPLES[row]) for each in needs), row


@pytest.mark.parametrize("kind", ["shapes", "commands"])
def test_looking_for_the_stated_texts_first_misses_nothing(kind):
    together = re.compile("|".join(f"(?:{each})" for each in ROWS[kind].values()))
    source = random.Random(7)  # noqa: S311 - repeatable, and no secret
    values = [make(source) for make in VALUES.values()]
    texts = [text(value) for text in TEXTS.values() for value in values]
    texts += [f"a {each} b" for row in SAMPLES.values() for each in row]
    rows = {"shapes": secret_texts.SHAPES, "commands": secret_texts.COMMANDS}[kind]
    missed = [each for each in texts if bool(together.search(each)) != bool(rows.search(each))]
    assert missed == []
    assert sum(bool(together.search(each)) for each in texts) > 20


@pytest.mark.parametrize("row", sorted(SAMPLES))
def test_each_sample_is_a_match_of_its_row(row):
    pattern = ROWS["shapes"].get(row) or ROWS["commands"][row]
    assert all(re.search(pattern, f"a {each} b") for each in SAMPLES[row])
