"""ARNs of IAM roles and users. EKS compares the whole ARN of an access entry, with the path of the
role (terraform-aws-eks#2969).
"""

RESERVED_PATH = "/aws-reserved/sso.amazonaws.com/"
_RESERVED_NAME = "AWSReservedSSO_"


def principal_of(session_arn: str) -> str:
    """Return the user, or the role of a session without its path, which the ARN of a session does
    not contain.
    """
    account, _, resource = session_arn.split(":", 4)[4].partition(":")
    kind, _, rest = resource.partition("/")
    return (
        f"arn:aws:iam::{account}:role/{rest.partition('/')[0]}"
        if kind == "assumed-role"
        else session_arn
    )


def without_path(arn: str) -> str:
    head, _, rest = arn.partition("/")
    return f"{head}/{rest.rpartition('/')[2]}" if rest else head


def is_reserved(arn: str) -> bool:
    """True for a role that IAM Identity Center manages. No policy can be attached to it."""
    return arn.partition("/")[2].rpartition("/")[2].startswith(_RESERVED_NAME)


def admin_arn(arn: str) -> str:
    """Return `arn`. Raises ValueError for a role of IAM Identity Center without the path that all
    of them have.
    """
    if is_reserved(arn) and RESERVED_PATH not in arn:
        name = arn.rpartition("/")[2]
        raise ValueError(
            f"{arn!r} lacks the path of a role of IAM Identity Center. Such roles are"
            f" role{RESERVED_PATH}<region>/{name}, without a region for us-east-1. The full ARN:"
            f" aws iam get-role --role-name {name} --query Role.Arn --output text"
        )
    return arn
