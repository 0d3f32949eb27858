"""Files of ConfigMaps and Secrets that containers run, read as options, or take variables from: each
is judged as if its content were in the container.
"""

import re
from collections.abc import Iterator

from inferplan.policies.engine.resource import Reading, Stack
from inferplan.policies.engine.rule import Parameters, Violations, stack_rule, violation
from inferplan.policies.rules.connections import pod_disallow_piped_programs
from inferplan.policies.rules.engines import (
    model_disallow_development_switches,
    model_disallow_trust_remote_code,
)
from inferplan.policies.rules.pickles import model_disallow_pickle
from inferplan.policies.subjects.mounted import (
    as_run,
    files_of,
    mounts_map,
    variables_of,
    with_raw,
)
from inferplan.policies.subjects.pods import PODS, Container, PodTemplate
from inferplan.policies.subjects.scripts import spelled_out
from inferplan.policies.subjects.serving import engine_of

# Settings of a model in JSON, YAML, TOML, properties, or Triton's text form.
_TRUSTS = re.compile(
    r"""(?i)trust[-_]remote[-_]code["']?\s*([:=]|value:?\s*\{\s*string_value:)\s*["']?(true|1|yes|on)\b"""
)
_COMMENTS = re.compile(r"(?m)^[ \t]*(#|//).*$")
# Rules on commands judge the commands of scripts too.
SCRIPTS = Reading(spelled_out)
_BY_CONTAINER = (
    model_disallow_development_switches,
    model_disallow_trust_remote_code,
    pod_disallow_piped_programs,
)


@stack_rule
def pod_restrict_mounted_files(stack: Stack, parameters: Parameters) -> Violations:
    # Many pods mount the same programs.
    judged: dict[tuple[str, ...], list[str]] = {}
    for resource in stack.of(*sorted(PODS.kinds)):
        with stack.unreadable:
            for pod in resource.parts(PODS):
                yield from _of_files(stack, pod, parameters, judged)
                for container in pod.containers:
                    yield from _of_variables(stack, container, parameters)


def _of_files(
    stack: Stack, pod: PodTemplate, parameters: Parameters, judged: dict[tuple[str, ...], list[str]]
) -> Violations:
    """`judged` has the problems of files that were run in containers of the same image."""
    read = set()
    for file in files_of(stack, pod):
        read.add(file.path)
        if not (file.closed or file.language) and _TRUSTS.search(_COMMENTS.sub("", file.text)):
            yield violation(file.content.field, "lets the model's files run as code")
        elif (container := as_run(file)) is not None:
            context = (file.language,) if file.language else tuple(container.words)
            key = (*context, file.text, container.at("image").text())
            if key not in judged:
                judged[key] = [*dict.fromkeys(_problems(container, parameters))]
            known = {*_problems(file.container, parameters)} if judged[key] else ()
            for problem in judged[key]:
                if problem not in known:
                    yield violation(file.content.field, problem)
    for container in pod.containers:
        options = container.option("--config") or ""
        if (
            engine_of(container) == "vllm"
            and options not in read
            and mounts_map(container, options)
        ):
            yield violation(
                container.at("args"), "reads options from a ConfigMap that is not in the stack"
            )


def _of_variables(stack: Stack, container: Container, parameters: Parameters) -> Violations:
    known = None
    for name, text, source in variables_of(stack, container):
        if text is None:
            if engine_of(container) in ("vllm", "triton"):
                yield violation(source, "sets variables that no rule can read")
            continue
        known = {*_problems(container, parameters)} if known is None else known
        raw = dict(container.field.value)
        others = [each for each in raw.get("env", ()) if each.get("name") != name]
        changed = with_raw(container, raw | {"env": [*others, {"name": name, "value": text.text}]})
        for problem in dict.fromkeys(_problems(changed, parameters)):
            if problem not in known:
                yield violation(text.field, problem)


def _problems(container: Container, parameters: Parameters) -> Iterator[str]:
    """The problems of a container, alone in its pod. Raises FieldError."""
    parts = [(rule, container) for rule in _BY_CONTAINER]
    for rule, part in (*parts, (model_disallow_pickle, container.pod)):
        yield from (each.problem for each in rule.check(part, parameters))
