"""The stack as a whole: providers, kinds and protection."""

from __future__ import annotations

from policies.engine.fields import UnknownFieldError, maps_in
from policies.engine.resource import Resource, Stack
from policies.engine.rule import Parameters, Severity, Violations, parameter, stack_rule, violation
from policies.subjects.pods import PODS
from policies.subjects.structure import holds_settings_of_pods

# Components of the SDK that only group objects. Each object has its own provider.
GROUPS = ("kubernetes:provider", "kubernetes:yaml", "kubernetes:kustomize", "kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart")
_STARTS_NODES = {"inferplan:nodes:AutoNodePool", "inferplan:cluster:AutoModeSettings"}
KINDS = ("aws:s3:Bucket", "aws:s3:BucketV2", "aws:efs:FileSystem", "aws:eks:Cluster", "aws:kms:Key")
# By kind, or by the group of an API with a star for its name: what an object of that kind decides.
_POWERS = {
    "kubernetes:apiregistration.k8s.io:APIService": "serves part of the Kubernetes API",
    "kubernetes:certificates.k8s.io:CertificateSigningRequest": "creates credentials of a cluster user",
    "kubernetes:core:Endpoints": "can redirect the clients of a Service",
    "kubernetes:discovery.k8s.io:EndpointSlice": "can redirect the clients of a Service",
    "kubernetes:gateway.envoyproxy.io:EnvoyExtensionPolicy": "runs code in the gateway",
    "kubernetes:gateway.envoyproxy.io:EnvoyPatchPolicy": "changes the configuration of the gateway",
    "kubernetes:gateway.networking.k8s.io:ReferenceGrant": "opens a namespace to the routes of another",
    "kubernetes:networking.istio.io:EnvoyFilter": "changes the configuration of the mesh's proxies",
    "kubernetes:networking.istio.io:WasmPlugin": "runs code in the mesh's proxies",
    "kubernetes:extensions.istio.io:WasmPlugin": "runs code in the mesh's proxies",
    "kubernetes:security.istio.io:AuthorizationPolicy": "decides who may connect in the mesh",
    "kubernetes:security.istio.io:PeerAuthentication": "decides whether the mesh encrypts",
    "kubernetes:argoproj.io:Application": "deploys a repository that no rule can read",
    "kubernetes:argoproj.io:ApplicationSet": "deploys a repository that no rule can read",
    "kubernetes:argoproj.io:AppProject": "controls what may be deployed from where",
    "kubernetes:helm.toolkit.fluxcd.io:*": "deploys a chart that no rule can read",
    "kubernetes:kustomize.toolkit.fluxcd.io:*": "deploys a repository that no rule can read",
    "kubernetes:pkg.crossplane.io:*": "installs a controller with its own permissions",
    "kubernetes:operators.coreos.com:*": "installs an operator with its own permissions",
    "kubernetes:kyverno.io:*": "controls what the cluster admits",
    "kubernetes:policies.kyverno.io:*": "controls what the cluster admits",
    "kubernetes:templates.gatekeeper.sh:*": "controls what the cluster admits",
    "kubernetes:admissionregistration.k8s.io:MutatingAdmissionPolicy": "changes what the cluster admits",
    "kubernetes:admissionregistration.k8s.io:MutatingAdmissionPolicyBinding": "changes what the cluster admits",
    "kubernetes:policy.networking.k8s.io:*": "overrides every network policy",
    "kubernetes:projectcalico.org:*": "is a network policy that no rule can read",
    "kubernetes:crd.projectcalico.org:*": "is a network policy that no rule can read",
    "kubernetes:cilium.io:CiliumClusterwideNetworkPolicy": "is a network policy for every namespace",
    "aws:iam:AccessKey": "is a key that never expires, stored in the stack's state",
    "aws:iam:UserLoginProfile": "is a password of a user",
    "aws:iam:UserGroupMembership": "adds a user to groups",
    "aws:lambda:FunctionUrl": "opens a function to the internet",
    "aws:lambda:Permission": "lets other principals call a function",
    "aws:ram:ResourceShare": "shares resources with other accounts",
    "aws:ram:PrincipalAssociation": "shares resources with other accounts",
    "aws:organizations:Policy": "controls what an organization may do",
    "aws:ssoadmin:PermissionSet": "gives users permissions in accounts",
}
# A node with the label of the control plane gets the pods of the control plane, with their keys.
_NODE, _CONTROL_PLANE = "kubernetes:core:Node", ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_OWN_RULES = frozenset(["kubernetes:core:PersistentVolume", "kubernetes:apiextensions.k8s.io:CustomResourceDefinition"])


