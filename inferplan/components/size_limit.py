"""Rejects an object that the API server would not store, before anything is applied. One place for
all components, also for extra objects.
"""

import pulumi

DATA_BYTES = 1 << 20
"""The most that a ConfigMap or a Secret holds (Kubernetes API validation, MaxSecretSize)."""
REQUEST_BYTES = 3 << 19
"""The largest request that etcd takes by default (etcd, --max-request-bytes, 1.5 MiB)."""
_HOLDERS = ("ConfigMap", "Secret")


def size_options() -> pulumi.ResourceOptions:
    """Options whose resources, and the resources below them, fit the API server. Raise
    RunError for one that does not.
    """
    return pulumi.ResourceOptions(transformations=[_check])


def _check(resource: pulumi.ResourceTransformationArgs) -> None:
    if not resource.type_.startswith("kubernetes:"):
        return
    kind = resource.type_.rpartition(":")[2]
    most = DATA_BYTES if kind in _HOLDERS else REQUEST_BYTES
    size = _bytes_of(resource.props)
    if size > most:
        raise pulumi.RunError(
            f"{kind} {resource.name} has {size / 2**20:.2f} MiB, and the API server stores"
            f" {most / 2**20:g} MiB at most. Nothing was changed. Shorten what the stack file puts"
            " into it, or divide the models and consumers among several stacks."
        )


def _bytes_of(value: object) -> int:
    """The bytes of all known text in `value`, names of fields included."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(_bytes_of(key) + _bytes_of(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_bytes_of, value))
    return 0
