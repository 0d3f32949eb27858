"""The API keys of a consumer, derived from the stack's seed. It prints and writes none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.workspace import Workspace


def newest_key(workspace: Workspace, consumer: str) -> str:
    """The derived key of the highest valid version of `consumer`. Raises CommandError where there is none, or the seed stays sealed."""
    from components.gateway.keys import consumer_key
    from operations.errors import CommandError

    spec = workspace.settings.consumers[consumer]
    derived = [version for version in spec.keys if version not in spec.imported_keys]
    if not derived:
        raise CommandError(f"every key of {consumer} is imported, so none can be derived from the seed. Set $INFERPLAN_API_KEY to the key.")
    return consumer_key(seed_of(workspace, consumer), consumer, max(derived))


def seed_of(workspace: Workspace, consumer: str) -> str:
    """The seed of the stack's keys. Raises CommandError if it cannot be opened, or is not fit for the keys of `consumer`."""
    from components.gateway.keys import seed_error
    from components.gateway.names import SECRET_KEY, consumer_secret
    from operations.errors import CommandError
    from stackfile.reader import PROJECT

    secrets = workspace.open_secrets()
    if secrets.stand_in:
        path = f"'{{.data.{SECRET_KEY}}}'"
        namespace = workspace.settings.namespace
        remedy = (
            "set PULUMI_CONFIG_PASSPHRASE (or PULUMI_CONFIG_PASSPHRASE_FILE) to the stack's passphrase and run the same again"
            if workspace.file.secrets_provider in (None, "", "passphrase") and workspace.file.encryption_salt
            else f"the newest key is in the cluster: kubectl -n {namespace} get secret {consumer_secret(consumer)} -o jsonpath={path} | base64 -d"
        )
        raise CommandError(f"the keys of {consumer} cannot be derived: {secrets.reason}; {remedy}")
    seed = secrets.values[f"{PROJECT}:apiKeySeed"]
    if error := seed_error(seed):
        raise CommandError(f"apiKeySeed {error}")
    return seed
