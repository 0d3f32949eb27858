"""The provider of the components, as Pulumi starts it from `PulumiPlugin.yaml`."""

from inferplan.components.public.package import serve

serve()
