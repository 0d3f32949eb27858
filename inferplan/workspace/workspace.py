"""One stack that an operation works on: its validated file, its opened secrets, its program."""

from __future__ import annotations

import os
import runpy
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferplan.components.platforms.spec import ExistingCluster
from inferplan.kube.names import PRETEND, cluster_of
from inferplan.progress import Progress
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.secrets import (
    EXAMPLE_PASSPHRASE,
    OpenedSecrets,
    SecretsError,
    open_secrets,
    prepare_key,
    with_placeholder,
)
from inferplan.stackfile.encrypted import position_of
from inferplan.stackfile.imported_keys import with_secrets
from inferplan.stackfile.reader import PROJECT, SEED_KEY, StackFile, read_stack
from inferplan.stackfile.settings import validate
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.project import (
    SELECTION,
    program_folder,
    project_name,
    project_root,
    short_path,
    stack_file,
    stack_files,
    stack_name,
)
from inferplan.workspace.simulated_nodes import simulated_objects

if TYPE_CHECKING:
    from inferplan.rehearsal.apply.run import Outcome
    from inferplan.rehearsal.cluster import Cluster
    from inferplan.rehearsal.wait.object_events import Listener


@dataclass(frozen=True)
class Workspace:
    """A stack that passed every check. `root` is the project's folder."""

    root: Path
    stack: str
    file: StackFile
    settings: StackSettings

    @property
    def typed(self) -> str:
        """The arguments that name this stack on a command line: its name, or the path of a file
        outside the project's stacks; --project if it was given.
        """
        name = (
            self.stack
            if stack_files(self.root).get(self.stack) == self.file.path
            else self.file.shown_path
        )
        return (
            name
            if SELECTION.folder is None
            else f"{name} --project {shlex.quote(short_path(SELECTION.folder))}"
        )

    @property
    def rehearsal_arguments(self) -> str:
        """The stack and options for `up` and `down` on its simulated cluster, whatever engine
        `auto` means.
        """
        return self.typed if self.simulated else f"{self.typed} --engine rehearsal"

    @property
    def cluster(self) -> str:
        """The name of the stack's simulated cluster."""
        return cluster_of(project_name(self.root), self.stack)

    @property
    def simulated(self) -> bool:
        return self.settings.cluster.is_simulated

    @property
    def context(self) -> str | None:
        cluster = self.settings.cluster
        return cluster.context if isinstance(cluster, ExistingCluster) else None

    @cached_property
    def secrets(self) -> OpenedSecrets:
        """The stack's secrets in plain text, or placeholders. Raises SecretsError if the passphrase
        is wrong.
        """
        try:
            opened = open_secrets(
                self.file.secrets,
                salt=self.file.encryption_salt,
                provider=self.file.secrets_provider,
            )
            source = self.file.seed_source
            return (
                opened
                if source is None
                else with_placeholder(opened, f"{PROJECT}:{SEED_KEY}", source)
            )
        except SecretsError as error:
            text = (
                self.file.encryption_salt
                if error.of_salt
                else self.file.secrets.get(error.key or "")
            )
            position = position_of(self.file.root, text) if text else None
            place = (
                self.file.shown_path
                if position is None
                else f"{self.file.shown_path}:{position.line}:{position.column}"
            )
            raise SecretsError(f"{place}: {error.message}", error.remedy) from None

    def engine_input(self) -> dict[str, Any]:
        config, secret_keys = with_secrets(self.file.config, self.secrets.values)
        return {
            "project": project_name(self.root),
            "stack": self.stack,
            "config": config,
            "secret_keys": secret_keys,
            "root": self.root,
        }

    def record(self) -> Recording:
        """Run the program once, without a cluster, and return what it registers. Raises
        ProgramFailed with the program's message.
        """
        return self._recording

    @cached_property
    def _recording(self) -> Recording:
        from inferplan.pulumi_engine.program.record import record

        return record(self.program, **self.engine_input())

    def apply(
        self,
        cluster: Cluster,
        *,
        listener: Listener,
        step: Progress,
        karpenter: bool = False,
        kept: Collection[str] = (),
        cordons: Callable[[Mapping[str, Any]], bool] = lambda _node: False,
    ) -> Outcome:
        """Apply the stack to its simulated cluster and wait until it is ready; with `karpenter`, it
        adds the nodes of EKS Auto Mode. Namespaces that are `kept` stay. `cordons` as in
        `rehearsal.apply.run.apply`.
        """
        from inferplan.rehearsal.apply.run import apply
        from inferplan.rehearsal.cluster.definitions import installer
        from inferplan.workspace.buying import bought_pools, buying

        pools = bought_pools(self.settings) if karpenter else {}
        with buying(self.settings, cluster, step) if pools else nullcontext():
            program = partial(self.rehearsed, bought=pools.keys())
            settings = {
                "listener": listener,
                "ensure_crds": installer(cluster, step),
                "placeholders": self.secrets.placeholders,
                "kept": kept,
                "cordons": cordons,
            }
            return apply(program, cluster, **self.engine_input(), **settings)

    def program(self) -> None:
        """Run the unchanged program, the folder that Pulumi.yaml names as `main`."""
        runpy.run_path(str(program_folder(self.root)), run_name="__main__")

    def rehearsed(self, *, bought: Collection[str] = ()) -> None:
        """Run the program, with fake nodes where the stack's own nodes are on another cluster;
        those of the pools `bought` come later.
        """
        import pulumi

        from inferplan.infra.program import REHEARSAL

        for manifest in simulated_objects(self.settings, bought=bought):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            version = (
                manifest["apiVersion"]
                if "/" in manifest["apiVersion"]
                else f"core/{manifest['apiVersion']}"
            )
            pulumi.CustomResource(f"kubernetes:{version}:{kind}", f"{PRETEND}{name}", manifest)
        REHEARSAL.set(True)  # in the context of this run alone
        self.program()


def open_workspace(stack: str, *, reads_secrets: bool = False) -> Workspace:
    """The workspace of `stack`, a name or a file; one that `reads_secrets` derives their key while
    the file is checked. Raises RequestError for an unknown stack, InvalidStack for a file with
    errors.
    """
    root = project_root()
    path = stack_file(root, stack).absolute()
    file = read_stack(path, shown_path=short_path(path))
    if reads_secrets and file.secrets:
        prepare_key(file.encryption_salt, file.secrets_provider)
    return Workspace(root=root, stack=stack_name(path), file=file, settings=validate(file))


def export_of_make() -> str:
    """The command that sets the passphrase of the examples, which the Makefile exports to its own
    commands only; "" without make.
    """
    return (
        f"export PULUMI_CONFIG_PASSPHRASE={EXAMPLE_PASSPHRASE}"
        if os.environ.get("INFERPLAN_DEFAULT_PASSPHRASE")
        else ""
    )
