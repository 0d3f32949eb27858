"""A fault of this computer is no fault of an application."""

import pytest

from inferplan.trial.computer import Computer
from inferplan.trial.engines.ray_serve import _finding
from inferplan.trial.subject import Subject
from tests.unit.serving.test_ray_serve import ray


@pytest.mark.parametrize(
    ("sentence", "missing", "state"),
    [
        (
            "Exception: The current node timed out during startup. This could happen",
            "",
            "not judged",
        ),
        ("ModuleNotFoundError: No module named 'torch'", "torch", "not judged"),
        ("ModuleNotFoundError: No module named 'app.parts'", "app.parts", "rejected"),
        ("TypeError: Echo takes no argument", "", "rejected"),
        ("", "", "works"),
    ],
)
def test_what_this_computer_lacks_is_not_judged(tmp_path, sentence, missing, state):
    app = {"kind": "custom", "importPath": "app:echo"}
    spec = ray(image="docker.io/acme/echo:1", applications={"echo": app})
    subject = Subject(
        name="chat", spec=spec, container={"env": []}, weights=tmp_path, place=Computer("serve")
    )
    line = {"application": "echo", "deployment": "", "step": "build"}
    finding = _finding(subject, {**line, "sentence": sentence, "missing": missing})
    assert finding.state == state
    assert finding.sentence == sentence
