"""The gateway of a stack before the server of a trial: nginx on loopback with the configuration of
the plan, and keys of this trial alone.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferplan.client.local_gateway import nginx
from inferplan.client.local_gateway.gateway import endpoints_on
from inferplan.components.gateway import keys
from inferplan.errors import RehearsalError
from inferplan.rehearsal.cluster.startup import free_ports
from inferplan.rehearsal.serving.programs import folder_of
from inferplan.stackfile.stack import StackSettings
from inferplan.trial.process import started
from inferplan.trial.subject import TrialGateway

_START_SECONDS = 60.0


def gateway_before(settings: StackSettings, model: str) -> TrialGateway:
    """The gateway before the server of `model`."""
    seed = secrets.token_urlsafe(32)
    consumer = next(iter(settings.models[model].consumers), None)
    problem = "the stack has no gateway" if settings.gateway is None else nginx.problem(settings)
    if not problem and consumer is None:
        problem = f"no consumer may call {model}"

    @contextmanager
    def opened(port: int) -> Iterator[tuple[str, str]]:
        # Keys that clients hold are not known here, and none of them is needed.
        consumers = {
            name: each.model_copy(update={"imported_keys": {}, "expires": {}})
            for name, each in settings.consumers.items()
        }
        own = settings.model_copy(update={"consumers": consumers})
        endpoints = endpoints_on(settings, port)
        ports = free_ports(tuple(nginx.PORTS))
        with tempfile.TemporaryDirectory(prefix="inferplan-trial-") as name:
            # The workers of root run as another user.
            folder = folder_of(Path(name))
            folder.mkdir()
            program = nginx.program(own, endpoints, [seed], {}, ports, folder)
            for file, content in program.files.items():
                (folder / file).write_bytes(content)
            program.prepare()
            with started(program.command, {}, Path(name)) as process:
                if not process.wait(program.ready, _START_SECONDS):
                    raise RehearsalError(
                        "nginx does not answer with the configuration of the gateway",
                        "report it with the lines below",
                        log_tail=tuple(process.log.strip().splitlines()[-4:]),
                    )
                version = max(settings.consumers[str(consumer)].keys)
                prefix = nginx.path_prefix(settings.gateway) if settings.gateway else ""
                yield (
                    f"http://127.0.0.1:{ports[nginx.HTTP]}{prefix}/{model}",
                    keys.consumer_key(seed, str(consumer), version),
                )

    return TrialGateway(problem=problem, server_key=keys.server_key(seed, model), opened=opened)
