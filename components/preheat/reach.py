"""How a preheat reaches its source: the variables of its container, the edges of its network, the image that has the tools.

Every credential is a reference to a Secret; none of their values is known here.
"""

from __future__ import annotations

from typing import assert_never

from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.networking import v1 as networking

from components.ca_bundle import CA_FILE, ca_of
from components.egress import store_edges
from components.handles import HubStore, ModelSource, ObjectStore, VolumeClaim, WebStore
from components.preheat.spec import DEFAULT_HUB_IMAGE, DEFAULT_IMAGE, PreheatSpec

_PATH = "/usr/local/bin:/usr/bin:/bin"
# Where KServe's storage-initializer keeps its Python; no harm where there is none.
_HUB_PATH = f"/prod_venv/bin:{_PATH}"


def image_of(preheat: PreheatSpec, source: ModelSource) -> str:
    """The image of the transfer."""
    return preheat.image or (DEFAULT_HUB_IMAGE if isinstance(source, HubStore) else DEFAULT_IMAGE)


def path_of(source: ModelSource) -> str:
    """The directories that the image's programs are in."""
    return _HUB_PATH if isinstance(source, HubStore) else _PATH


def environment_of(source: ModelSource, scratch: str) -> list[core.EnvVarArgs]:
    """The variables that the tools read to reach `source`; `scratch` is a directory that they may write to."""
    # The program makes of it what each tool reads, since most would believe this CA alone and no public one any more.
    ca = [] if ca_of(source) is None else [core.EnvVarArgs(name="PREHEAT_CA_BUNDLE", value=CA_FILE)]
    return [*_access(source, scratch), *ca]


def _access(source: ModelSource, scratch: str) -> list[core.EnvVarArgs]:
    match source:
        case ObjectStore():
            return _s3(source)
        case WebStore():
            return [] if source.credentials is None else [_from_secret("AUTHORIZATION", source.credentials, into="HTTP_AUTHORIZATION")]
        case HubStore():
            clear = {"HF_ENDPOINT": source.endpoint, "HF_HOME": f"{scratch}/huggingface", "HF_HUB_DISABLE_TELEMETRY": "1"}
            secret = [] if source.credentials is None else [_from_secret("HF_TOKEN", source.credentials)]
            return [*(core.EnvVarArgs(name=key, value=value) for key, value in clear.items()), *secret]
        case VolumeClaim():
            return []
        case _:
            assert_never(source)


def edges_of(source: ModelSource) -> list[networking.NetworkPolicyEgressRuleArgs]:
    """The egress of a reader of `source`; none for a volume, which the node mounts outside the pod's network."""
    match source:
        case ObjectStore() | WebStore() | HubStore():
            return store_edges(source)
        case VolumeClaim():
            return []
        case _:
            assert_never(source)


def _s3(source: ObjectStore) -> list[core.EnvVarArgs]:
    clear = {
        "RCLONE_CONFIG_SOURCE_TYPE": "s3",
        "RCLONE_CONFIG_SOURCE_PROVIDER": "AWS" if source.endpoint is None else "Other",
        "RCLONE_CONFIG_SOURCE_ENV_AUTH": "true",
        "RCLONE_CONFIG_SOURCE_FORCE_PATH_STYLE": "true" if source.path_style else "false",
    }
    optional = {"RCLONE_CONFIG_SOURCE_ENDPOINT": source.endpoint, "RCLONE_CONFIG_SOURCE_REGION": source.region, "AWS_REGION": source.region}
    clear |= {key: value for key, value in optional.items() if value is not None}
    env = [core.EnvVarArgs(name=key, value=value) for key, value in clear.items()]
    if source.credentials is not None:
        env += [_from_secret(key, source.credentials) for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    return env


def _from_secret(key: str, secret: str, into: str | None = None) -> core.EnvVarArgs:
    reference = core.SecretKeySelectorArgs(name=secret, key=key)
    return core.EnvVarArgs(name=into or key, value_from=core.EnvVarSourceArgs(secret_key_ref=reference))
