"""Calls of AWS with the user's own credentials."""

import re
import threading
from collections.abc import Mapping
from typing import Any

from inferplan.errors import DeniedError, LoginError, OperationError, one_line

_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden", "403"}
_LOGGED_OUT = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "AuthFailure",
}
_LOGIN = "aws sso login && export AWS_PROFILE=PROFILE"
_MISSING = ("NotFound", "NoSuch", "404")
# IAM's spelling, where it differs from that of the API.
_SERVICES = {"service-quotas": "servicequotas", "efs": "elasticfilesystem"}

_ACTIONS = {
    "head_bucket": "s3:ListBucket",
    "list_buckets": "s3:ListAllMyBuckets",
    "list_objects_v2": "s3:ListBucket",
    "get_bucket_encryption": "s3:GetEncryptionConfiguration",
}


class AwsError(OperationError):
    """An error of AWS other than a missing permission. `missing` is true if the resource does not
    exist.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.missing = any(each in code for each in _MISSING)


def action_of(service: str, operation: str) -> str:
    """Return the IAM action of an operation, for example `ec2:DescribeVpcs` for ("ec2",
    "describe_vpcs").
    """
    name = "".join(part.capitalize() for part in operation.split("_")).replace("OpenId", "OpenID")
    return _ACTIONS.get(operation, f"{_SERVICES.get(service, service)}:{name}")


class Credentials:
    """Calls AWS in one region with the credentials of the environment, the profile or the instance."""

    def __init__(self, region: str, stack: str) -> None:
        # The import takes 0.3 s, which other commands do without.
        try:
            import botocore.session
            from botocore.config import Config
        except ModuleNotFoundError as error:
            raise OperationError(
                "Asking AWS needs the package botocore, which is not installed. Install"
                " inferplan's wheel with the extra aws: inferplan docs installing"
            ) from error

        self._session = botocore.session.Session()
        self._config = Config(
            region_name=region,
            connect_timeout=3,
            read_timeout=6,
            retries={"mode": "standard", "total_max_attempts": 2},
        )
        self._clients: dict[str, Any] = {}
        # Services that did not answer. Every further question would wait for its time limit too.
        self._silent: dict[str, OperationError] = {}
        self._lock = threading.Lock()
        self._has_credentials: bool | None = None
        self._stack = stack

    def __call__(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Return the answer to `operation`. Raises DeniedError, LoginError, AwsError, or
        OperationError if AWS cannot be asked at all.
        """
        from botocore import exceptions
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        if service in self._silent:
            raise self._silent[service]
        try:
            client = self._client(service)
            if client.can_paginate(operation):
                return client.get_paginator(operation).paginate(**parameters).build_full_result()
            return getattr(client, operation)(**parameters)
        except ClientError as failed:
            raise self._error(failed, service, operation) from failed
        except ResponseParserError as failed:
            raise OperationError(
                f"the answer to {action_of(service, operation)} cannot be read: {one_line(failed)}"
            ) from failed
        except (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.TokenRetrievalError,
            exceptions.ProfileNotFound,
            exceptions.SSOError,
        ) as failed:
            raise LoginError(f"AWS was not asked: {one_line(failed)}", remedy=_LOGIN) from failed
        except BotoCoreError as failed:
            silent = OperationError(
                f"{action_of(service, operation)} got no answer: {one_line(failed)}. Check the"
                " network and the proxy"
            )
            if isinstance(failed, exceptions.HTTPClientError):
                self._silent[service] = silent
            raise silent from failed

    def elsewhere(self, region: str) -> "Credentials":
        """The same credentials in another region."""
        return Credentials(region, self._stack)

    def _client(self, service: str) -> Any:
        from botocore.exceptions import NoCredentialsError

        # Creating a client is not safe for threads; using one is.
        with self._lock:
            if self._has_credentials is None:
                # The session would look for them again each time, the last time at an address that
                # answers on EC2 only.
                self._has_credentials = self._session.get_credentials() is not None
            if not self._has_credentials:
                raise NoCredentialsError
            if service not in self._clients:
                self._clients[service] = self._session.create_client(service, config=self._config)
            return self._clients[service]

    def _error(self, failed: Any, service: str, operation: str) -> OperationError:
        code, action = failed.response["Error"].get("Code", ""), action_of(service, operation)
        if code in _DENIED:
            cause, remedy = _denial(one_line(failed), self._stack)
            return DeniedError(f"AWS denies {action}{cause}", permission=action, remedy=remedy)
        if code in _LOGGED_OUT:
            return LoginError(
                f"AWS does not accept the credentials: {one_line(failed)}", remedy=_LOGIN
            )
        return AwsError(one_line(failed), code)


# AWS says which kind of policy denies a request (IAM user guide, "Troubleshoot access denied error
# messages", read 2026-11).
_GUARDS = {
    "service control policy": "the administrator of the AWS organization changes the service control policy",
    "resource control policy": "the administrator of the AWS organization changes the resource control policy",
    "permissions boundary": "an administrator changes the permissions boundary of your role or user",
    "VPC endpoint policy": "the owner of the VPC endpoint changes its policy",
    "session policy": "log in without the session policy that limits you",
}


def _denial(message: str, stack: str) -> tuple[str, str]:
    """Return the kind of policy that denies a request, and who changes it."""
    for kind, remedy in _GUARDS.items():
        if kind in message or kind.replace("policy", "policies") in message:
            arn = re.search(r"arn:aws:[a-z]+::[^\s,]*policy/[^\s,]+", message)
            return f" by a {kind}{f' ({arn[0]})' if arn else ''}", remedy
    remedy = f"inferplan doctor {stack} --policy > policy.json"
    return "", f"{remedy}  # an administrator attaches it to your role or user"
