"""Account ids and ARNs take ASCII digits: AWS refuses others, and does so after half the stack has
changed.
"""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from inferplan.components.platforms.aws.cluster_spec import EksCluster
from inferplan.components.platforms.aws.creation_spec import PrincipalArn
from inferplan.components.platforms.aws.load_balancers import CertificateArn
from inferplan.components.platforms.aws.store_spec import KmsKeyArn

ACCOUNT = "123456789012"


def account(value):
    return EksCluster.model_validate(
        {"provider": "eks", "name": "a", "region": "us-east-1", "account": value}
    ).account


@pytest.mark.parametrize(
    "digit", ["\N{ARABIC-INDIC DIGIT TWO}", "\N{FULLWIDTH DIGIT TWO}", "\N{SUPERSCRIPT TWO}"]
)
@pytest.mark.parametrize(
    ("read", "text"),
    [
        (account, "{}"),
        (TypeAdapter(PrincipalArn).validate_python, "arn:aws:iam::{}:role/deployer"),
        (TypeAdapter(CertificateArn).validate_python, "arn:aws:acm:us-east-1:{}:certificate/0a1b"),
        (TypeAdapter(KmsKeyArn).validate_python, "arn:aws:kms:us-east-1:{}:key/0a1b"),
    ],
)
def test_digits_of_other_scripts_are_rejected(read, text, digit):
    assert read(text.format(ACCOUNT)) == text.format(ACCOUNT)
    with pytest.raises(ValidationError):
        read(text.format(digit + ACCOUNT[1:]))
