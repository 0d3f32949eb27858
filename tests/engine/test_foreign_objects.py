"""A claim of the user's own in the stack's namespace survives `down`, a move and `pulumi destroy`
under Pulumi's own engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferplan.kube.api import Api, ApiError
from inferplan.rehearsal.cluster import Cluster, start
from tests.engine.own_project import own_project
from tests.engine.requirement import needs_pulumi
from tests.engine.test_real_engine import run

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]
PROBE = "persistentvolumeclaims/source"
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "source"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    directory = tmp_path_factory.mktemp("foreign")
    values = {
        **os.environ,
        "INFERPLAN_STATE_DIR": str(directory / "state"),
        "PULUMI_CONFIG_PASSPHRASE": "inferplan-example",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    yield values
    run(
        values,
        "inferplan",
        "down",
        "local",
        "--engine",
        "rehearsal",
        "--cluster",
        "--yes",
        check=False,
    )


@pytest.fixture(scope="module")
def cluster(environment) -> Cluster:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", environment["INFERPLAN_STATE_DIR"])
        return start("local")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    return own_project(tmp_path_factory.mktemp("own"))


def exists(cluster: Cluster, path: str) -> bool:
    api = cluster.api()
    try:
        return "deletionTimestamp" not in api.request("GET", path)["metadata"]
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    finally:
        api.close()


@pytest.fixture
def stack(project: Path) -> Iterator[Path]:
    """The file of the stack local, whose changes end with the test."""
    file = project / "stacks" / "Pulumi.local.yaml"
    text = file.read_text()
    yield file
    file.write_text(text)


def add(stack: Path, line: str) -> None:
    stack.write_text(stack.read_text().replace("config:\n", f"config:\n  {line}\n", 1))


def run_in(project: Path, environment: dict[str, str], *command: str, check: bool = True) -> Any:
    return run(environment, *command, check=check, cwd=project)


def inside(path: str, namespace: str = "inference") -> str:
    return f"/api/v1/namespaces/{namespace}/{path}"


def test_down_stops_and_a_destroy_leaves_the_claim_and_its_namespace(
    environment, cluster: Cluster, project: Path
):
    api = up_with_claim(project, environment, cluster)

    stopped = run_in(
        project,
        environment,
        *("inferplan", "down", "local", "--engine", "pulumi", "--yes"),
        check=False,
    )
    assert stopped.returncode == 1
    assert "PersistentVolumeClaim source" in stopped.stderr
    assert "Nothing was deleted" in stopped.stderr
    assert exists(cluster, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")

    destroy(project, environment, cluster)
    assert exists(cluster, inside(PROBE))
    assert not exists(cluster, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")

    stopped = run_in(
        project, environment, "inferplan", "up", "local", "--engine", "pulumi", check=False
    )
    assert stopped.returncode == 1
    assert "inferplan:adoptNamespace: true" in stopped.stderr
    api.request("DELETE", inside(PROBE))
    api.request("DELETE", "/api/v1/namespaces/inference")
    api.close()


def up_with_claim(project: Path, environment: dict[str, str], cluster: Cluster) -> Api:
    """Bring the stack up and add the user's claim."""
    run_in(project, environment, "inferplan", "up", "local", "--engine", "pulumi")
    api = cluster.api()
    api.request("POST", inside("persistentvolumeclaims"), CLAIM)
    return api


def destroy(project: Path, environment: dict[str, str], cluster: Cluster) -> None:
    by_hand = {
        **environment,
        "PULUMI_BACKEND_URL": (cluster.directory / "pulumi").as_uri(),
        "INFERPLAN_KUBECONFIG": str(cluster.kubeconfig),
    }
    run_in(project, by_hand, "pulumi", "destroy", "--stack", "local", "--yes", "--skip-preview")


# The rehearsal, which changes the same objects, tries these in every run.
@pytest.mark.full
def test_a_move_leaves_the_claim_and_a_namespace_without_one_goes(
    environment, cluster: Cluster, project: Path, stack: Path
):
    api = up_with_claim(project, environment, cluster)
    add(stack, "inferplan:namespace: elsewhere")
    stopped = run_in(
        project, environment, "inferplan", "up", "local", "--engine", "pulumi", check=False
    )
    assert stopped.returncode == 1, stopped.stderr[-2000:]
    assert "--keep-namespace" in stopped.stderr
    assert not exists(cluster, "/api/v1/namespaces/elsewhere")
    run_in(
        project, environment, "inferplan", "up", "local", "--engine", "pulumi", "--keep-namespace"
    )
    assert exists(cluster, "/apis/apps/v1/namespaces/elsewhere/deployments/llama-3-8b")
    assert exists(cluster, inside(PROBE))
    assert not exists(cluster, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")
    run_in(project, environment, "inferplan", "down", "local", "--engine", "pulumi", "--yes")
    assert not exists(cluster, "/api/v1/namespaces/elsewhere")
    assert exists(cluster, inside(PROBE))
    api.request("DELETE", inside(PROBE))
    api.request("DELETE", "/api/v1/namespaces/inference")
    api.close()


@pytest.mark.full
def test_down_keeps_the_namespace_on_request_and_the_stack_adopts_it(
    environment, cluster: Cluster, project: Path, stack: Path
):
    api = up_with_claim(project, environment, cluster)
    run_in(
        project,
        environment,
        "inferplan",
        "down",
        "local",
        "--engine",
        "pulumi",
        "--yes",
        "--keep-namespace",
    )
    assert exists(cluster, inside(PROBE))

    add(stack, "inferplan:adoptNamespace: true")
    run_in(project, environment, "inferplan", "up", "local", "--engine", "pulumi")
    assert exists(cluster, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")
    run_in(project, environment, "inferplan", "down", "local", "--engine", "pulumi", "--yes")
    assert exists(cluster, inside(PROBE))
    assert not exists(cluster, "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b")
    api.close()
