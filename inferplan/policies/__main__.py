"""The policy pack as `pulumi preview --policy-pack inferplan/policies` starts it."""

from inferplan.policies.pack import serve

serve(__file__)
