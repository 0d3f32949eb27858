"""`inferplan doctor` as a person runs it, in a process of its own, against an account that fails in
the middle: no traceback, exit code 1, and what AWS answered is printed all the same.
"""

from __future__ import annotations

import json
import logging
import math
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

ROOT = Path(__file__).resolve().parents[3]
XML = {"ec2", "iam", "sts", "s3"}
Row = tuple[str, str, str]
LIMIT = 60  # seconds, at load 10


def refusal(service: str, code: str, status: int) -> Response:
    """An error of AWS in the protocol of `service`."""
    if service in XML:
        error = f"<Error><Code>{code}</Code><Message>{code} of a test</Message></Error>"
        inside = error if service in ("s3", "iam", "sts") else f"<Errors>{error}</Errors>"
        document = (
            f"<ErrorResponse>{inside}</ErrorResponse>" if service in ("iam", "sts") else
            inside if service == "s3" else f"<Response>{inside}</Response>"
        )  # fmt: skip
        return Response(document, status, content_type="text/xml")
    return Response(
        json.dumps({"__type": code, "message": f"{code} of a test"}),
        status,
        headers={"x-amzn-errortype": code},
        content_type="application/json",
    )


class Account:
    """moto behind HTTP. `answers` replaces the answers of a service, and the login ends after
    `expires_after` requests.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], Response]] = {}
        self.expires_after = math.inf
        self.asked: Counter[str] = Counter()
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._respond, threaded=True)
        self.ended = threading.Event()

    def _respond(self, environment: dict[str, Any], start: Any) -> Any:
        scope = re.search(r"Credential=\w+/\d+/[^/]*/([a-z0-9-]+)/", Request(environment).headers.get("Authorization", ""))  # fmt: skip
        service = scope[1] if scope else "none"
        self.asked[service] += 1
        if self.asked.total() > self.expires_after:
            return refusal(service, "ExpiredToken", HTTPStatus.FORBIDDEN)(environment, start)
        if service in self.answers:
            return self.answers[service]()(environment, start)
        try:
            return self._moto(environment, start)
        except NotImplementedError:
            denied = refusal(service, "AccessDeniedException", HTTPStatus.FORBIDDEN)
            return denied(environment, start)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def doctor(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("inferplan"), "doctor", "prod", *options],
            check=False,
            cwd=ROOT,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/nonexistent",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
                "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "test",
                "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
            },
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def rows(self) -> list[dict[str, str]]:
        result = self.doctor("--json")
        assert "Traceback" not in result.stdout + result.stderr, result.stderr
        assert result.returncode == 1, result.stderr
        return json.loads(result.stdout)["findings"]


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with Account() as whole:
        yield whole


@pytest.fixture(scope="module")
def healthy(account) -> set[Row]:
    return {row(each) for each in account.rows()}


@pytest.fixture(autouse=True)
def whole_again(account, healthy) -> Iterator[None]:
    assert healthy
    account.asked.clear()
    yield
    account.answers.clear()
    account.expires_after = math.inf


def row(finding: dict[str, str]) -> Row:
    return finding["check"], finding["result"], finding["message"]


def answered(findings: list[dict[str, str]]) -> set[Row]:
    """The rows that AWS's answers decided."""
    return {
        row(each)
        for each in findings
        if each["result"] != "unknown" and not re.search("credentials|not checked", each["message"])
    }


@pytest.mark.full
def test_a_service_that_throttles_leaves_its_rows_unchecked_and_no_other(account, healthy):
    account.answers["ec2"] = lambda: refusal(
        "ec2", "RequestLimitExceeded", HTTPStatus.SERVICE_UNAVAILABLE
    )
    findings = account.rows()
    unchecked = [each for each in findings if each["result"] == "unknown"]
    assert any("RequestLimitExceeded" in each["message"] for each in unchecked)
    same = answered(findings)
    assert same <= healthy
    assert len(same) >= 5


@pytest.mark.parametrize("last", [1, 4, 8])
@pytest.mark.full
def test_a_token_that_expires_in_the_middle_keeps_what_was_answered_before(account, healthy, last):
    account.expires_after = last
    findings = account.rows()
    assert any("does not accept the credentials" in each["message"] for each in findings)
    assert any("aws sso login" in each["remedy"] for each in findings)
    same = answered(findings)
    assert same <= healthy
    assert len(same) >= last // 4


@pytest.mark.full
def test_an_endpoint_that_hangs_ends_within_the_time_of_one_question_each(account, healthy):
    def hang() -> Response:
        account.ended.wait(LIMIT)
        return refusal("ec2", "late", HTTPStatus.SERVICE_UNAVAILABLE)

    account.answers["ec2"] = hang
    findings = account.rows()
    # One question, which the SDK sends twice; whatever was on its way at that time ends with it.
    assert any("got no answer" in each["message"] for each in findings)
    same = answered(findings)
    assert same <= healthy
    assert len(same) >= 5


def test_a_denied_question_is_a_row_that_was_not_checked(account):
    """The table for people says it too, with the permission that is missing."""
    account.answers["s3"] = lambda: refusal("s3", "AccessDenied", HTTPStatus.FORBIDDEN)
    result = account.doctor()
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "AWS denies s3:List" in " ".join(result.stdout.split())
    assert "unknown is not ok" in result.stdout
