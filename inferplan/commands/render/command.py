"""`inferplan render STACK --to DIR`: plain manifests and a kustomization for Argo CD or Flux,
without any secret's value.
"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from inferplan.commands.arguments import Stack, json_option
from inferplan.commands.render.manifests import Manifests, manifests_of
from inferplan.commands.render.write import write_manifests
from inferplan.commands.screen import note, say, show_json
from inferplan.commands.violations import check_policies
from inferplan.errors import RequestError
from inferplan.planning.notes import program_notes
from inferplan.planning.required_secrets import required_secrets
from inferplan.workspace.project import short_path
from inferplan.workspace.workspace import Workspace, open_workspace


def command(
    stack: Stack,
    to: Annotated[
        Path,
        typer.Option(
            "--to", metavar="DIR", help="The folder for the manifests; it holds nothing else."
        ),
    ],
    secret_store: Annotated[
        str | None, typer.Option(help="Write ExternalSecrets that read this ClusterSecretStore.")
    ] = None,
    as_json: Annotated[
        bool,
        json_option(
            "Print folder, files, changed, the secrets that must exist (namespace, name, keys) and"
            " what is not rendered as JSON."
        ),
    ] = False,
) -> None:
    """Write the objects of STACK as manifests in the order of their dependencies. The policy pack
    judges them first; secrets are references.
    """
    workspace = open_workspace(stack)
    if workspace.secrets.placeholders:
        reason = f"pods carry a digest of their keys, and {workspace.secrets.reason}"
        raise RequestError(
            f"{workspace.stack} cannot be rendered with placeholders for its secrets: {reason}. Set"
            " PULUMI_CONFIG_PASSPHRASE"
        )
    recording = workspace.record()
    check_policies(workspace, recording)
    namespace = workspace.settings.namespace
    manifests = manifests_of(recording, namespace, secret_store=secret_store)
    changed = write_manifests(manifests, to)
    note(program_notes(recording))
    note(map(str, required_secrets(recording, namespace)))
    if as_json:
        missing = manifests.secrets if secret_store is None else ()
        show_json(
            {
                "folder": str(to),
                "files": list(manifests.files),
                "changed": list(changed),
                "secrets": [
                    {"namespace": each.namespace, "name": each.name, "keys": list(each.keys)}
                    for each in missing
                ],
                "notRendered": list(manifests.others),
            }
        )
        return
    print(f"{short_path(to)}: {len(manifests.files)} files, {len(changed)} changed")
    _print_secrets(manifests, workspace, secret_store)
    if manifests.others:
        say(f"not rendered, deploy them with Pulumi: {', '.join(manifests.others)}")


def _print_secrets(manifests: Manifests, workspace: Workspace, secret_store: str | None) -> None:
    if manifests.secrets and secret_store is None:
        print("these Secrets of the stack must exist in the cluster:")
        print(
            "\n".join(
                f"  {each.namespace}/{each.name}: {', '.join(each.keys)}"
                for each in manifests.secrets
            )
        )
        namespace = workspace.settings.namespace
        targets = (
            f"**namespace:{namespace}::{namespace}",
            "**v1:Namespace::**",
            "**gateway:ApiKeys**",
        )
        print(
            f"create them: inferplan up {workspace.typed}"
            f" {' '.join(f'--target {shlex.quote(each)}' for each in targets)}"
        )
    elif manifests.secrets:
        print(
            f"{len(manifests.secrets)} Secrets are ExternalSecrets of the ClusterSecretStore"
            f" {secret_store}"
        )
