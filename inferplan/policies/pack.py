"""The policy pack in a folder of anyone's own: `PulumiPolicy.yaml`, and two lines of Python that
call `serve`.

The settings of a stack are in `stacks/<stack>.json` of that folder.
"""

import sys
from pathlib import Path


def serve(main: str) -> None:
    """Register the pack with Pulumi and answer its engine until it ends. `main` is the `__file__`
    of the folder's `__main__.py`.
    """
    try:
        from pulumi_policy import PolicyPack

        from inferplan.policies.dispatch import NAME, dispatchers
    except ModuleNotFoundError as error:
        sys.exit(
            f"The policy pack needs the package {error.name}, which {sys.executable} does not have."
            " Install inferplan's wheel with the extra policy: inferplan docs installing"
        )
    PolicyPack(name=NAME, policies=dispatchers(Path(main).resolve().parent / "stacks"))
