"""The private CA of a store's certificate: a reference to a Secret or a ConfigMap. Verification is never disabled."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import StringConstraints, model_validator

from components.handles import CaBundle
from components.spec import DnsName, Spec


class CaBundleSpec(Spec):
    """CA certificates in PEM, in one key of a Secret or a ConfigMap of the stack's namespace."""

    secret_name: DnsName | None = None
    """The name of an existing Secret. Set this or configMapName."""
    config_map_name: DnsName | None = None
    """The name of an existing ConfigMap, for example of trust-manager or OpenShift. Set this or secretName."""
    key: Annotated[str, StringConstraints(pattern=r"^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", max_length=253)] = "ca.crt"
    """The key with the certificates. The default is the name that cert-manager and Kubernetes use."""

    @model_validator(mode="after")
    def _from_one_object(self) -> Self:
        if (self.secret_name is None) == (self.config_map_name is None):
            problem = (
                "neither secretName nor configMapName is set" if self.secret_name is None else "secretName and configMapName are both set"
            )
            raise ValueError(f"caBundle requires one source of certificates, but {problem}. Set one of them.")
        return self

    @property
    def location(self) -> str:
        """The location of the certificates, for messages."""
        return f"{self.bundle.kind} {self.bundle.name}, key {self.key}"

    @property
    def bundle(self) -> CaBundle:
        """The handle that pods mount."""
        if self.secret_name is not None:
            return CaBundle(kind="Secret", name=self.secret_name, key=self.key)
        return CaBundle(kind="ConfigMap", name=self.config_map_name or "", key=self.key)


def require_tls(bundle: CaBundleSpec | None, field: str, address: str | None) -> CaBundleSpec | None:
    """Return `bundle`. Raises ValueError if the store's URL `address` in `field` does not use TLS."""
    if bundle is not None and address is not None and address.startswith("http://"):
        raise ValueError(f"caBundle requires TLS, but {field} is {address}. Use https:// in {field}, or remove caBundle.")
    return bundle
