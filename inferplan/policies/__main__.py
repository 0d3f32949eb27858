"""The policy pack as `pulumi preview --policy-pack inferplan/policies` starts it. It assembles dispatchers and defines no rule."""

from __future__ import annotations

from pulumi_policy import PolicyPack

from inferplan.policies.dispatch import NAME, dispatchers

PolicyPack(name=NAME, policies=dispatchers())
