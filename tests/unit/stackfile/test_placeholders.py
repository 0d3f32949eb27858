"""Values of the examples in a stack that was copied from one: told with their places, and rejected
for a real cluster.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from inferplan.stackfile.public_examples import lines
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

PROJECT = Path(__file__).parents[3]
SALT = "encryptionsalt: v1:AAECAwQFBgc=:v1:AAECAwQFBgcICQoL:AAECAwQFBgcICQoLDA0ODxAREhMUFQ=="
EXAMPLES = [*PROJECT.glob("stacks/*.yaml"), *PROJECT.glob("docs/*/Pulumi.*.yaml")]


def told(tmp_path: Path, text: str) -> tuple[str, ...]:
    path = tmp_path / "Pulumi.mine.yaml"
    path.write_text(text)
    file = read_stack(path, shown_path="mine.yaml")
    return lines(file, validate(file))


def copied(name: str) -> str:
    return re.sub(
        r"encryptionsalt: .*", SALT, (PROJECT / "stacks" / f"Pulumi.{name}.yaml").read_text()
    )


def test_a_copy_of_prod_lists_every_example_value_with_its_position_and_remedy(tmp_path):
    lines_of_copy = told(tmp_path, copied("prod"))
    paths = [line.split(": ")[1] for line in lines_of_copy]
    assert paths == [
        "cluster.create.publicAccessCidrs[0]",
        "cluster.create.admins[0]",
        "nodePools.h100.capacityReservation.id",
        "storage.weights.bucket",
        "storage.weights.create.accessLogs.bucket",
        "gateway.host",
        "gateway.alb.certificateArn",
    ]
    assert (
        lines_of_copy[2]
        == "mine.yaml:28:33: nodePools.h100.capacityReservation.id: 'cr-0123456789abcdef0' is an"
        " example. Write the id of your reservation (aws ec2 describe-capacity-reservations)."
    )
    assert all(re.match(r"mine\.yaml:\d+:\d+: ", line) for line in lines_of_copy)


def test_the_key_of_staging_is_one_of_them(tmp_path):
    assert any(
        "kmsKeyArn" in line and "aws kms list-keys" in line
        for line in told(tmp_path, copied("staging"))
    )


def test_a_value_of_the_user_s_own_is_no_example(tmp_path):
    text = copied("prod")
    for old, new in {
        "198.51.100.0/24": "18.204.11.0/24",
        "111122223333": "904532871166",
        "cr-0123456789abcdef0": "cr-0a1b2c3d4e5f60718",
        "acme-inference-prod-weights": "acme-corp-llm",
        "acme-access-logs": "acme-corp-logs",
        "llm.acme.example": "llm.exampleton.io",
    }.items():
        text = text.replace(old, new)
    assert told(tmp_path, text) == ()


HOSTS = (
    "llm.acme.example",
    "*.example.com",
    "example.org:8443",
    "https://minio.acme.example:9000",
    "https://anna@mirror.example.net/llm",
    "nas.acme.example:/export",
    "registry.acme.example/mirror",
    "localhost,.acme.example",
    "--url=http://acme.example/v1",
)
PATHS = (
    "models/example/llama-3-70b",
    "/data/example",
    "ghcr.io/org/example:1.2",
    "https://mirror.acme.io/example.com/llm",
    "example/llama-3-8b",
    "example",
    "--path=models/example",
    "example.company.io",
)


def test_only_a_host_of_a_documentation_domain_is_a_placeholder(tmp_path):
    data = {f"v{index}": value for index, value in enumerate((*HOSTS, *PATHS))}
    objects = {
        "values": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "values"},
            "data": data,
        }
    }
    lines_of_copy = told(
        tmp_path, f"{copied('onprem').rstrip()}\n  inferplan:extraObjects: {json.dumps(objects)}\n"
    )
    found = [
        re.search(r"data\.v(\d+): .* is a domain for documentation", line)
        for line in lines_of_copy
        if "extraObjects" in line
    ]
    assert [int(each[1]) for each in found if each] == list(range(len(HOSTS)))
    assert None not in found


def test_the_simulated_cluster_may_have_any_of_them(tmp_path):
    assert told(tmp_path, copied("local")) == ()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_keeps_its_values(path):
    file = read_stack(path)
    assert lines(file, validate(file)) == ()