@parameter("providers", 1, "Number of Kubernetes providers that the stack may use", minimum=1)
@stack_rule(Severity.HIGH)
def stack_disallow_several_providers(stack: Stack, parameters: Parameters) -> Violations:
    """All Kubernetes resources use one provider.
    Why: Resources of the default provider go to the cluster of the current kubectl context.
    Remedy: pass opts=ResourceOptions(provider=...) with the same kubernetes Provider to every resource.
    """
    providers: dict[str, Resource] = {}
    for each in stack:
        if each.type.startswith("kubernetes:") and not each.type.startswith(GROUPS):
            provider = each.provider.partition("::ID::")[0]
            if not provider or "::default" in provider:
                yield violation(each.root, "uses the default provider")
            # What starts the nodes of EKS Auto Mode exists before the stack's own provider, which waits for nodes.
            if _STARTS_NODES.isdisjoint(each.components):
                providers.setdefault(provider, each)
    if len(providers) > parameters["providers"]:
        last = providers[max(providers)]
        yield violation(last.root, "uses a different provider than the rest of the stack")


@parameter("kinds", [], "Kinds that are reviewed elsewhere, for example `kubernetes:helm.sh:Release`")
@stack_rule(Severity.HIGH)
def stack_disallow_unseen_objects(stack: Stack, parameters: Parameters) -> Violations:
    """Every powerful object is of a kind that the rules can check.
    Why: Rules cannot block what they cannot read. A Release, a DeploymentPatch or an object of another controller could contain a
    privileged pod.
    Remedy: render charts with kubernetes.helm.v4.Chart, declare the whole object, use the aws provider; or list the kind under
    parameters.stack-disallow-unseen-objects.kinds.
    """
    for each in stack:
        if each.kind in parameters["kinds"]:
            continue
        if each.kind == "kubernetes:helm.sh:Release":
            yield violation(each.root, "is a chart whose objects no rule can read")
        elif each.kind.startswith("kubernetes:") and each.kind.endswith("Patch"):
            yield violation(each.root, "changes an object that no rule can read as a whole")
        elif each.kind.startswith("aws-native:"):
            yield violation(each.root, "belongs to a provider that no rule checks")
        else:
            with stack.unreadable:
                if power := power_of(each):
                    yield violation(each.root, f"{power}, and no rule checks it")


@stack_rule(Severity.HIGH, "inference; Security Hub: deletion protection")
def stack_require_protection(stack: Stack, _: Parameters) -> Violations:
    """Resources that hold data are protected from deletion.
    Why: A mistake in a stack file, or a destroy in the wrong shell, would delete the weights or the cluster.
    Remedy: pass opts=ResourceOptions(protect=True) or retain_on_delete=True.
    """
    unprotected = (each for each in stack.of(*KINDS) if not (each.protect or each.retain_on_delete))
    yield from (violation(each.root, "is not protected") for each in unprotected)


def power_of(resource: Resource) -> str:
    """The power of an object that no rule checks, "" if rules check it or it has none. Raises FieldError."""
    group = f"{resource.kind.rpartition(':')[0]}:*"
    if resource.kind == _NODE:
        labels = resource.at("metadata", "labels")
        return "has the label of the control plane" if any(not labels.at(name).absent for name in _CONTROL_PLANE) else ""
    if resource.kind == "kubernetes:core:PersistentVolume":
        path = resource.at("spec", "local", "path")
        return "mounts a path on the node" if path.text() and not path.text().startswith("/mnt/") else ""
    if power := _POWERS.get(resource.kind) or _POWERS.get(group):
        return power
    if resource.kind.startswith("kubernetes:") and not _is_checked(resource) and holds_settings_of_pods(resource.inputs):
        return "contains pod settings that no rule checks"
    return ""


def _is_checked(resource: Resource) -> bool:
    if resource.kind in PODS.kinds or resource.kind in _OWN_RULES:
        return True
    try:
        return bool(resource.parts(PODS)) and not any("podSpecPatch" in each for each in maps_in(resource.inputs))
    except UnknownFieldError:
        return True
