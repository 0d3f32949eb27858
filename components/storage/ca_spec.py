"""Which CA a store's certificate is signed by, where that is none of the public ones.

Only a reference: the certificates lie in a Secret or a ConfigMap, and nothing here turns their verification off.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import StringConstraints, model_validator

from components.handles import CaBundle
from components.spec import DnsName, Spec


class CaBundleSpec(Spec):
    """One key of a Secret or a ConfigMap of the inference namespace, with certificates of CAs in PEM."""

    secret_name: DnsName | None = None
    """The Secret's name, where a Secret holds them. It must exist."""
    config_map_name: DnsName | None = None
    """The ConfigMap's name, where a ConfigMap holds them (trust-manager, OpenShift). It must exist."""
    key: Annotated[str, StringConstraints(pattern=r"^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", max_length=253)] = "ca.crt"
    """The key that holds them, by the name that cert-manager and Kubernetes give it."""

    @model_validator(mode="after")
    def _from_one_object(self) -> Self:
        if (self.secret_name is None) == (self.config_map_name is None):
            given = "neither is given" if self.secret_name is None else "both are given"
            raise ValueError(f"certificates come from secretName or from configMapName, and {given}; write one of them")
        return self

    @property
    def location(self) -> str:
        """Where the certificates are, as people write it."""
        return f"{self.bundle.kind} {self.bundle.name}, key {self.key}"

    @property
    def bundle(self) -> CaBundle:
        """What pods mount."""
        if self.secret_name is not None:
            return CaBundle(kind="Secret", name=self.secret_name, key=self.key)
        return CaBundle(kind="ConfigMap", name=self.config_map_name or "", key=self.key)


def refuse_in_clear(bundle: CaBundleSpec | None, field: str, address: str | None) -> CaBundleSpec | None:
    """`bundle`, unless the store's `address`, written under `field`, is one without TLS. Raises ValueError."""
    if bundle is not None and address is not None and address.startswith("http://"):
        raise ValueError(
            f"no certificate is shown at {address}, so there is none to verify; write {field} with https://, or remove caBundle"
        )
    return bundle
