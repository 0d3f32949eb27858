"""What SGLang says about its arguments is a finding at the setting that causes it.

The program of the tests prints what SGLang 0.5.23 printed for these arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.errors import RequestError
from inferplan.trial.computer import Computer
from inferplan.trial.engines.sglang import run
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding
from tests.unit.serving.models import container_of

WEIGHTS = {"store": "weights", "path": "chat"}


def tried(folder: Path, printed: str, **fields: Any) -> list[Finding]:
    (folder / "config.json").write_text("{}")
    program = folder / "sglang"
    program.write_text("")
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\n{printed}\n")
    python.chmod(0o755)
    model = {"engine": "sglang", "pool": "p", "weights": WEIGHTS, **fields}
    spec = SglangSpec.model_validate(model)
    subject = Subject(
        name="chat",
        spec=spec,
        container=container_of(spec),
        weights=folder,
        place=Computer(str(program)),
    )
    return list(run(subject, lambda _: None))


def rejected(sentence: str) -> str:
    lines = ("trial: release 0.5.23", f"trial: rejected {json.dumps(sentence)}")
    return f"print({lines[0]!r}); print({lines[1]!r})"


def test_an_exception_of_the_classes_is_at_its_setting(tmp_path):
    said = "ValueError: User-specified context_length (4096) is greater than the derived one (512)"
    [finding] = tried(tmp_path, rejected(said), contextLength=4096)
    assert (finding.state, finding.sentence) == ("rejected", said)
    assert finding.path == ("models", "chat", "contextLength")


def test_the_parser_of_the_engine_is_heard(tmp_path):
    said = "argument --dtype: invalid choice: 'half2' (choose from 'auto', 'half')"
    program = (
        f"import sys; print('trial: release 0.5.23'); sys.exit('sglang serve: error: ' + {said!r})"
    )
    [finding] = tried(tmp_path, program, extraArgs=["--sampling-backend", "pytorch"])
    assert (finding.state, finding.sentence) == ("rejected", said)


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: CUDA is not available",
        "ValueError: this quantization is not supported on CPU",
        "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
    ],
)
def test_a_fault_of_the_cpu_is_not_judged(tmp_path, said):
    [finding] = tried(tmp_path, rejected(said))
    assert (finding.state, finding.sentence) == ("not judged", said)


def test_accepted_arguments_work_and_name_another_release(tmp_path):
    [finding] = tried(tmp_path, "print('trial: release 0.5.1'); print('trial: accepted')")
    assert finding.state == "works"
    assert finding.sentence.startswith("judged by SGLang 0.5.1; the plan's image has")


def test_an_environment_without_the_engine_is_no_finding(tmp_path):
    with pytest.raises(RequestError, match="cannot run SGLang"):
        tried(tmp_path, "import nowhere")
