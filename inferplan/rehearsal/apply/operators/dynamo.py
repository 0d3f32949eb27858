"""Stub of the Dynamo operator: a Deployment for each component of a DynamoGraphDeployment, and a
Service for each frontend.

Names and labels are those of Dynamo v1.4. Without Grove the operator creates Deployments too; a
component of several nodes is one Deployment here, with a pod for each node. Planners, its images,
commands, variables and probes are missing: no container runs.
"""

from collections.abc import Iterator

from inferplan.rehearsal.apply.operators.stub import Object, Stub, marked, objects


def stub(live: Object, _owned: list[Object]) -> Stub:
    rows, templates = [], []
    for name, component in _components(live["spec"]):
        replicas = int(component.get("replicas", 1)) * int(
            (component.get("multinode") or {}).get("nodeCount") or 1
        )
        rows.append(
            {
                "name": name,
                "replicas": replicas,
                "serves": component.get("type", component.get("componentType")) == "frontend",
            }
        )
        templates.append(_template(component))
    children = objects("dynamo", live, components=rows)
    for each, pods in zip(
        (each for each in children if each["kind"] == "Deployment"), templates, strict=True
    ):
        each["spec"]["template"] = marked(pods, labels=each["metadata"]["labels"])
    return Stub(
        operator="Dynamo operator",
        children=children,
        condition="Ready",
        status={"state": "successful"},
    )


def _components(spec: Object) -> Iterator[tuple[str, Object]]:
    """The components by name: a mapping in v1alpha1, a list in v1beta1."""
    yield from (spec.get("services") or {}).items()
    yield from ((each["name"], each) for each in spec.get("components") or ())


def _template(component: Object) -> Object:
    if template := component.get("podTemplate"):
        return {
            **template,
            "spec": {
                **template["spec"],
                "containers": [
                    {"image": "dynamo", **each} for each in template["spec"]["containers"]
                ],
            },
        }
    # v1alpha1, and a component with the operator's own container only.
    pod = dict(component.get("extraPodSpec") or {})
    main = {"name": "main", "image": "dynamo", **(pod.pop("mainContainer", None) or {})}
    parts = (component.get("resources") or {}).items()
    resources = {
        part: dict(_amounts(values)) for part, values in parts if part in ("requests", "limits")
    }
    return {
        "spec": {
            **pod,
            "containers": [{"resources": resources, **main}, *(pod.get("containers") or ())],
        }
    }


def _amounts(values: Object) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if name != "custom":
            yield ("nvidia.com/gpu" if name == "gpu" else name), str(value)
    yield from (values.get("custom") or {}).items()
