"""One public component per engine, made from the engine's specification: an engine that the union
has is a component.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, cast

import pulumi

from inferplan.components.gateway.gateway import GATEWAY_PODS
from inferplan.components.gateway.keys import server_key_ref
from inferplan.components.public import args as types
from inferplan.components.public.handles import ModelFilesHandle, PoolHandle, handle, plain_values
from inferplan.components.public.inputs import Check, Extra, Inputs
from inferplan.components.public.storage import NAMESPACE
from inferplan.components.serving.engine import Site
from inferplan.components.serving.first_request import first_request
from inferplan.components.serving.scaling import counted
from inferplan.components.serving.served_model import ServedModel
from inferplan.components.serving.spec import MODEL_SPECS, ModelSpec, engine_of
from inferplan.components.sources import ModelMount

_EXTRAS = {
    "namespace": NAMESPACE,
    "pool": Extra(
        "pulumi.Input[Pool]", "The nodes that replicas run on: the `pool` of a NodePool."
    ),
    "weights": Extra(
        "pulumi.Input[ModelFiles]",
        "The files of the model: the `files` of a Preheat, or a directory of a store.",
        required=False,
    ),
    "artifacts": Extra(
        "dict[str, pulumi.Input[ModelFiles]]",
        "Further files by name, mounted at /artifacts/<name>: the `files` of a Preheat each.",
        required=False,
    ),
    "server_key_mark": Extra(
        "pulumi.Input[str]",
        "The entry of this model in `server_key_marks` of ApiKeys, which makes the Secret with the"
        " server's key.",
    ),
    "prometheus": Extra(
        "str",
        "The URL of the Prometheus that scalers query. Required with autoscaling.",
        required=False,
    ),
    "accelerators_of_others": Extra(
        "int",
        "Accelerators of the pool that other models request, to check a rollout. Default: 0.",
        required=False,
    ),
}
# A queue is a component of a stack; its labels can be set in `labels`.
_OMIT = frozenset({"engine", "preheat", "queue", "queue_priority", "prefill", "decode"})


class ModelService(pulumi.ComponentResource):
    """The objects of one served model."""

    endpoint: types.ModelEndpoint
    """The protocols and the address of the model, for a Gateway."""
    url: pulumi.Output[str]
    """The address inside the cluster, with the path of the API. Only the gateway's pods reach it.
    """

    _engine: str
    _spec: type[ServedModel]
    _inputs: Inputs

    def __init__(
        self, name: str, args: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        component = type(self).__name__
        check = Check(self, name, args, self._inputs)
        extras = check.extras
        pool = check.spec(PoolHandle, extras["pool"], "pool")
        files = {
            key: check.spec(ModelFilesHandle, value, "artifacts", key)
            for key, value in extras.get("artifacts", {}).items()
        }
        weights = (
            check.spec(ModelFilesHandle, extras["weights"], "weights")
            if "weights" in extras
            else None
        )
        check.stop()
        spec = check.spec(self._spec, _settings(self._engine, check.settings, pool, weights, files))
        check.stop()
        mounts = {
            key: check.mount(each, extras["artifacts"][key], "artifacts", key)
            for key, each in files.items()
        }
        site = Site(
            namespace=extras["namespace"],
            target=pool.target(pool.name),
            weights=None if weights is None else check.mount(weights, extras["weights"], "weights"),
            artifacts={
                key: mount for key, mount in mounts.items() if isinstance(mount, ModelMount)
            },
            server_key=(key := server_key_ref(name)),
            server_key_marks={key: extras["server_key_mark"]},
            gateway=GATEWAY_PODS,
            prometheus=extras.get("prometheus"),
            accelerators_of_others=extras.get("accelerators_of_others", 0),
        )
        check.errors += [
            *spec.errors_on(site.target),
            *spec.shared_pool_errors(site.target, site.accelerators_of_others),
        ]
        check.stop()
        super().__init__(f"inferplan:index:{component}", name, {"spec": spec.intent()}, opts)
        served = engine_of(cast("ModelSpec", spec)).serve(
            name, spec, site, opts=pulumi.ResourceOptions(parent=self)
        )
        start = (
            sum(each.seconds for each in first_request(pool.name, spec, pool, adds_nodes=False))
            if spec.scaling
            else 0
        )
        self.endpoint = handle(
            {
                key: value
                for key, value in asdict(counted(served, spec, start)).items()
                if value not in (None, ())
            }
        )
        first = served.protocols[0]
        self.url = pulumi.Output.concat(
            "http://", served.host, ".", site.namespace, f".svc:{first.port}{first.path}"
        )
        self.register_outputs({"endpoint": self.endpoint, "url": self.url})


def _settings(
    engine: str,
    own: Mapping[str, Any],
    pool: PoolHandle,
    weights: ModelFilesHandle | None,
    artifacts: Mapping[str, ModelFilesHandle],
) -> dict[str, Any]:
    """Return the settings of the model as a stack file has them, where names stand for pools and
    stores.
    """
    settings = {**own, "engine": engine, "pool": pool.name}
    if weights is not None:
        settings["weights"] = weights.weights()
        if weights.preheat is not None:
            settings["preheat"] = {**plain_values(weights.preheat), "into": weights.store.name}
    if artifacts:
        settings["artifacts"] = {key: each.weights() for key, each in artifacts.items()}
    return settings


def _component(engine: str, spec: type[ServedModel]) -> type[ModelService]:
    """Return the component of the models of `spec`, such as VllmService for VllmSpec."""
    name = f"{spec.__name__.removesuffix('Spec').removesuffix('Serve')}Service"

    def construct(
        self: ModelService,
        name: str,
        args: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        ModelService.__init__(self, name, args, opts)

    weights = replace(_EXTRAS["weights"], required=spec.model_fields["weights"].is_required())
    # Until `inferplan schema --write` has run, the types of a new engine are missing.
    construct.__annotations__["args"] = getattr(types, f"{name}Args", dict[str, Any])
    body = {
        "__init__": construct,
        "__doc__": spec.__doc__,
        "__module__": __name__,
        "_engine": engine,
        "_spec": spec,
        "_inputs": Inputs((spec,), {**_EXTRAS, "weights": weights}, _OMIT),
    }
    return type(name, (ModelService,), body)


SERVICES = tuple(_component(engine, spec) for engine, spec in MODEL_SPECS.items())
globals().update({each.__name__: each for each in SERVICES})
