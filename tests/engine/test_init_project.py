"""A project that `inferplan init` made, under Pulumi's own engine: up, again, quiet, judged by its
policy pack, and down.
"""

from __future__ import annotations

import os

import pytest

from tests.engine.requirement import needs_pulumi
from tests.engine.test_real_engine import ROOT, run

pytestmark = [pytest.mark.engine, pytest.mark.cluster, needs_pulumi]

NAME = "rack-2-east"


@pytest.fixture
def project(tmp_path):
    """The project's folder, and the environment that its owner has after `init`."""
    values = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PULUMI_CONFIG_PASSPHRASE", "INFERPLAN_"))
    }
    environment = {
        **values,
        "INFERPLAN_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
    }
    if "INFERPLAN_CACHE_DIR" in os.environ:
        environment["INFERPLAN_CACHE_DIR"] = os.environ["INFERPLAN_CACHE_DIR"]
    run(
        environment,
        "inferplan",
        "init",
        NAME,
        "--where",
        "local",
        "--consumer",
        "web",
        cwd=tmp_path,
    )
    folder = tmp_path / NAME
    (folder / ".venv").symlink_to(ROOT / ".venv")
    environment["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(folder / ".passphrase")
    yield folder, environment
    run(
        environment,
        "inferplan",
        "down",
        "local",
        "--engine",
        "rehearsal",
        "--cluster",
        cwd=folder,
        check=False,
    )


def test_a_new_project_comes_up_is_quiet_passes_its_policies_and_goes(project, tmp_path):
    folder, environment = project
    first, told = (
        run(environment, "inferplan", "up", "local", "--engine", "pulumi", "--yes", cwd=folder)
        for _ in range(2)
    )
    # The answer of a model takes a second, and shows nothing new after an update without changes.
    assert ("$ inferplan call" in first.stdout, "$ inferplan call" in told.stdout) == (True, False)
    assert " unchanged" in told.stdout
    assert " created (" not in told.stdout
    [directory] = (
        path.parent for path in (tmp_path / "state" / "clusters").glob(f"*{NAME}*/kubeconfig")
    )
    plain = {
        **environment,
        "PULUMI_BACKEND_URL": (directory / "pulumi").as_uri(),
        "INFERPLAN_KUBECONFIG": str(directory / "kubeconfig"),
    }
    options = ("--stack", "local", "--expect-no-changes", "--non-interactive")
    judged = run(plain, "pulumi", "preview", *options, "--policy-pack", "policies", cwd=folder)
    assert "Policies:" in judged.stdout
    assert "mandatory" not in judged.stdout.partition("Policies:")[2]
    run(
        environment,
        "inferplan",
        "down",
        "local",
        "--engine",
        "pulumi",
        "--yes",
        "--cluster",
        cwd=folder,
    )
    assert not directory.exists()
