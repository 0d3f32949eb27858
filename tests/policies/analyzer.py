"""The real policy pack process, spoken to in Pulumi's analyzer protocol as the engine speaks it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from inferplan.kube.names import IDENTITY_POLICY
from inferplan.policies.engine.identity import count_judged, statement
from inferplan.pulumi_engine.recording import Recording, Registration
from inferplan.pulumi_engine.values import to_wire

PACK = Path(__file__).resolve().parents[2] / "inferplan" / "policies"
MANDATORY, REMEDIATE = analyzer_pb2.MANDATORY, analyzer_pb2.REMEDIATE


@contextmanager
def pack(
    folder: Path = PACK, python: Path = Path(sys.executable)
) -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    """The pack in `folder`, run by `python`; its process ends with the block."""
    environment = {
        **os.environ,
        "PULUMI_PROJECT": "inferplan",
        "PULUMI_STACK": "test",
        "PULUMI_DRY_RUN": "true",
    }
    with subprocess.Popen(
        [python, str(folder)], stdout=subprocess.PIPE, env=environment, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().decode().strip()
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield analyzer_pb2_grpc.AnalyzerStub(channel)
        finally:
            process.terminate()


def configure(stub: Any, properties: dict[str, Any], *, remediate: bool = False) -> None:
    """Gives every policy the same properties, as a config file with an entry for each does."""
    config = {}
    for policy in stub.GetAnalyzerInfo(_empty()).policies:
        level = (
            REMEDIATE
            if remediate and policy.name.endswith("-remediate")
            else policy.enforcementLevel
        )
        config[policy.name] = analyzer_pb2.PolicyConfig(enforcementLevel=level)
        config[policy.name].properties.update(properties)
    stub.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig=config))


Outputs = Callable[[Registration], dict[str, Any]]


def declared(each: Registration) -> dict[str, Any]:
    """The outputs of a resource that does not exist yet, in a preview: its inputs."""
    return each.inputs


def analyze(
    stub: Any,
    recording: Recording,
    only: str | Collection[str] = "",
    outputs: Outputs = declared,
    *,
    refreshed: Recording | None = None,
) -> list[Any]:
    """Every diagnostic on `recording`: the inputs of each resource first (or only of those that
    `only` names as `Kind/name`), then the stack's outputs, as the engine asks.

    `refreshed` is the stack with the resources that the engine refreshes in order to delete them.
    """
    told: list[Any] = []
    names = (only,) if isinstance(only, str) else only
    for each in recording:
        if only == "" or f"{each.type.rpartition(':')[2]}/{each.name}" in names:
            request = analyzer_pb2.AnalyzeRequest(
                type=each.type,
                properties=to_wire(each.inputs),
                urn=each.urn,
                name=each.name,
                options=_options(each),
                provider=_provider(each),
            )
            told += stub.Analyze(request).diagnostics
    return told + analyze_stack(stub, refreshed or recording, outputs, judged=recording)


def analyze_stack(
    stub: Any,
    recording: Recording,
    outputs: Outputs = declared,
    *,
    judged: Recording | None = None,
) -> list[Any]:
    """The diagnostics on the stack alone. The pack judges `judged`, without what is deleted."""
    resources = [
        analyzer_pb2.AnalyzerResource(
            type=each.type,
            properties=to_wire(outputs(each)),
            urn=each.urn,
            name=each.name,
            options=_options(each),
            provider=_provider(each),
            parent=each.parent,
            dependencies=each.dependencies,
            propertyDependencies={
                name: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
                for name, urns in each.property_dependencies.items()
            },
        )
        for each in recording
    ]
    # The engine sends the stack itself too, with what the program exports.
    own = analyzer_pb2.AnalyzerResource(
        type="pulumi:pulumi:Stack",
        properties=to_wire(dict(recording.outputs)),
        urn=recording.stack_urn,
        name=recording.stack,
    )
    resources.append(own)
    diagnostics = list(
        stub.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources)).diagnostics
    )
    (identity,) = [each for each in diagnostics if each.policyName == IDENTITY_POLICY]
    assert identity.message.endswith(statement(count_judged(judged or recording)))
    return [each for each in diagnostics if each is not identity]


def remediated(stub: Any, each: Registration) -> list[Any]:
    """The changes that the pack makes to one resource."""
    request = analyzer_pb2.AnalyzeRequest(
        type=each.type,
        properties=to_wire(each.inputs),
        urn=each.urn,
        name=each.name,
        options=_options(each),
    )
    return list(stub.Remediate(request).remediations)


def _options(each: Registration) -> Any:
    return analyzer_pb2.AnalyzerResourceOptions(
        protect=each.options.protect,
        parent=each.parent,
        ignoreChanges=each.options.ignore_changes,
    )


def _provider(each: Registration) -> Any:
    if not each.provider:
        return None
    return analyzer_pb2.AnalyzerProviderResource(
        type="pulumi:providers:kubernetes", urn=each.provider, name="cluster"
    )


def _empty() -> Any:
    from google.protobuf import empty_pb2

    return empty_pb2.Empty()
