"""Previews a stack with the policy pack, and updates it if the preview deletes nothing."""

import sys

from pulumi import automation


def update(name: str, root: str = ".", packs: tuple[str, ...] = ("inferplan/policies",)) -> str:
    """Update the stack `name` of the project in `root`, and return the URL of its gateway. Raises
    RuntimeError if it would delete resources.
    """
    automation.LocalWorkspace(work_dir=root).install()
    stack = automation.select_stack(stack_name=name, work_dir=root)
    deleted: list[str] = []

    def note(event: automation.EngineEvent) -> None:
        if event.resource_pre_event is not None and event.resource_pre_event.metadata.op in (
            "delete",
            "replace",
        ):
            deleted.append(event.resource_pre_event.metadata.urn)

    stack.preview(policy_packs=[*packs], on_event=note, on_output=print)
    if deleted:
        raise RuntimeError(
            f"The update would delete or replace {', '.join(deleted)}. Run pulumi up and"
            " confirm it."
        )
    stack.up(policy_packs=[*packs], on_output=print)
    return str(stack.outputs()["gateway"].value)


if __name__ == "__main__":
    print(update(sys.argv[1]))
