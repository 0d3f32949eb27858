"""Serves the program of a stack to the Pulumi CLI from this process, which has imported it and run
it once.

Pulumi's own language host starts Python again, which takes 1 s of processor time, a third of an
update without changes. It also installs missing providers and enters the project's virtual
environment, so it is left out only where neither matters: on a simulated cluster, with the provider
installed, in an `inferplan` of that environment.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from inferplan.workspace.project import runs_in_own_environment
from inferplan.workspace.workspace import Workspace

_PROVIDER = "kubernetes"
# One runs the program; the others answer questions about the host meanwhile.
_THREADS = 4


@contextmanager
def serve_program(workspace: Workspace, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Serve the program until the block ends; yields the arguments of `pulumi` that name the
    server, [] if Pulumi's language host has to run the program.
    """
    own = workspace.simulated and runs_in_own_environment(workspace.root)
    if not own or not _is_installed(environment):
        yield []
        return
    import grpc
    from pulumi.automation._server import LanguageServer
    from pulumi.runtime.proto import language_pb2_grpc

    server = grpc.server(ThreadPoolExecutor(_THREADS))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(
        LanguageServer(workspace.program), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield [f"--client=127.0.0.1:{port}"]
    finally:
        server.stop(None)


def _is_installed(environment: Mapping[str, str]) -> bool:
    """True if the CLI has the provider that the SDK asks for, or prefers one on PATH."""
    if shutil.which(f"pulumi-resource-{_PROVIDER}", path=environment.get("PATH", os.defpath)):
        return True
    home = Path(environment.get("PULUMI_HOME") or Path("~/.pulumi").expanduser())
    plugin = f"resource-{_PROVIDER}-v{version(f'pulumi-{_PROVIDER}')}"
    return (home / "plugins" / plugin / f"pulumi-resource-{_PROVIDER}").exists()
