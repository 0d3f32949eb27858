"""Values that an audit hides: what a Secret holds, and what a name or an option says is secret."""

from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest
from inferplan.audit.secrets import veiled, without_secrets
from inferplan.policies.subjects.secret_texts import reveals

POD = {
    "kind": "Pod",
    "spec": {
        "containers": [
            {
                "args": [
                    "--port",
                    "8000",
                    "--api-key",
                    "canary-1",
                    "--token",
                    "--verbose",
                    "$(MODEL)",
                ],
                "env": [
                    {"name": "HF_TOKEN", "value": "canary-2"},
                    {"name": "MODEL", "value": "qwen"},
                ],
                "httpHeaders": [{"name": "Authorization", "value": "Basic canary-3"}],
            }
        ]
    },
}


def test_the_content_of_a_secret_is_hidden_before_it_is_judged():
    secret = {
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": {"b": "canary-5"},
        "type": "Opaque",
    }
    assert veiled(secret, lambda _: "hidden") == {**secret, "stringData": "hidden"}
    assert veiled(POD, lambda _: "hidden") == POD


def test_words_that_quote_an_object_lose_its_secrets():
    words = (
        'spec.template: Invalid value: {"args":["--api-key","canary-1"],"env":"canary-2"}: qwen is'
        " immutable"
    )
    assert "canary" not in without_secrets(words, POD)
    assert "qwen is immutable" in without_secrets(words, POD)
    secret = {"kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"b": "canary-5"}}
    assert "canary" not in without_secrets('stringData: Invalid value: "canary-5"', secret)
    assert without_secrets("keys is invalid", secret) == "keys is invalid"


def test_a_long_word_is_searched_in_linear_time():
    # Quadratic, this took 50 s.
    assert not reveals("a" * 300_000)
    assert reveals("a" * 300_000 + " postgres://user:canary-4@db/x")


def test_pods_of_an_object_are_shown_and_its_secrets_are_not():
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "llm-ray"},
        "spec": {"env": [{"name": "RAY_PASSWORD", "value": "llm-ray-canary"}]},
    }
    words = "Pod llm-ray-raycluster-head: the pod is Pending; it has llm-ray-canary, llm-ray-8Fq2x9, data-llm-ray-2"
    found = finding(
        "unready", "RayService default/llm-ray", "", words, Manifest(body=body, place="a:1")
    )
    assert "Pod llm-ray-raycluster-head: the pod is Pending" in found.reason
    assert "data-llm-ray-2" in found.reason
    assert "canary" not in found.reason
    assert "8Fq2x9" not in found.reason
