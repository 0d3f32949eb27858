"""The engine of a trial in a container of the plan's image, by Docker, Podman or nerdctl.

The container has no network, no capabilities and only the files that it reads. Requests reach it
through a port of the loopback, by a program that the container engine runs in it.
"""

import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from inferplan.documents.files import exclusive, is_locked, state_directory
from inferplan.errors import RequestError
from inferplan.progress import silent
from inferplan.trial import process
from inferplan.trial.mounts import read_only_mounts

ENGINES = ("docker", "podman", "nerdctl")
PAYLOAD = Path(__file__).parent / "engines" / "payload"
MEMORY_GIB = 8
_KEY_VARIABLE = "TRIAL_KEY"
# A container prints this line first. Without it the container engine failed: nerdctl exits with 1,
# as programs do.
_RUNS = "inferplan: the container runs\n"
_ANSWER_SECONDS = 60.0
_POLL_SECONDS = 1.0
_LIMITS = (
    "--network=none",
    "--pull=never",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--pids-limit=4096",
    "--shm-size=1g",
)
# Words of the errors of registries and disks, and what to do.
_REMEDIES = {
    "no space left": "The disk of {engine} is full. Remove images that you do not need with"
    " `{engine} image prune`, and try again",
    "unauthorized": "Log in with `{engine} login {registry}`, and try again",
    "denied": "Log in with `{engine} login {registry}`, and try again",
    "authentication": "Log in with `{engine} login {registry}`, and try again",
    "manifest unknown": "Correct the image in the stack file, or use --container {engine}=IMAGE",
    "name unknown": "Correct the image in the stack file, or use --container {engine}=IMAGE",
    ": not found": "Correct the image in the stack file, or use --container {engine}=IMAGE",
}
_TO_PULL = (
    "Connect this computer to the registry, or load the image with `{engine} load --input FILE`"
)


