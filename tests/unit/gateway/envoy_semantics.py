"""What an Envoy Gateway answers under our routes and policies, as its sources say (v1.9, read
2026-11).

The order of its filters is CORS, API keys, authorization, then the router; a call that matches no
route meets none of them. Only what our manifests use is understood, and anything else is refused
rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """A status, and for 200 what the server behind is asked: its Service and port, path and
    headers.
    """

    status: int
    backend: tuple[str, int] | None = None
    path: str = ""
    headers: Mapping[str, str] | None = None


class EnvoyGateway:
    """Objects by kind and name, and Secrets by name with their fields in clear."""

    def __init__(
        self, objects: list[Mapping[str, Any]], secrets: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.objects = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in objects}
        self.secrets = secrets

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Verdict:
        sent = {name.lower(): value for name, value in headers.items()}
        for (kind, name), spec in self.objects.items():
            if kind != "HTTPRoute":
                continue
            for rule in spec["rules"]:
                if any(self._matches(match, method, path) for match in rule["matches"]):
                    return self._routed(name, rule, path, sent)
                here = any(match["path"]["value"] == path for match in rule["matches"])
                if method == "OPTIONS" and here and (permission := self._preflight(rule, sent)):
                    return permission
        return Verdict(404)

    @staticmethod
    def _preflight(rule: Mapping[str, Any], sent: Mapping[str, str]) -> Verdict | None:
        """The answer to a browser, which a route gives beside its listed methods where it has a
        filter CORS itself, and only then.
        """
        for each in rule["filters"]:
            if each["type"] == "CORS" and {"origin", "access-control-request-method"} <= set(sent):
                allowed = sent["origin"] in each["cors"]["allowOrigins"]
                return Verdict(
                    200, headers={"access-control-allow-origin": sent["origin"]} if allowed else {}
                )
        return None

    @staticmethod
    def _matches(match: Mapping[str, Any], method: str, path: str) -> bool:
        if set(match) != {"path", "method"} or match["path"]["type"] != "Exact":
            raise NotImplementedError(str(match))
        return match["method"] == method and match["path"]["value"] == path

    def _policies(self, kind: str, route: str) -> list[Mapping[str, Any]]:
        wanted = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": route}
        return [
            spec
            for (each, _), spec in self.objects.items()
            if each == kind and wanted in spec["targetRefs"]
        ]

    def _routed(
        self, name: str, rule: Mapping[str, Any], path: str, sent: dict[str, str]
    ) -> Verdict:
        [policy] = self._policies("SecurityPolicy", name)
        client = self._client(policy["apiKeyAuth"], sent)
        if client is None:
            return Verdict(401)
        sent[policy["apiKeyAuth"]["forwardClientIDHeader"].lower()] = client
        if policy["apiKeyAuth"]["sanitize"]:
            for source in policy["apiKeyAuth"]["extractFrom"]:
                for header in source["headers"]:
                    sent.pop(header.lower(), None)
        if not self._allowed(policy["authorization"], sent):
            return Verdict(403)
        for each in rule["filters"]:
            if each["type"] == "ExtensionRef":
                extension = self.objects["HTTPRouteFilter", each["extensionRef"]["name"]]
                rewrite = extension["urlRewrite"]["path"]["replaceRegexMatch"]
                path = re.sub(rewrite["pattern"], rewrite["substitution"], path)
                credential = extension["credentialInjection"]
                value = self.secrets[credential["credential"]["valueRef"]["name"]]["credential"]
                sent["authorization"] = (
                    value if credential["overwrite"] else sent.get("authorization", value)
                )
        # The router takes headers out last, after every filter.
        for each in rule["filters"]:
            for header in each.get("requestHeaderModifier", {}).get("remove", ()):
                sent.pop(header.lower(), None)
        [backend] = rule["backendRefs"]
        return Verdict(200, (backend["name"], backend["port"]), path, sent)

    def _client(self, spec: Mapping[str, Any], sent: Mapping[str, str]) -> str | None:
        known: dict[str, str] = {}
        for reference in spec["credentialRefs"]:
            for client, key in sorted(self.secrets[reference["name"]].items()):
                if key in known:
                    raise ValueError("duplicated API key")
                known[key] = client
        for source in spec["extractFrom"]:
            for header in source["headers"]:
                if found := sent.get(header.lower()):
                    return known.get(found.removeprefix("Bearer "))
        return None

    @staticmethod
    def _allowed(spec: Mapping[str, Any], sent: Mapping[str, str]) -> bool:
        for rule in spec["rules"]:
            if all(
                sent.get(each["name"].lower()) in each["values"]
                for each in rule["principal"]["headers"]
            ):
                return rule["action"] == "Allow"
        return spec["defaultAction"] == "Allow"
