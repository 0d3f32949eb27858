"""The check whether the caller may take the actions of a stack, by the simulation of IAM."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from inferplan.commands.doctor.aws.account import ExaminedAccount
from inferplan.commands.doctor.aws.permissions import (
    Statement,
    actions_of,
    scope_of,
    statements_for,
    types_of,
)
from inferplan.commands.doctor.aws.principals import full_principal
from inferplan.commands.doctor.findings import Finding, error, ok
from inferplan.components.platforms.aws.principals import is_reserved

# What IAM takes in one request.
_BATCH = 100


def check_permissions(account: ExaminedAccount) -> Iterator[Finding]:
    """Simulate every action of the stack for the caller."""
    caller = account.caller["Arn"]
    actions = actions_of(types_of(account.recording))
    if caller.endswith(":root"):
        yield ok(f"{caller} has every permission. Use a role with fewer")
        return
    source = full_principal(account)
    scope = scope_of(account.recording, account.cluster)
    denied: dict[str, str] = {}
    for each in statements_for(actions, scope):
        denied |= {
            name: denied.get(name) or guard for name, guard in _denied(account, source, each)
        }
    by_guard = defaultdict(list)
    for action, guard in sorted(denied.items()):
        by_guard[guard].append(action)
    for guard, names in sorted(by_guard.items()):
        listed = ", ".join(names)
        if guard:
            yield error(f"{source} may not {listed}: {guard}", _GUARDS[guard.split()[0]])
        else:
            yield error(f"{source} may not {listed}", _grant(account, source))
    if not denied:
        yield ok(f"{source} may take all {len(actions)} actions of the stack")


# No policy of the caller helps against these, by the first word of the reason.
_GUARDS = {
    "organization": "ask the administrator of the AWS organization to allow these actions in a service"
    " control policy",
    "boundary": "ask an administrator to allow these actions in the permissions boundary; one of the"
    " caller's own policies cannot",
    "denied": "ask an administrator to spare these actions from the statement that denies them; a policy"
    " that allows them cannot",
}


def _grant(account: ExaminedAccount, source: str) -> str:
    """Return the commands that give `source` the stack's policy under a name of its own. AWS rejects
    attaching one to a role of IAM Identity Center, whose permission set others may have too: a new
    permission set leaves theirs as it is.
    """
    kind, name = "user" if ":user/" in source else "role", source.rpartition("/")[2]
    policy = f"inferplan doctor {account.stack} --policy > policy.json"
    own = f"inferplan-{account.cluster.name}"[:64]
    if is_reserved(source):
        number = account.caller["Account"]
        login = account.caller["Arn"].rpartition("/")[2]
        return (
            f"{policy} && instance=$(aws sso-admin list-instances --query"
            " Instances[0].InstanceArn --output text) && store=$(aws sso-admin list-instances"
            " --query Instances[0].IdentityStoreId --output text) && set=$(aws sso-admin"
            f" create-permission-set --instance-arn $instance --name {own[:32]} --query"
            " PermissionSet.PermissionSetArn --output text) && aws sso-admin"
            " put-inline-policy-to-permission-set --instance-arn $instance --permission-set-arn"
            " $set --inline-policy file://policy.json && user=$(aws identitystore list-users"
            f" --identity-store-id $store --filters AttributePath=UserName,AttributeValue={login}"
            " --query Users[0].UserId --output text) && aws sso-admin create-account-assignment"
            f" --instance-arn $instance --permission-set-arn $set --target-id {number}"
            " --target-type AWS_ACCOUNT --principal-type USER --principal-id $user  # by an"
            f" administrator of IAM Identity Center; then log in to account {number} as {own[:32]}"
        )
    if kind == "user":
        # The inline policies of a user have 2,048 characters, a managed policy 6,144.
        return (
            f"{policy} && role=$(aws iam create-role --role-name {own} --assume-role-policy-document"
            f" '{_trust(source)}' --query Role.Arn --output text) && aws iam put-role-policy"
            f" --role-name {own} --policy-name {own} --policy-document file://policy.json  # then"
            f" assume $role: {source} keeps its policies"
        )
    return (
        f"{policy} && aws iam put-role-policy --role-name {name} --policy-name {own}"
        " --policy-document file://policy.json"
    )


def _trust(user: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"AWS": user}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _denied(
    account: ExaminedAccount, source: str, statement: Statement
) -> Iterator[tuple[str, str]]:
    """Yield the actions of `statement` that `source` may not take on all of its resources, by the
    simulation of IAM, each with what denies it besides the caller's own policies ("" for nothing).
    """
    # Without values the simulation denies what a policy allows on a condition.
    wanted = {
        key: value
        for operator, keys in statement.condition.items()
        if operator != "Null"
        for key, value in keys.items()
    }
    values = {"aws:RequestedRegion": account.region, **wanted}
    context = [
        {
            "ContextKeyName": key,
            "ContextKeyType": "string",
            "ContextKeyValues": [(value if isinstance(value, str) else value[0]).replace("*", "1")],
        }
        for key, value in values.items()
    ]
    # Without resources it denies what a policy allows on some; it takes no wildcards.
    arns = [
        each.replace(":*:", f":{account.caller['Account']}:").replace("?", "0").replace("*", "1")
        for each in statement.resources
    ]
    resources = {} if statement.resources == ["*"] else {"ResourceArns": arns}
    for start in range(0, len(statement.actions), _BATCH):
        some = statement.actions[start : start + _BATCH]
        answer = account.ask(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=source,
            ActionNames=some,
            ContextEntries=context,
            **resources,
        )
        for each in answer["EvaluationResults"]:
            decisions = {
                each["EvalDecision"],
                *(one["EvalResourceDecision"] for one in each.get("ResourceSpecificResults", ())),
            }
            if decisions != {"allowed"}:
                yield each["EvalActionName"], _guard(account, source, each, decisions)


def _guard(
    account: ExaminedAccount, source: str, result: Mapping[str, Any], decisions: set[str]
) -> str:
    """Return what denies an action although a policy of the caller may allow it."""
    rows = [result, *result.get("ResourceSpecificResults", ())]
    if not result.get("OrganizationsDecisionDetail", {}).get("AllowedByOrganizations", True):
        return "organization policies (service control policies) do not allow it"
    if any(
        not row.get("PermissionsBoundaryDecisionDetail", {}).get(
            "AllowedByPermissionsBoundary", True
        )
        for row in rows
    ):
        kind, name = "user" if ":user/" in source else "role", source.rpartition("/")[2]
        asked = {f"{kind.capitalize()}Name": name}
        live = (account.world.find("iam", f"get_{kind}", **asked) or {}).get(kind.capitalize(), {})
        arn = live.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn", "of the caller")
        return f"boundary {arn} does not allow it"
    if "explicitDeny" in decisions:
        ids = {one["SourcePolicyId"] for row in rows for one in row.get("MatchedStatements", ())}
        return f"denied by a statement of {', '.join(sorted(ids)) or 'a policy'}"
    return ""
