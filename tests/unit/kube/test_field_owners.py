"""A field manager is known by its whole name: anyone may choose a name that starts like another."""

from __future__ import annotations

import pytest

from inferplan.kube.field_owners import Owner, manager_of


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("kubectl-edit", Owner.PEOPLE),
        ("eksctl", Owner.PEOPLE),
        ("manager-x", Owner.PEOPLE),
        ("controllers-of-ann", Owner.PEOPLE),
        ("kedarnath", Owner.PEOPLE),
        ("kubelet2", Owner.PEOPLE),
        ("pulumi-kubernetesx", Owner.PEOPLE),
        ("inferplan-rehearsal-by-hand", Owner.PEOPLE),
        ("cert-managers", Owner.PEOPLE),
        ("eks", Owner.CONTROLLER),
        ("manager", Owner.CONTROLLER),
        ("controller", Owner.CONTROLLER),
        ("cert-manager-certificates-issuing", Owner.CONTROLLER),
        ("kube-controller-manager", Owner.CONTROLLER),
        ("keda", Owner.SCALER),
        ("vpa-updater", Owner.SCALER),
        ("pulumi-kubernetes-c39f", Owner.STACK),
        ("inferplan-rehearsal", Owner.STACK),
    ],
)
def test_managers_are_known_by_their_whole_names(name, owner):
    assert manager_of(name) is owner


def test_a_controller_that_scales_is_a_scaler():
    assert manager_of("kube-controller-manager", "scale") is Owner.SCALER
    assert manager_of("unknown", "status") is Owner.CONTROLLER
    assert manager_of("kubectl", "scale") is Owner.PEOPLE
