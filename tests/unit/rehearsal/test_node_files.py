"""Which models of a real node get files of this machine, and which cannot."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml

from inferplan.errors import RequestError
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.workspace.real_node import RealNode, place_files, places_of_files
from tests.rehearsal.real_node import STACKS


@pytest.fixture
def workspace(tmp_path):
    document = yaml.safe_load((STACKS / "Pulumi.cpu.yaml").read_text())
    config = document["config"]
    config["inferplan:storage"]["shared"] = {"kind": "pvc", "claimName": "shared"}
    tiny = config["inferplan:models"]["tiny"]
    config["inferplan:models"]["copied"] = {**tiny, "preheat": {"into": "shared"}}
    path = tmp_path / "Pulumi.cpu.yaml"
    path.write_text(json.dumps(document))
    return SimpleNamespace(settings=validate(read_stack(path)))


def test_a_model_on_a_claim_gets_a_generated_model_or_the_users_files(workspace, tmp_path):
    places = places_of_files(workspace, RealNode(images=(), pool="cpu"), {})
    assert places.keys() == {"tiny"}
    place_files(places, tmp_path, {})
    folder = tmp_path / places["tiny"]
    assert (folder / "model.safetensors").stat().st_size > 10**6
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    (own / "config.json").write_text("{}")
    (own / "config.json").chmod(0o600)
    place_files(places, tmp_path, {"tiny": own})
    # The pods' user reads them, and nothing of the old files is left.
    assert [each.name for each in folder.iterdir()] == ["config.json"]
    assert (folder / "config.json").stat().st_mode & 0o777 == 0o644
    # The next `up` keeps what is there.
    place_files(places, tmp_path, {})
    assert [each.name for each in folder.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("node", "model"),
    [
        (RealNode(images=(), pool="cpu"), "copied"),
        (RealNode(images=(), pool="other"), "tiny"),
        (RealNode(images=(), pool="cpu", stubs=("an image",)), "tiny"),
    ],
)
def test_files_for_a_model_that_cannot_have_them_are_an_error(workspace, tmp_path, node, model):
    with pytest.raises(RequestError, match=f"on the real node {model} cannot have files"):
        places_of_files(workspace, node, {model: tmp_path})
