"""IAM's published rules as tables of truth: condition operators, ARNs and actions, and who is a
stranger.

The expectations are those of the IAM User Guide ("Condition operators", "Conditions with multiple
context keys or values", "IAM JSON policy elements: Resource" and "Action"), read 2026-11-22, and
were written from it.
"""

from __future__ import annotations

import pytest

from inferplan.policies.iam import strangers
from inferplan.policies.iam.arns import action_like, arn_like, names_every_resource, overlaps
from inferplan.policies.iam.conditions import parse_condition
from inferplan.policies.subjects.networks import is_internet, network

MISSING = None
OPERATORS = (
    # A key that is absent: positive operators fail, negated ones hold, IfExists holds.
    ("StringEquals", ["a"], MISSING, False),
    ("StringNotEquals", ["a"], MISSING, True),
    ("StringEqualsIfExists", ["a"], MISSING, True),
    ("StringNotEqualsIfExists", ["a"], MISSING, True),
    ("ArnLike", ["arn:aws:iam::1:role/x"], MISSING, False),
    ("ArnNotLike", ["arn:aws:iam::1:role/x"], MISSING, True),
    ("Bool", ["true"], MISSING, False),
    ("BoolIfExists", ["true"], MISSING, True),
    ("IpAddress", ["10.0.0.0/8"], MISSING, False),
    ("NotIpAddress", ["10.0.0.0/8"], MISSING, True),
    ("NumericLessThan", ["3"], MISSING, False),
    # Several values are alternatives; under a negated operator none may match.
    ("StringEquals", ["a", "b"], "b", True),
    ("StringEquals", ["a", "b"], "c", False),
    ("StringNotEquals", ["a", "b"], "b", False),
    ("StringNotEquals", ["a", "b"], "c", True),
    # Case counts, except where the operator says otherwise; the operator's own name is in any case.
    ("StringEquals", ["A"], "a", False),
    ("StringEqualsIgnoreCase", ["A"], "a", True),
    ("StringNotEqualsIgnoreCase", ["A"], "a", False),
    ("stringequals", ["a"], "a", True),
    # Wildcards are StringLike's alone.
    ("StringEquals", ["o-*"], "o-1", False),
    ("StringLike", ["o-*"], "o-1", True),
    ("StringLike", ["o-?"], "o-12", False),
    ("StringLike", ["s3.*.amazonaws.com"], "s3.eu-west-1.amazonaws.com", True),
    ("StringNotLike", ["o-*"], "o-1", False),
    # Sets: ForAllValues holds of no values, ForAnyValue does not; IfExists changes neither.
    ("ForAllValues:StringEquals", ["a", "b"], ["a"], True),
    ("ForAllValues:StringEquals", ["a", "b"], ["a", "c"], False),
    ("ForAllValues:StringEquals", ["a"], MISSING, True),
    ("ForAllValues:StringEquals", ["a"], [], True),
    ("ForAnyValue:StringEquals", ["a"], ["b", "a"], True),
    ("ForAnyValue:StringEquals", ["a"], ["b"], False),
    ("ForAnyValue:StringEquals", ["a"], MISSING, False),
    ("ForAnyValue:StringEqualsIfExists", ["a"], MISSING, False),
    ("ForAllValues:StringNotEqualsIfExists", ["a"], MISSING, True),
    ("ForAnyValue:StringNotEquals", ["a"], ["a", "b"], True),
    ("ForAllValues:StringNotEquals", ["a"], ["a", "b"], False),
    # Null asks whether the key is there.
    ("Null", ["true"], MISSING, True),
    ("Null", ["false"], MISSING, False),
    ("Null", ["true"], "x", False),
    ("Null", ["false"], "x", True),
    # Numbers, dates, addresses.
    ("NumericLessThanEquals", ["10"], "10", True),
    ("NumericGreaterThan", ["10"], "9", False),
    ("NumericEquals", ["10"], "ten", False),
    ("DateLessThan", ["2026-01-01T00:00:00+00:00"], "2025-12-31T23:59:59+00:00", True),
    ("DateGreaterThan", ["2026-01-01T00:00:00+00:00"], "1767225601", True),
    ("IpAddress", ["203.0.113.0/24"], "203.0.113.7", True),
    ("IpAddress", ["203.0.113.0/24"], "2001:db8::1", False),
    ("NotIpAddress", ["203.0.113.0/24"], "198.51.100.1", True),
    ("Bool", ["true"], "TRUE", True),
    # An operator that AWS adds later holds for every request.
    ("StringMostlyEquals", ["a"], "b", True),
)


@pytest.mark.parametrize(("operator", "expected", "value", "holds"), OPERATORS)
def test_a_condition_holds_as_iam_says(operator, expected, value, holds):
    assert parse_condition(operator, "key", expected).holds(value) is holds


ROLE = "arn:aws:iam::123456789012:role/team/loader"


