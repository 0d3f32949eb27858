"""Streams of engine events with one canary each: a value of some shape, in some text, at some
place, under some operation.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.review_streams import step, stream

LENGTH = 8
"""A piece of a canary this long counts as the canary."""
_ALNUM = string.ascii_letters + string.digits


def _word(source: random.Random, length: int, letters: str = _ALNUM) -> str:
    return "".join(source.choice(letters) for _ in range(length))


def _shape(pattern: str) -> Callable[[random.Random], str]:
    """`pattern` with `{A20}` for 20 letters and digits, `{a..}` lower case, `{U..}` upper case and
    digits, `{h..}` hex, `{b..}` base64, `{d..}` digits.
    """
    sets = {
        "A": _ALNUM,
        "a": string.ascii_lowercase + string.digits,
        "U": string.ascii_uppercase + string.digits,
        "h": "0123456789abcdef",
        "b": _ALNUM + "+/",
        "d": string.digits,
        "s": _ALNUM + "!#%^*@",
        "w": "",
    }

    def made(source: random.Random) -> str:
        return re.sub(
            r"\{(\w)(\d+)\}", lambda match: _word(source, int(match[2]), sets[match[1]]), pattern
        )

    return made


_PATTERNS = {
    "google": "AIza{A35}", "docker": "dckr_pat_{A27}", "vault": "hvs.{A24}", "grafana": "glsa_{A32}_{h8}", "tailscale": "tskey-auth-{A12}-{A20}", "stripe": "sk_live_{A24}",
    "sendgrid": "SG.{A22}.{A43}", "databricks": "dapi{h32}", "notion": "ntn_{A46}", "github": "ghp_{A36}", "gitlab": "glpat-{A20}", "hub": "hf_{A34}", "openai": "sk-proj-{A40}", "slack": "xoxb-{d11}-{d12}-{A24}",
    "npm": "npm_{A36}", "pypi": "pypi-AgEIcHlwaS5vcmc{A60}", "aws": "{b40}", "azure": "{A3}8Q~{A34}", "heroku": "{h8}-{h4}-{h4}-{h4}-{h12}", "datadog": "{h32}", "newrelic": "NRAK-{U27}", "twilio": "SK{h32}",
    "mailgun": "key-{h32}", "shopify": "shpat_{h32}", "doppler": "dp.st.prd.{A40}", "linear": "lin_api_{A40}", "planetscale": "pscale_tkn_{A43}", "anthropic": "sk-ant-api03-{A60}", "digitalocean": "dop_v1_{h64}",
    "age": "AGE-SECRET-KEY-1{U58}", "wireguard": "{b42}0=", "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{A20}.{A43}", "hex": "{h40}", "short": "{A12}", "mixed": "{s16}", "long": "{A64}", "lower": "{a20}", "letters": "{A1}xqzvk{a12}",
    "upper": "{U24}", "license": "{U5}-{U5}-{U5}-{U5}-{U5}", "bcrypt": "$2y$10${A53}", "apr1": "$apr1${A8}${A22}", "argon": "$argon2id$v=19$m=65536,t=3,p=4${b22}${b43}", "der": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{b120}",
    "pkcs8": "MC4CAQAwBQYDK2VwBCIEI{b43}=", "totp": "{U32}", "urlsafe": "{A22}-{A20}", "dashes": "{a6}-{a6}-{a6}-{a6}", "words": "zephyr-{a5}-quokka-{a4}-vixen", "telegram": "{d10}:{A35}", "discord": "{A24}.{A6}.{A38}",
    "square": "sq0csp-{A43}", "sentry": "sntrys_{A60}", "fly": "FlyV1 fm2_{b60}", "pulumi": "pul-{h40}", "terraform": "{A14}.atlasv1.{A60}", "netlify": "nfp_{A36}", "supabase": "sbp_{h40}", "confluent": "cflt{A60}", "rabbit": "{b48}",
    "fullwidth": "\uff50\uff57{A18}", "cyrillic": "\u0440\u0430ss{A16}", "ntlm": "{h32}:{h32}", "pin": "{d16}",
}  # fmt: skip
VALUES: dict[str, Callable[[random.Random], str]] = {
    name: _shape(pattern) for name, pattern in _PATTERNS.items()
}


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _netloc(value: str) -> str:
    return value.replace("/", "%2F").replace("#", "%23").replace("?", "%3F")


TEXTS: dict[str, Callable[[str], str]] = {
    "bare": lambda v: v,
    "line": lambda v: f"{v}\n",
    "json": lambda v: json.dumps({"users": [{"name": "admin", "password_hash": v}], "limit": 4}),
    "json-plain": lambda v: json.dumps({"settings": {"upstream": {"value": v}}}),
    "json-list": lambda v: json.dumps({"keys": [v]}),
    "json-twice": lambda v: json.dumps({"definition": json.dumps({"token": v})}),
    "auths": lambda v: json.dumps({"auths": {"registry.example.com": {"auth": _b64(f"user:{v}")}}}),
    "last-applied": lambda v: json.dumps(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"k": _b64(v)}}
    ),
    "yaml": lambda v: (
        f"receivers:\n- name: ops\n  webhook:\n    authorization:\n      credentials: {v}\n"
    ),
    "yaml-plain": lambda v: f"server:\n  listen: 8080\n  upstream: {v}\n",
    "yaml-quoted": lambda v: f'config:\n  masterkey: "{v}"\n  level: info\n',
    "yaml-list": lambda v: f"consumers:\n  - name: a\n    keys:\n      - {v}\n",
    "yaml-block": lambda v: f"files:\n  private_key: |\n    {v[:20]}\n    {v[20:]}\n  mode: 0600\n",
    "yaml-flow": lambda v: f"basicAuth: {{users: [admin, {v}]}}\n",
    "yaml-comment": lambda v: f"# was: {v}\nlevel: info\n",
    "toml": lambda v: f'[auth]\nuser = "admin"\nsalt = "{v}"\n',
    "toml-list": lambda v: f'[server]\nsigning = ["{v}"]\n',
    "ini": lambda v: f"[database]\nhost = db.example.com\npasswd={v}\n",
    "properties": lambda v: (
        f"spring.datasource.url=jdbc:postgresql://db:5432/app\nspring.datasource.cred={v}\n"
    ),
    "dotenv": lambda v: f"export APP_ENV=prod\nexport LICENSE_KEY='{v}'\n",
    "xml": lambda v: (
        '<configuration><add key="x"'
        f' value="{v}"/><connectionString>{v}</connectionString></configuration>'
    ),
    "netrc": lambda v: f"machine api.example.com login deploy password {v}\n",
    "pgpass": lambda v: f"db.example.com:5432:app:app:{v}\n",
    "htpasswd": lambda v: f"admin:{v}\n",
    "postgres": lambda v: f"postgresql://app:{_netloc(v)}@db.example.com:5432/app?sslmode=require",
    "postgres-at": lambda v: f"postgresql://app:p@{_netloc(v)}@db.example.com:5432/app",
    "mysql-dsn": lambda v: f"app:{v}@tcp(db.example.com:3306)/app",
    "sqlserver": lambda v: (
        f"Server=tcp:db.example.com,1433;Database=app;User Id=app;Password={v};Encrypt=true"
    ),
    "libpq": lambda v: f"host=db.example.com user=app password={v} dbname=app",
    "redis": lambda v: f"redis://:{_netloc(v)}@cache.example.com:6379/0",
    "amqp": lambda v: f"amqps://user:{_netloc(v)}@mq.example.com/vhost",
    "mongo": lambda v: f"mongodb+srv://app:{_netloc(v)}@c0.example.net/?retryWrites=true",
    "presigned": lambda v: (
        f"https://bucket.s3.amazonaws.com/a.tar?X-Amz-Date=20261128T000000Z&X-Amz-Signature={_netloc(v)}"
    ),
    "sas": lambda v: f"https://acct.blob.core.windows.net/c/b?sv=2022-11-02&sig={_netloc(v)}",
    "webhook": lambda v: (
        f"https://hooks.slack.com/services/T00000000/B00000000/{v.replace('/', '')}"
    ),
    "path-token": lambda v: f"https://api.example.com/bot{v.replace('/', '')}/send",
    "fragment": lambda v: f"https://example.com/#access={_netloc(v)}",
    "azure-conn": lambda v: (
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={v};EndpointSuffix=core.windows.net"
    ),
    "shell": lambda v: f"#!/bin/sh\nset -e\ncurl -u admin:{v} https://api.example.com/v1/models\n",
    "login": lambda v: f"docker login -u bot -p {v} registry.example.com",
    "echo-pipe": lambda v: f"echo {v} | docker login --password-stdin registry.example.com",
    "mysql": lambda v: f"mysql -h db.example.com -u root -p{v} app",
    "sshpass": lambda v: f"sshpass -p {v} ssh admin@host.example.com",
    "redis-cli": lambda v: f"redis-cli -a {v} ping",
    "mc": lambda v: f"mc alias set store https://minio.example.com admin {v}",
    "header": lambda v: f"curl -H 'X-Api-Key: {v}' https://api.example.com",
    "bearer": lambda v: f'curl -H "Authorization: Bearer {v}" https://api.example.com',
    "cookie": lambda v: f"Cookie: session={v}; theme=dark",
    "nginx": lambda v: f'if ($http_x_api_key != "{v}") {{ return 401; }}',
    "nginx-map": lambda v: f'map $http_x_key $consumer {{\n  default "";\n  "{v}" chat;\n}}',
    "lua": lambda v: (
        f'local k = "{v}"\nif request_handle:headers():get("x-key") ~= k then return end'
    ),
    "python": lambda v: f'import os\nCLIENT = Client("{v}", timeout=5)\n',
    "js": lambda v: f"const expected = `{v}`;\n",
    "sql": lambda v: f"CREATE USER app IDENTIFIED BY '{v}';",
    "sql-alter": lambda v: f"ALTER ROLE app WITH PASSWORD '{v}';",
    "cloud-init": lambda v: (
        f"#cloud-config\nwrite_files:\n- path: /etc/app\n  content: {v}\nchpasswd:\n  list: |\n   "
        f" root:{v}\n"
    ),
    "systemd": lambda v: f"[Service]\nEnvironment=APP_CRED={v}\nExecStart=/usr/bin/app --psk {v}\n",
    "base64": _b64,
    "base64-env": lambda v: _b64(f"APP_PAT={v}\n"),
    "base64-twice": lambda v: _b64(_b64(v)),
    "base64-lines": lambda v: base64.encodebytes(f"token: {v}\n".encode()).decode(),
    "gzip": (
        lambda v: base64.b64encode(gzip.compress(f"#!/bin/sh\nexport SEED={v}\n".encode())).decode()
    ),
    "user-data": lambda v: _b64(
        f"#!/bin/bash\n/etc/eks/bootstrap.sh c --kubelet-extra-args x\necho {v} > /etc/k\n"
    ),
    "pem": lambda v: f"-----BEGIN PRIVATE KEY-----\n{v}\n-----END PRIVATE KEY-----\n",
    "openssh": lambda v: (
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{v[:30]}\n{v[30:]}\n-----END OPENSSH PRIVATE"
        " KEY-----"
    ),
    "pgp": lambda v: (
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{v}\n-----END PGP PRIVATE KEY BLOCK-----"
    ),
    "jwk": lambda v: json.dumps({"kty": "oct", "k": v, "alg": "HS256"}),
    "wireguard": lambda v: f"[Interface]\nPrivateKey = {v}\nAddress = 10.0.0.1/24\n",
    "halves": lambda v: json.dumps({"parts": [v[: len(v) // 2], v[len(v) // 2 :]]}),
    "template": lambda v: f'{{{{ with secret "kv/x" }}}}{v}{{{{ end }}}}',
    "go-flag": lambda v: f"-auth.signing={v}",
    "csv": lambda v: f"user,cred\nadmin,{v}\n",
    "prose": lambda v: f"The access code of the demo is {v} until Friday.",
    "single-quoted": lambda v: f"command: ['serve', '--unlock', '{v}']",
    "heredoc": lambda v: f"cat <<EOF > /root/.pgpass\ndb:5432:*:app:{v}\nEOF\n",
    "helm-set": lambda v: f"helm upgrade app chart --set auth.root={v}",
    "kubectl": lambda v: f"kubectl create secret generic x --from-literal=a={v}",
}


@dataclass(frozen=True)
class Place:
    """A place of a kind: `inputs` of a resource of `type` around a text."""

    type: str
    inputs: Callable[[str], dict[str, Any]]


def _pod(**container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "m"},
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "server", "image": "a:1", **container}]}},
        },
    }


def _annotated(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "m", "annotations": {"example.com/config": text}}}


def _custom(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"backend": {"parameters": {"x": text}}, "extra": [text]},
    }


DEPLOYMENT, CONFIG_MAP = "kubernetes:apps/v1:Deployment", "kubernetes:core/v1:ConfigMap"
PLACES: dict[str, Place] = {
    "env": Place(DEPLOYMENT, lambda t: _pod(env=[{"name": "APP_SETTING", "value": t}])),
    "env-hint": Place(DEPLOYMENT, lambda t: _pod(env=[{"name": "CRED", "value": t}])),
    "args": Place(DEPLOYMENT, lambda t: _pod(args=["--port", "80", "--api-key", t])),
    "args-plain": Place(DEPLOYMENT, lambda t: _pod(args=["serve", t])),
    "args-equals": Place(DEPLOYMENT, lambda t: _pod(args=[f"--unlock={t}"])),
    "script": Place(DEPLOYMENT, lambda t: _pod(command=["sh", "-c", t])),
    "probe": Place(DEPLOYMENT, lambda t: _pod(livenessProbe={"exec": {"command": ["sh", "-c", t]}, "httpGet": {"path": "/", "port": 1, "httpHeaders": [{"name": "X-Probe", "value": t}]}})),
    "hook": Place(DEPLOYMENT, lambda t: _pod(lifecycle={"preStop": {"exec": {"command": [t]}}})),
    "annotation": Place(DEPLOYMENT, _annotated),
    "config-map": Place(CONFIG_MAP, lambda t: {"metadata": {"name": "c"}, "data": {"app.conf": t}}),
    "config-map-key": Place(CONFIG_MAP, lambda t: {"metadata": {"name": "c"}, "data": {"setting": t}, "binaryData": {"x": _b64(t)}}),
    "secret": Place("kubernetes:core/v1:Secret", lambda t: {"metadata": {"name": "s"}, "stringData": {"a": t}, "data": {"b": _b64(t)}}),
    "storage-class": Place("kubernetes:storage.k8s.io/v1:StorageClass", lambda t: {"metadata": {"name": "s"}, "provisioner": "ebs.csi.aws.com", "parameters": {"x": t}}),
    "volume": Place("kubernetes:core/v1:PersistentVolume", lambda t: {"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"x": t}}}}),
    "custom": Place("kubernetes:example.com/v1:Widget", _custom),
    "middleware": Place("kubernetes:traefik.io/v1alpha1:Middleware", lambda t: {"spec": {"plugin": {"guard": {"keys": [t]}}, "headers": {"customRequestHeaders": {"X-Origin": t}}}}),
    "http-route": Place("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute", lambda t: {"spec": {"rules": [{"filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "X-Up", "value": t}]}}]}]}}),
    "envoy-lua": Place("kubernetes:gateway.envoyproxy.io/v1alpha1:EnvoyExtensionPolicy", lambda t: {"spec": {"lua": [{"type": "Inline", "inline": t}]}}),
    "alertmanager": Place("kubernetes:monitoring.coreos.com/v1alpha1:AlertmanagerConfig", lambda t: {"spec": {"receivers": [{"name": "r", "webhookConfigs": [{"url": t}]}]}}),
    "helm": Place("kubernetes:helm.sh/v3:Release", lambda t: {"chart": "x", "values": {"redis": {"auth": {"root": t}}, "config": t}, "valueYamlFiles": [t]}),
    "helm-controller": Place("kubernetes:helm.cattle.io/v1:HelmChart", lambda t: {"spec": {"valuesContent": t, "set": {"a": t}}}),
    "argo": Place("kubernetes:argoproj.io/v1alpha1:Application", lambda t: {"spec": {"source": {"helm": {"parameters": [{"name": "a.b", "value": t}], "values": t}}}}),
    "lambda": Place("aws:lambda/function:Function", lambda t: {"functionName": "f", "environment": {"variables": {"SETTING": t, "PEPPER": t}}}),
    "launch-template": Place("aws:ec2/launchTemplate:LaunchTemplate", lambda t: {"name": "l", "userData": t}),
    "ecs": Place("aws:ecs/taskDefinition:TaskDefinition", lambda t: {"containerDefinitions": json.dumps([{"name": "a", "environment": [{"name": "A", "value": t}], "command": ["x", t]}])}),
    "ssm": Place("aws:ssm/parameter:Parameter", lambda t: {"name": "/a", "type": "String", "value": t}),
    "secrets-manager": Place("aws:secretsmanager/secretVersion:SecretVersion", lambda t: {"secretId": "s", "secretString": t}),
    "rds": Place("aws:rds/instance:Instance", lambda t: {"identifier": "d", "username": "app", "password": t}),
    "cloudformation": Place("aws:cloudformation/stack:Stack", lambda t: {"parameters": {"Thing": t}, "templateBody": t}),
    "addon": Place("aws:eks/addon:Addon", lambda t: {"addonName": "a", "configurationValues": json.dumps({"env": {"X": t}})}),
    "cloudfront": Place("aws:cloudfront/distribution:Distribution", lambda t: {"origins": [{"customHeaders": [{"name": "X-Origin", "value": t}]}]}),
    "api-gateway": Place("aws:apigateway/apiKey:ApiKey", lambda t: {"name": "k", "value": t}),
    "random": Place("random:index/randomPassword:RandomPassword", lambda t: {"length": 20, "result": t, "keepers": {"a": t}}),
    "tls": Place("tls:index/privateKey:PrivateKey", lambda t: {"algorithm": "RSA", "privateKeyPem": t}),
    "docker": Place("docker:index/container:Container", lambda t: {"image": "a", "envs": [f"X={t}"], "command": ["run", t]}),
    "command": Place("command:local:Command", lambda t: {"create": t, "environment": {"Z": t}, "stdin": t}),
    "datadog": Place("datadog:index/monitor:Monitor", lambda t: {"name": "m", "message": f"See {t}", "options": t}),
    "cloudflare": Place("cloudflare:index/workerScript:WorkerScript", lambda t: {"name": "w", "content": t, "plainTextBindings": [{"name": "A", "text": t}]}),
    "provider": Place("pulumi:providers:datadog", lambda t: {"appKey": t, "extra": t}),
}  # fmt: skip
OPERATIONS = (
    "create",
    "update",
    "update-detailed",
    "replace",
    "delete",
    "refresh",
    "list",
    "diagnostic",
    "wrapped",
    "policy",
    "output",
    "failed",
)


@dataclass(frozen=True)
class Case:
    """One stream with a canary. `values` are the canary before and after the change."""

    value: str
    text: str
    place: str
    operation: str
    values: tuple[str, str]
    stream: bytes

    def __str__(self) -> str:
        return f"{self.value}/{self.text}/{self.place}/{self.operation}"


def case(seed: int) -> Case:
    source = random.Random(seed)  # noqa: S311 - repeatable, and no secret
    value, text, place, operation = (
        source.choice(sorted(each)) for each in (VALUES, TEXTS, PLACES, OPERATIONS)
    )
    if (value, text) == ("pin", "halves"):
        text = "bare"  # A half is a number like any other.
    values = VALUES[value](source), VALUES[value](source)
    return Case(
        value,
        text,
        place,
        operation,
        values,
        stream(
            *events_of(PLACES[place], [TEXTS[text](each) for each in values], operation, values)
        ),
    )


def events_of(  # noqa: C901 - one case for each operation
    place: Place, texts: list[str], operation: str, values: tuple[str, str]
) -> Iterator[dict[str, Any]]:
    old, new = (place.inputs(each) for each in texts)
    match operation:
        case "create":
            yield step("create", place.type, "x", None, new)
        case "delete":
            yield step("delete", place.type, "x", old, None)
        case "update-detailed":
            diff = {key: {"diffKind": "update", "inputDiff": True} for key in new}
            yield step("update", place.type, "x", old, new, diff=diff, diffs=list(new))
        case "replace":
            yield step("replace", place.type, "x", old, new, keys=list(new), diffs=list(new))
        case "refresh":
            yield step(
                "update",
                place.type,
                "x",
                old,
                old,
                old_state={"outputs": new},
                diff={key: {"diffKind": "update", "inputDiff": False} for key in new},
            )
        case "list":
            yield step(
                "update",
                place.type,
                "x",
                {**old, "items": [texts[0], "a"]},
                {**new, "items": [texts[1]]},
            )
        case "failed":
            yield step("update", place.type, "x", old, new)
            yield {
                "diagnosticEvent": {
                    "urn": "",
                    "severity": "error",
                    "message": f"update failed: {texts[1]}",
                    "color": "never",
                }
            }
        case "diagnostic":
            yield step("update", place.type, "x", old, new)
            yield {
                "diagnosticEvent": {
                    "urn": "",
                    "severity": "warning",
                    "message": f"could not connect: {texts[1]}",
                }
            }
        case "wrapped":
            half = len(values[1]) // 2
            message = (
                f"error: invalid credentials {values[1][:half]}\n{values[1][half:]} were rejected"
            )
            yield {"diagnosticEvent": {"urn": "", "severity": "error", "message": message}}
        case "policy":
            body = {
                "resourceUrn": f"urn:pulumi:dev::tiny::{place.type}::x",
                "message": f"Do not do this\n{texts[1]}",
                "policyName": "p",
                "policyPackName": "q",
                "enforcementLevel": "mandatory",
            }
            yield step("update", place.type, "x", old, new)
            yield {"policyEvent": body}
        case "output":
            from tests.review_streams import stack_step

            yield stack_step(
                {"endpoint": texts[0], "kubeconfig": texts[0]},
                {"endpoint": texts[1], "kubeconfig": texts[1]},
            )
        case _:
            yield step("update", place.type, "x", old, new)


def shown(case_: Case, surfaces: dict[str, str]) -> list[str]:
    """The surfaces that show a piece of a canary, as it is or decoded."""
    return [
        name
        for name, text in surfaces.items()
        for value in case_.values
        if any(_shows(each, value) for each in _spellings(text))
    ]


def _shows(text: str, value: str) -> bool:
    return any(
        value[at : at + LENGTH] in text
        for at in range(max(1, len(value) - LENGTH + 1))
        if not _public(value[at : at + LENGTH])
    )


# Beginnings that every token of a product has.
_BEGINNINGS = sorted((re.split(r"\{", pattern)[0] for pattern in _PATTERNS.values()), key=len)


def _public(piece: str) -> bool:
    return any(piece in beginning for beginning in _BEGINNINGS)


def _spellings(text: str) -> Iterator[str]:
    plain = html.unescape(text)
    joined = re.sub(r"\s|⏎|<[^<>]*>", "", plain)
    unescaped = plain.replace('\\\\"', '"').replace('\\"', '"').replace("\\n", "\n")
    decoded = []
    for word in re.findall(r"[A-Za-z0-9+/_-]{12,}={0,2}", joined):
        try:
            decoded.append(
                base64.b64decode(
                    word + "=" * (-len(word) % 4),
                    altchars=b"-_" if "-" in word or "_" in word else None,
                ).decode("utf-8", "ignore")
            )
        except ValueError:
            continue
    yield from (text, plain, joined, unescaped, "\n".join(decoded))