@dataclass(frozen=True, kw_only=True)
class Container:
    """A place of trials: a container of `image` for each program, by the container `engine`. It sees
    the directories `reads`, whose paths are resolved, and the `accelerators` of this computer by the
    `options` of their vendor.
    """

    engine: str
    image: str
    reads: Sequence[Path]
    accelerators: int = 0
    options: Sequence[str] = ()
    program = ""
    in_image = True

    def prepare(self, progress: Callable[[str], None]) -> None:
        """Remove the containers of trials that were killed, and pull the image if it is not here.
        Raises RequestError.
        """
        if shutil.which(self.engine) is None:
            raise RequestError(
                f"--container: {self.engine} is not a program on this computer. Install it, or"
                " leave --container out and install the model's engine (inferplan docs trial)"
            )
        listed = self._call("ps", "--all", f"--filter=label={_label()}", "--format={{.Names}}")
        if listed.returncode:
            raise RequestError(
                f"--container: {self.engine} does not answer ({_last(listed.stderr)}). Start its"
                " service, and check that you may use it"
            )
        for name in listed.stdout.split():
            if not is_locked(_lock(name)):
                self._remove(name)
        if self._call("image", "inspect", self.image).returncode:
            progress(f"{self.engine} pulls {self.image}")
            pulled = self._call("pull", "--quiet", self.image, seconds=None)
            if pulled.returncode:
                raise self._not_pulled(pulled.stderr)

    def python(self, _: str) -> str:
        """The interpreter that has the engine."""
        return "python3"

    def variables(self, _: Sequence[str]) -> dict[str, str]:
        """The variables that the engine takes from the shell: none, the image has its own."""
        return {}

    def absent(self, engine: str, _: str) -> RequestError:
        """The error for an image that lacks the `engine`."""
        return RequestError(
            f"{self.image} has no {engine} for its python3. Name an image that has it in the"
            f" stack file or with --container {self.engine}=IMAGE"
        )

    @contextmanager
    def started(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        port: int = 0,
        key: str = "",
        text: str | None = None,
    ) -> Iterator[process.Process]:
        """Run `command` on the input `text`, in a container that also writes into `folder`, and
        remove it afterwards. Its `port` is also open on the loopback. Words of the command that
        contain the `key` take it from a variable.
        """
        name = f"inferplan-trial-{secrets.token_hex(6)}"
        secret = {each for each, value in environment.items() if key and key in value}
        script = "".join(
            (
                f"echo {shlex.quote(_RUNS.strip())}; ",
                *(f"export {each}={_quoted(environment[each], key)}; " for each in sorted(secret)),
                f"exec {' '.join(_quoted(word, key) for word in command)}",
            )
        )
        if text is not None:
            with (folder / "input").open("x", encoding="utf-8") as stream:
                stream.write(text)
            script += f" < {shlex.quote(str(folder / 'input'))}"
        public = {each: value for each, value in environment.items() if each not in secret}
        with exclusive(_lock(name), "trial", silent), self._forwarded(name, port):
            try:
                with process.started(
                    self._run(name, script, public, folder),
                    {**os.environ, _KEY_VARIABLE: key},
                    folder,
                    # Each question to a container starts a program.
                    poll_seconds=_POLL_SECONDS if port else process.POLL_SECONDS,
                    check=self._check,
                    hidden=_RUNS,
                ) as engine:
                    try:
                        yield engine
                    finally:
                        self._remove(name)
            finally:
                # The first removal may run before the container exists.
                self._remove(name)

    def finished(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        seconds: float,
        too_late: str,
        *,
        text: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` on the input `text` to its end. Raises RequestError with the message
        `too_late` after `seconds`.
        """
        with (
            tempfile.TemporaryDirectory(prefix="inferplan-trial-") as name,
            self.started(command, environment, Path(name), text=text) as engine,
        ):
            engine.wait(lambda: False, seconds)
            if engine.exit_status is None:
                raise RequestError(too_late)
            log = engine.log
            return subprocess.CompletedProcess(command, engine.exit_status, log, log)

    def _run(
        self, name: str, script: str, environment: Mapping[str, str], folder: Path
    ) -> list[str]:
        memory = f"{MEMORY_GIB}g"
        limits = [] if self.accelerators else [f"--memory={memory}", f"--memory-swap={memory}"]
        # SELinux would deny containers access to the mounted files of this user.
        limits += [] if self.engine == "nerdctl" else ["--security-opt=label=disable"]
        return [
            *(self.engine, "run", f"--name={name}", f"--label={_label()}", *_LIMITS, *limits),
            *(f"--user={self._user()}", *self.options, f"--workdir={folder}"),
            *read_only_mounts((*self.reads, PAYLOAD)),
            f"--mount=type=bind,source={folder},target={folder}",
            # The values of the plan are plain. The client of the container engine does not get
            # them as its own variables, which would configure it (DOCKER_HOST).
            *(f"--env={each}={value}" for each, value in sorted(environment.items())),
            # A name alone takes its value from the client's variables, so no key is shown. This
            # user may be unknown to the image.
            *(f"--env={_KEY_VARIABLE}", f"--env=HOME={folder}", "--env=USER=trial"),
            *("--entrypoint=sh", self.image, "-c", script),
        ]

    def _user(self) -> str:
        """The ids of this user, who is root inside the containers of a rootless engine."""
        form = "{{.Host.Security.Rootless}}" if self.engine == "podman" else "{{.SecurityOptions}}"
        said = self._call("info", f"--format={form}").stdout
        return "0:0" if "rootless" in said or "true" in said else f"{os.getuid()}:{os.getgid()}"

    def _check(self, status: int, printed: str) -> None:
        """Raise RequestError for a container that did not start or was lost, and for the exit codes of
        one whose program did not run, or was killed.
        """
        log = printed.replace(_RUNS, "", 1)
        if log == printed or status == 125:
            test = shlex.join(
                (self.engine, "run", "--rm", "--entrypoint=true", *self.options, self.image)
            )
            advice = f"Correct this, and test it with `{test}`"
            raise self._failed("run a container of", log, advice)
        if status in (126, 127):
            raise RequestError(
                f"--container: {self.image} cannot run the program of the trial ({_last(log)})."
                " Name an image that has the engine in the stack file or with"
                f" --container {self.engine}=IMAGE"
            )
        if status == 137:
            limit = "" if self.accelerators else f" Its limit is {MEMORY_GIB} GiB of memory."
            raise RequestError(
                f"--container: the container of {self.image} was killed (exit code 137).{limit}"
                " Free memory on this computer, and try again"
            )

    def _not_pulled(self, said: str) -> RequestError:
        remedies = (text for words, text in _REMEDIES.items() if words in said.lower())
        first = self.image.partition("/")[0]
        registry = first if "." in first or ":" in first else "docker.io"
        advice = next(remedies, _TO_PULL).format(engine=self.engine, registry=registry)
        return self._failed("pull", said, advice)

    def _failed(self, verb: str, said: str, advice: str) -> RequestError:
        return RequestError(
            f"--container: {self.engine} cannot {verb} {self.image} ({_last(said)}). {advice}"
        )

    @contextmanager
    def _forwarded(self, name: str, port: int) -> Iterator[None]:
        """Forward each connection to loopback `port` to the same port in the container."""
        if not port:
            yield
            return
        inside = [
            *(self.engine, "exec", "--interactive", name),
            *("python3", str(PAYLOAD / "connect.py"), str(port)),
        ]

        class Connection(BaseRequestHandler):
            def handle(self) -> None:
                subprocess.run(
                    inside,
                    stdin=self.request,
                    stdout=self.request,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )

        with ThreadingTCPServer(("127.0.0.1", port), Connection) as server:
            server.daemon_threads = True
            thread = Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()

    def _remove(self, name: str) -> None:
        self._call("rm", "--force", "--volumes", name)
        _lock(name).unlink(missing_ok=True)

    def _call(
        self, *words: str, seconds: float | None = _ANSWER_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        command = [self.engine, *words]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"no answer in {seconds:.0f} s")


def _quoted(word: str, key: str) -> str:
    """The `word` for a shell, which takes the `key` from its variable."""
    if not key or key not in word:
        return shlex.quote(word)
    parts = (shlex.quote(part) if part else "" for part in word.split(key))
    return f'"${_KEY_VARIABLE}"'.join(parts)


def _label() -> str:
    """The label of the containers of this user and computer."""
    return f"inferplan.trial={socket.gethostname()}:{state_directory()}"


def _lock(name: str) -> Path:
    """The file that a trial locks as long as it needs the container `name`."""
    return state_directory() / "trials" / name


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
