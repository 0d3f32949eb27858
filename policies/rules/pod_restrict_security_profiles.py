"""AppArmor and SELinux stay enforced."""

from __future__ import annotations

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate

TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for context in (pod.at("securityContext"), *(each.at("securityContext") for each in pod.containers)):
        profile = context.at("appArmorProfile", "type")
        if profile.text() not in ("", "RuntimeDefault", "Localhost"):
            yield found(profile, "disables AppArmor")
        selinux = context.at("seLinuxOptions")
        if selinux.at("type").text() not in TYPES:
            yield found(selinux.at("type"), "is a type that the baseline Pod Security Standard forbids")
        for name in ("user", "role"):
            if selinux.at(name).text():
                yield found(selinux.at(name), "sets an SELinux identity")
    for key, profile in pod.metadata.at("annotations").entries():
        if key.startswith(APPARMOR) and profile.text() not in ("", "runtime/default") and not profile.text().startswith("localhost/"):
            yield found(profile, "disables AppArmor")


RULE = Rule(
    id="pod-restrict-security-profiles",
    title="AppArmor and SELinux stay enforced",
    severity=Severity.HIGH,
    refs=(
        "PSS baseline: AppArmor",
        "PSS baseline: SELinux",
    ),
    why="An unconfined container, or one with its own SELinux user or role, escapes the profile that limits it",
    remedy="use RuntimeDefault or Localhost for AppArmor, and set no SELinux user, role or unusual type",
    subject=PODS,
    check=_check,
)
