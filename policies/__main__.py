"""The policy pack as `pulumi preview --policy-pack policies` starts it. It assembles dispatchers and defines no rule."""

from __future__ import annotations

from pulumi_policy import PolicyPack

from policies.dispatch import NAME, dispatchers

PolicyPack(name=NAME, policies=dispatchers())
