"""One stack as the commands work on it: its file read and judged, its secrets opened, its program ready to run."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operations.project import project_root, short_path, stack_file, stack_files, stack_name
from stackfile.encryption import position_of
from stackfile.imported_keys import with_secrets
from stackfile.reader import PROJECT, StackFile, read_stack

if TYPE_CHECKING:
    from rehearsal.secrets import OpenedSecrets
    from stackfile.stack import StackSettings


@dataclass(frozen=True)
class Workspace:
    """A stack that passed every check. `root` is the project's folder, which is also the current one from here on."""

    root: Path
    stack: str
    file: StackFile
    settings: StackSettings

    @property
    def typed(self) -> str:
        """What a person types for this stack: its name, or the path of its file where that lies elsewhere."""
        return self.stack if stack_files(self.root).get(self.stack) == self.file.path else self.file.shown_path

    @property
    def simulated(self) -> bool:
        """Whether the stack itself asks for the simulated cluster."""
        return self.settings.cluster.is_simulated

    @property
    def program(self) -> Path:
        """The unchanged program, the folder that Pulumi.yaml names as `main`."""
        return self.root / "infra"

    def open_secrets(self) -> OpenedSecrets:
        """The stack's secrets in clear, or stand-ins. Raises SecretsError when the passphrase is wrong."""
        from rehearsal.secrets import SecretsError, open_secrets

        try:
            return open_secrets(self.file.secrets, salt=self.file.encryption_salt, provider=self.file.secrets_provider)
        except SecretsError as error:
            text = self.file.encryption_salt if error.of_salt else self.file.secrets.get(error.key or "")
            where = position_of(self.file.root, text) if text else None
            place = self.file.shown_path if where is None else f"{self.file.shown_path}:{where.line}:{where.column}"
            raise SecretsError(f"{place}: {error.message}", error.remedy) from None

    def engine_input(self, secrets: OpenedSecrets) -> dict[str, Any]:
        """Project, stack and configuration, as the stand-in engine takes them."""
        config, secret_keys = with_secrets(self.file.config, secrets.values, placeholders=secrets.stand_in)
        return {"project": PROJECT, "stack": self.stack, "config": config, "secret_keys": secret_keys}

    def rehearsed(self) -> Callable[[], object]:
        """The program, with pretend nodes beside it where the stack's own nodes are elsewhere."""

        def program() -> None:
            self._pretend()
            runpy.run_path(str(self.program), init_globals={"REHEARSAL": True}, run_name="__main__")

        return program

    def _pretend(self) -> None:
        import pulumi

        for manifest in self.pretended():
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            version = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"core/{manifest['apiVersion']}"
            pulumi.CustomResource(f"kubernetes:{version}:{kind}", f"pretend-{name}", manifest)

    def pretended(self) -> list[dict[str, Any]]:
        """Manifests of the nodes and runtime classes that the rehearsal adds to what the stack declares."""
        from operations.simulated_nodes import pretended

        return pretended(self.settings)


def open_workspace(stack: str) -> Workspace:
    """The workspace of `stack`; the current folder becomes the project's, as it is under the Pulumi CLI.

    Raises CommandError for an unknown stack, InvalidStack for a stack with faults.
    """
    from stackfile.settings import validate

    root = project_root()
    path = stack_file(root, stack).absolute()
    file = read_stack(path, shown_path=short_path(path))
    settings = validate(file)
    _enter(root)
    return Workspace(root=root, stack=stack_name(path), file=file, settings=settings)


# What a person may name relative to the folder they are in.
_PATHS = ("INFERPLAN_CACHE_DIR", "INFERPLAN_KUBECONFIG", "INFERPLAN_STATE_DIR", "PULUMI_CONFIG_PASSPHRASE_FILE")


def _enter(root: Path) -> None:
    """Makes `root` the current folder, with every path in the environment still meaning what it meant."""
    os.environ.update({name: str(Path(value).absolute()) for name in _PATHS if (value := os.environ.get(name))})
    os.chdir(root)