@pytest.mark.parametrize(
    ("match", "pattern", "text", "expected"),
    [
        # ARNs, part by part.
        (arn_like, ROLE, ROLE, True),
        (arn_like, "arn:aws:iam::123456789012:role/*", ROLE, True),
        (arn_like, "arn:aws:iam::*:role/*", ROLE, True),
        (arn_like, "arn:aws:iam::12345678901?:role/team/*", ROLE, True),
        (arn_like, "arn:aws:iam::123456789012:user/*", ROLE, False),
        (arn_like, "arn:*", ROLE, False),
        (arn_like, "*", ROLE, False),
        (arn_like, "arn:aws:iam:*:123456789012:role/team/loader", ROLE, True),
        (arn_like, "arn:aws:*:123456789012:role/team/loader", ROLE, False),
        (
            arn_like,
            "arn:aws:secretsmanager:*:*:secret:hub-*",
            "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hub-AbCdEf",
            True,
        ),
        # Actions, in any case.
        (action_like, "iam:pass*", "iam:PassRole", True),
        (action_like, "IAM:PASSROLE", "iam:PassRole", True),
        (action_like, "s3:Get?bject", "s3:GetObject", True),
        (action_like, "s3:Get", "s3:GetObject", False),
        # Patterns that one action can match together.
        (overlaps, "s3:Get*", "s3:*Object", True),
        (overlaps, "s3:Get*", "s3:Put*", False),
        (overlaps, "*", "sts:AssumeRole", True),
        (overlaps, "sts:Assume????", "sts:AssumeRole", True),
        (overlaps, "", "", True),
    ],
)
def test_a_pattern_matches_as_iam_says(match, pattern, text, expected):
    assert match(pattern, text) is expected
    if match is overlaps:
        assert overlaps(text, pattern) is expected


@pytest.mark.parametrize(
    ("pattern", "every"),
    [
        ("*", True),
        ("**", True),
        ("arn:aws:iam::*:role/*", True),
        ("arn:aws:iam::123456789012:role/*", True),
        ("arn:aws:iam::123456789012:role/loader-*", False),
        ("arn:aws:iam::123456789012:*", True),
        ("arn:aws:kms:eu-west-1:123456789012:key/*", True),
        ("arn:aws:kms:eu-west-1:123456789012:key/1a2b", False),
        ("arn:aws:secretsmanager:eu-west-1:123456789012:secret:*", True),
        ("arn:aws:secretsmanager:eu-west-1:123456789012:secret:hub-??????", False),
        ("arn:aws:ssm:eu-west-1:123456789012:parameter/*", True),
        ("arn:aws:ssm:eu-west-1:123456789012:parameter/models/*", False),
        ("arn:aws:s3:::*", True),
        ("arn:aws:s3:::*/*", True),
        ("arn:aws:s3:::weights/*", False),
        ("arn:aws:s3:::weights-*", False),
        ("arn:aws:sqs:eu-west-1:123456789012:*", True),
        ("arn:aws:*:*:*:*", True),
        ("arn:aws:ec2:*:*:instance/*", True),
        ("arn:*", True),
    ],
)
def test_a_pattern_of_all_resources_of_a_type_is_recognized(pattern, every):
    assert names_every_resource(pattern) is every


@pytest.mark.parametrize(
    ("one", "two", "meet"),
    [
        ("s3:Get*", "s3:*Object", True),
        ("s3:Get*", "s3:Put*", False),
        ("*", "sts:AssumeRole", True),
        ("sts:Assume????", "sts:AssumeRole", True),
        ("", "", True),
    ],
)
def test_patterns_of_actions_meet_where_an_action_is_in_both(one, two, meet):
    assert overlaps(one, two) is meet
    assert overlaps(two, one) is meet


def conditions(block):
    return [
        parse_condition(operator, key, values if isinstance(values, list) else [values])
        for operator, tests in block.items()
        for key, values in tests.items()
    ]


ORG = {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}


@pytest.mark.parametrize(
    ("block", "public"),
    [
        ({}, True),
        ({"StringEquals": ORG}, False),
        ({"StringLike": ORG}, False),
        ({"StringEqualsIfExists": ORG}, True),
        ({"StringNotEquals": ORG}, True),
        ({"ForAllValues:StringEquals": ORG}, True),
        ({"ForAnyValue:StringEquals": ORG}, False),
        ({"StringLike": {"aws:PrincipalOrgID": "o-*"}}, True),
        ({"StringEquals": {"aws:PrincipalOrgID": "o-*"}}, False),
        # One key may be absent, but not absent and present at once.
        ({"StringEqualsIfExists": ORG, "Null": {"aws:PrincipalOrgID": "false"}}, False),
        (
            {"StringEqualsIfExists": ORG, "StringEquals": {"aws:PrincipalAccount": "123456789012"}},
            False,
        ),
        ({"Bool": {"aws:SecureTransport": "true"}}, True),
        ({"StringEquals": {"aws:UserAgent": "loader"}}, True),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/*"}}, True),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/*"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s3:::*"}}, True),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s3:::weights"}}, False),
        ({"IpAddress": {"aws:SourceIp": ["0.0.0.0/1", "128.0.0.0/1"]}}, True),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, False),
        ({"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, True),
        ({"IpAddressIfExists": {"aws:SourceIp": "10.0.0.0/8"}}, True),
        ({"IpAddress": {"aws:SourceIp": "no address"}}, True),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, False),
    ],
)
def test_a_stranger_passes_conditions_that_do_not_identify_the_sender(block, public):
    assert strangers.can_pass(conditions(block)) is public


@pytest.mark.parametrize(
    ("blocks", "internet"),
    [
        (["0.0.0.0/0"], True),
        (["::/0"], True),
        (["0.0.0.0/1", "128.0.0.0/1"], True),
        (["10.0.0.1/0"], True),
        (["64.0.0.0/2"], True),
        ([f"{first}.0.0.0/8" for first in range(11, 100)], True),
        (["2000::/3"], True),
        (["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"], False),
        (["8.0.0.0/8"], False),
        (["8.0.0.0/8", "8.0.0.0/9"], False),
        (["8.0.0.0/7"], True),
        (["203.0.113.0/24", "2600:1f00::/24"], False),
        (["fd00::/8"], False),
        ([], False),
    ],
)
def test_blocks_that_cover_the_internet_together(blocks, internet):
    assert is_internet(map(network, blocks)) is internet
