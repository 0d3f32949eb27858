"""The trials of the engines, by the name of the engine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inferplan.trial.engines import ray_serve, sglang, tensorrt_llm, triton, vllm
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding


@dataclass(frozen=True, kw_only=True)
class EngineTrial:
    """An engine that can be tried: its name in sentences, its program and the package that has it
    ("" if images alone have it), what no trial here judges, and the trial, which yields its findings
    in the order of its steps.
    """

    title: str
    program: str
    package: str
    unjudged: str
    run: Callable[[Subject, Callable[[str], None]], Iterator[Finding]]


TRIALS = {
    "vllm": EngineTrial(
        title=vllm.TITLE,
        program="vllm",
        package="the CPU build of vLLM",
        unjudged=vllm.UNJUDGED,
        run=vllm.run,
    ),
    "triton": EngineTrial(
        title=triton.TITLE,
        program="tritonserver",
        package="nvidia-pytriton",
        unjudged=triton.UNJUDGED,
        run=triton.run,
    ),
    "ray-serve": EngineTrial(
        title=ray_serve.TITLE,
        program="serve",
        package="ray[serve]",
        unjudged=ray_serve.UNJUDGED,
        run=ray_serve.run,
    ),
    "sglang": EngineTrial(
        title=sglang.TITLE,
        program="sglang",
        package="sglang",
        unjudged=sglang.UNJUDGED,
        run=sglang.run,
    ),
    "tensorrt-llm": EngineTrial(
        title=tensorrt_llm.TITLE,
        program="",
        package="",
        unjudged=tensorrt_llm.UNJUDGED,
        run=tensorrt_llm.run,
    ),
}
