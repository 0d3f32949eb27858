"""A sentence of vLLM is about the option that it names in short."""

from inferplan.trial.engines.vllm import _settings
from inferplan.trial.verdict import path_of
from tests.unit.serving.models import vllm


def test_a_size_is_found_by_its_short_name():
    spec = vllm(tensorParallelSize=2, extraArgs=["--seed=1", "--decode-context-parallel-size=3"])
    sentence = "tp_size=2 must be divisible by dcp_size=3."
    place = path_of(sentence, _settings("chat", spec))
    assert place == ("models", "chat", "extraArgs", 1)
