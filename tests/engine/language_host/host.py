"""A Python language host for the Pulumi CLI, for machines whose registries do not have Pulumi's own.

It serves LanguageRuntime by the messages in Pulumi's Python package: programs, policy packs and component packages run in the virtual
environment that their project names. It never installs anything. The engine starts it with its own address as the last argument, reads
the port from the first line, and ends it with SIGINT.
"""

# ruff: noqa: N802, ARG002 - methods are called as the protocol calls them, with all that it has
from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent import futures
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict

PROGRAM = Path(os.environ.get("PULUMI_LANGUAGE_PYTHON_EXEC") or Path(sys.argv[0]).with_name("pulumi-language-python-exec"))
# The program has shown its own message (pulumi-language-python-exec, read 2026-11).
_SHOWN = 32
_ENGINE_SECONDS = 5


def _messages(*names: str) -> list[Any]:
    """Generated modules of Pulumi's protocol, without the 0.3 s that importing the whole package takes."""
    spec = find_spec("pulumi")
    assert spec is not None
    assert spec.submodule_search_locations
    place = Path(spec.submodule_search_locations[0])
    for name, path in (("pulumi", place), ("pulumi.runtime", place / "runtime"), ("pulumi.runtime.proto", place / "runtime" / "proto")):
        sys.modules[name] = package = ModuleType(name)
        package.__path__ = [str(path)]
    return [importlib.import_module(f"pulumi.runtime.proto.{name}") for name in names]


language_pb2, language_pb2_grpc, plugin_pb2 = _messages("language_pb2", "language_pb2_grpc", "plugin_pb2")


class Environment:
    """The Python of a project: the virtual environment of its options, or the one on PATH."""

    def __init__(self, info: Any) -> None:
        name = MessageToDict(info.options).get("virtualenv")
        # Without resolving links first, as Pulumi's own host joins paths.
        self.folder = Path(os.path.normpath(Path(info.root_directory, name))) if name else None

    @property
    def python(self) -> str:
        if self.folder is not None:
            return str(self.folder / "bin" / "python")
        return os.environ.get("PULUMI_PYTHON_CMD") or shutil.which("python3") or sys.executable

    def problem(self) -> str:
        """Why no program can run in it, or ""."""
        if Path(self.python).is_file():
            return ""
        return f"The virtual environment {self.folder} does not exist. Create it with the packages of the project"

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` as after the activation of the virtual environment."""
        values = {name: value for name, value in base.items() if name != "PYTHONHOME"}
        if self.folder is None:
            return values
        return {**values, "VIRTUAL_ENV": str(self.folder), "PATH": f"{self.folder / 'bin'}{os.pathsep}{values.get('PATH', '')}"}


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Runs programs and plugins. All processes that it started end with it."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._children: set[subprocess.Popen[bytes]] = set()

    def Handshake(self, request: Any, context: Any) -> Any:
        self._engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="0.0.1")

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        if problem := Environment(request.info).problem():
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, problem)
        return iter(())

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def About(self, request: Any, context: Any) -> Any:
        return language_pb2.AboutResponse(executable=Environment(request.info).python, version=platform.python_version())

    def Run(self, request: Any, context: Any) -> Any:
        environment = Environment(request.info)
        if problem := environment.problem():
            return language_pb2.RunResponse(error=problem)
        configuration = {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        child = self._started(
            [environment.python, "-u", str(PROGRAM), *self._arguments(request)],
            cwd=request.pwd,
            env=environment.variables({**os.environ, **configuration}),
        )
        context.add_callback(lambda: _end(child))
        code = self._ended(child)
        if code == _SHOWN:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error="" if code == 0 else f"Program exited with non-zero exit code: {code}")

    def _arguments(self, request: Any) -> list[str]:
        options = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": str(request.dryRun).lower(),
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        flags = [part for name, value in options.items() if value for part in (f"--{name}", value)]
        return [*flags, request.info.entry_point, *request.args]

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        environment = Environment(request.info)
        if problem := environment.problem():
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, problem)
        # A policy pack is imported by the SDK, which wants the engine's address first; any other plugin is a program.
        program = request.info.program_directory
        command = ["-m", "pulumi.policy", *request.args, program] if request.kind == "analyzer" else [program, *request.args]
        base = {name: value for name, _, value in (each.partition("=") for each in request.env)}
        child = self._started(
            [environment.python, "-u", *command],
            cwd=request.pwd,
            env=environment.variables(base),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(lambda: _end(child))
        yield from self._outputs(child)

    def _outputs(self, child: subprocess.Popen[bytes]) -> Iterator[Any]:
        """What `child` writes, as it comes, and its exit code."""
        with futures.ThreadPoolExecutor(1) as other:
            assert child.stdout is not None
            assert child.stderr is not None
            errors = other.submit(lambda stream: b"".join(iter(lambda: stream.read1(65536), b"")), child.stderr)
            for block in iter(lambda: child.stdout.read1(65536), b""):  # type: ignore[union-attr] - asserted above
                yield language_pb2.RunPluginResponse(stdout=block)
            if text := errors.result():
                yield language_pb2.RunPluginResponse(stderr=text)
        yield language_pb2.RunPluginResponse(exitcode=self._ended(child))

    def _started(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        child: subprocess.Popen[bytes] = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        self._children.add(child)
        return child

    def _ended(self, child: subprocess.Popen[bytes]) -> int:
        code = child.wait()
        self._children.discard(child)
        return code

    def end(self) -> None:
        for child in list(self._children):
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()


def _await_end(ended: threading.Event) -> None:
    """Wait for SIGINT or SIGTERM, or for the end of the engine's process, which a kill leaves without a word."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    parent = os.getppid()
    while not ended.wait(_ENGINE_SECONDS):
        if os.getppid() != parent:
            return


def main() -> None:
    host = LanguageHost(sys.argv[-1])
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=[("grpc.max_receive_message_length", -1)])
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    _await_end(threading.Event())
    host.end()
    server.stop(grace=None).wait()


if __name__ == "__main__":
    main()
