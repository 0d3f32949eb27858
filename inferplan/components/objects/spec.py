"""Kubernetes objects of the user's own in a stack file, as Kubernetes writes them."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, JsonValue

_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9]+((alpha|beta)[0-9]+)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
# Names of roles and their bindings contain colons.
_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9:]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9:]*[a-z0-9])?)*"
)
_SECRET_DATA = ("data", "stringData")
_SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


def _object(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    version, kind, metadata = value.get("apiVersion"), value.get("kind"), value.get("metadata")
    if not isinstance(version, str) or not _API_VERSION.fullmatch(version):
        raise ValueError(
            f"apiVersion is {version!r}. Expected v1 or group/version, for example apps/v1"
        )
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise ValueError(
            f"kind is {kind!r}. Expected the kind of the object, for example ConfigMap"
        )
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"metadata.name is {name!r}. Expected the name of the object in lower case"
        )
    if kind.endswith("List") and "items" in value:
        raise ValueError(
            f"kind is {kind}, a list of objects. Write each object under a name of its own"
        )
    if "status" in value or any(field in metadata for field in _SERVER_FIELDS):
        fields = [
            *(["status"] if "status" in value else []),
            *(f"metadata.{field}" for field in _SERVER_FIELDS if field in metadata),
        ]
        raise ValueError(f"{', '.join(fields)} is set by the API server. Remove it")
    if version == "v1" and kind == "Secret" and any(value.get(field) for field in _SECRET_DATA):
        # The values stay out of the message.
        raise ValueError(
            f"Secret {name!r} has values, and a stack file is not secret. Remove the object, and"
            f" create it with: kubectl create secret generic {name} --from-literal=<key>=<value>"
        )
    return value


ExtraObject = Annotated[
    dict[str, JsonValue],
    AfterValidator(_object),
    Field(
        json_schema_extra={
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object", "required": ["name"]},
            },
            "required": ["apiVersion", "kind", "metadata"],
        }
    ),
]

# The kinds of Kubernetes itself that belong to no namespace.
_CLUSTER_KINDS = re.compile(
    "APIService|CSIDriver|CertificateSigningRequest|CustomResourceDefinition|DeviceClass|EC2NodeClass|FlowSchema|"
    "GatewayClass|IngressClass|MutatingWebhookConfiguration|Namespace|Node|NodeFeatureRule|NodePool|PersistentVolume|"
    "PriorityClass|PriorityLevelConfiguration|ResourceFlavor|RuntimeClass|StorageClass|ValidatingAdmissionPolicy|"
    "ValidatingAdmissionPolicyBinding|ValidatingWebhookConfiguration|VolumeAttributesClass|WorkloadPriorityClass"
)


def is_namespaced(manifest: dict[str, Any]) -> bool:
    """True unless objects of this kind belong to no namespace. Kinds that start with `Cluster`
    belong to none by convention.
    """
    kind = str(manifest["kind"])
    return _CLUSTER_KINDS.fullmatch(kind) is None and not kind.startswith("Cluster")
