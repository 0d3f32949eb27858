"""Runs a Serve configuration on a Ray of its own until its standard input ends: `python
ray_server.py CONFIG PORT PORT PORT PORT`, CONFIG as YAML text.
"""

import inspect
import sys

import ray
import yaml
from ray import serve
from ray._private import services
from ray._raylet import persist_port
from ray.serve._private import api, client
from ray.serve.config import HTTPOptions
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

AGENTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)
# Serve gives up on its own proxy after a minute, which a busy machine may take to import it.
api.HTTP_PROXY_TIMEOUT = client.HTTP_PROXY_TIMEOUT = 600


def with_ports(ports):
    """Has Ray's node know where its agents listen before they start: it ends when they have not
    said so after 15 s, which nothing changes.
    """
    start, given = services.start_raylet, dict(zip(AGENTS, map(int, ports), strict=True))

    def started(*arguments, **named):
        node = inspect.signature(start).bind_partial(*arguments, **named).arguments
        for name, port in given.items():
            persist_port(node["session_dir"], node["node_id"], name, port)
        return start(*arguments, **{**named, **given})

    services.start_raylet = started


def main(text, *ports):
    """Deploys the configuration as the dashboard does for KubeRay, says READY once every
    application runs, and ends with its input.
    """
    config = ServeDeploySchema.model_validate(yaml.safe_load(text))
    with_ports(ports)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(
            http_options=HTTPOptions(host=config.http_options.host, port=config.http_options.port)
        )
        _get_global_client().deploy_apps(config, _blocking=True)
        print("READY", flush=True)
        sys.stdin.read()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
