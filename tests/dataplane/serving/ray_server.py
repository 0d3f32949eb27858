"""Runs a Serve configuration on a Ray of its own until its standard input ends: `python ray_server.py CONFIG`, CONFIG as YAML text."""

import sys

import ray
import yaml
from ray import serve
from ray.serve._private import api, client
from ray.serve.config import HTTPOptions
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

# Serve gives up on its own proxy after a minute, which a busy machine may take to import it.
api.HTTP_PROXY_TIMEOUT = client.HTTP_PROXY_TIMEOUT = 600


def main(text):
    """Deploys the configuration as the dashboard does for KubeRay, says READY once every application runs, and ends with its input."""
    config = ServeDeploySchema.model_validate(yaml.safe_load(text))
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options=HTTPOptions(host=config.http_options.host, port=config.http_options.port))
        _get_global_client().deploy_apps(config, _blocking=True)
        print("READY", flush=True)
        sys.stdin.read()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
