"""Plans of a stack: what its program registers, compared with a saved plan or with the plan of
another revision.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferplan.documents.files import state_directory
from inferplan.errors import OperationError, RequestError
from inferplan.kube.disclosure.disclosure import disclosed
from inferplan.planning.kubernetes_upgrade import skipped_versions
from inferplan.planning.notes import stack_notes
from inferplan.pulumi_engine.plan.states import States, load, save, states_of
from inferplan.pulumi_engine.plan.steps import Plan, make_plan
from inferplan.pulumi_engine.recording import Recording
from inferplan.pulumi_engine.values import Masked
from inferplan.updating.downtime import (
    declared_scalers,
    declared_servers,
    downtimes,
    scaler_changes,
)
from inferplan.workspace.isolation import without_network
from inferplan.workspace.project import (
    child_environment,
    project_name,
    project_root,
    stack_files,
    stack_name,
)
from inferplan.workspace.revisions import checked_out, commit_of, stack_data
from inferplan.workspace.workspace import Workspace

_SECONDS = 300
_RUN = "from inferplan.commands.main import run; run()"
_PACKAGE = Path(__file__).parents[1]
# Annotations that are derived from secrets, in plain text.
_DERIVED = ("inferplan.dev/keys", "inferplan.dev/server-key")


@dataclass(frozen=True, kw_only=True)
class Baseline:
    name: str
    states: States | None
    commit: bool = False
    """True if it was planned from a revision, not read from a file."""


@dataclass(frozen=True, kw_only=True)
class StackPlan:
    """A plan, what the program registered for it, and notes on the comparison."""

    plan: Plan
    recording: Recording
    workspace: Workspace
    baseline: Baseline | None
    notes: tuple[str, ...]

    def saved(self) -> bytes:
        """The plan as a file to compare with later. Secrets are masked."""
        return save(self.plan.states)

    def shown(self) -> bytes:
        """The plan for people and logs: values that no table knows as public are hidden, so it is
        no plan to compare with.
        """
        document = json.loads(self.saved())
        del document["format"]
        for key in ("config", "outputs"):
            document[key] = disclosed(document[key])
        for each in document["resources"]:
            each["inputs"] = disclosed(each["inputs"], each["type"])
        return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"

    def events(self) -> bytes:
        from inferplan.planning.policy_check import judge
        from inferplan.planning.violation_formats import packs, policy_events
        from inferplan.pulumi_engine.plan.events import events_of, to_ndjson

        report = judge(self.recording, self.workspace.root)
        against = "" if self.baseline is None else self.baseline.name
        return to_ndjson(
            events_of(self.plan, against=against, judged=policy_events(report), packs=packs(report))
        )

    def check(self) -> None:
        stack = self.workspace.stack
        if self.plan.rejected:
            lines = [f"  {message}\n      {remedy}" for message, remedy in self.plan.rejected]
            raise OperationError(
                "\n".join([f"Pulumi would reject this update of {stack}:", *lines])
            )
        before = None if self.baseline is None else self.baseline.states
        if before is not None and (
            problem := skipped_versions(before.outputs, self.plan.states.outputs)
        ):
            raise OperationError(f"The cluster would reject this update of {stack}: {problem}")
        if excess := over_budget(self.plan.states):
            raise OperationError(f"{stack} is over budget: {excess}")


def plan_stack(workspace: Workspace, baseline: Baseline | None = None) -> StackPlan:
    """Plan the stack without a cluster, network or credential. Raises ProgramFailed with the
    message of the program.
    """
    recording = workspace.record()
    placeholders = workspace.secrets.placeholders
    notes: list[str] = []
    before = None if baseline is None else baseline.states
    if (
        baseline is not None
        and before is not None
        and before.placeholders not in (None, placeholders)
    ):
        words = ("with", "without") if placeholders else ("without", "with")
        notes.append(
            f"{baseline.name} was planned {words[0]} the passphrase and this plan is made"
            f" {words[1]} it, so changes of keys and other secrets are not shown. To compare them,"
            " make both plans with PULUMI_CONFIG_PASSPHRASE set."
        )
        before = with_secrets_of(before, states_of(recording))
    plan = make_plan(recording, before)
    plan = replace(plan, states=replace(plan.states, placeholders=placeholders))
    if before is not None:
        notes += scaler_changes(
            declared_scalers(before.resources), declared_scalers(plan.states.resources)
        )
        notes += downtimes(
            declared_servers(before.resources), declared_servers(plan.states.resources)
        )
    return StackPlan(
        plan=plan, recording=recording, workspace=workspace, baseline=baseline, notes=tuple(notes)
    )


def refusal_events(stack: str, message: str) -> bytes:
    from inferplan.pulumi_engine.plan.events import refusal_events, to_ndjson

    name = Path(stack).name.removeprefix("Pulumi.").removesuffix(".yaml")
    return to_ndjson(refusal_events(project_name(project_root()), name, message))


def over_budget(states: States) -> str:
    if "inferplan:budget" not in states.config:
        return ""  # prices take 50 ms to import
    from inferplan.capacity.budget import budget_of, over_budget
    from inferplan.capacity.cost import monthly_cost
    from inferplan.capacity.declared import Declared
    from inferplan.pulumi_engine.reading.events import STACK_TYPE

    budget = budget_of(dict(states.config))
    if budget is None:
        return ""
    declared = [
        Declared(type=each.type, urn=each.urn, name=each.urn.split("::", 3)[-1], inputs=each.inputs)
        for each in states.resources
    ]
    stack = Declared(type=STACK_TYPE, urn="", name=states.stack, inputs=dict(states.outputs))
    return over_budget(monthly_cost([*declared, stack]), budget)


def read_baseline(against: str, stack: str, *, trust: bool = False) -> Baseline:
    """The plan in the file `against` (from --save), or of the revision `against`: its stack file,
    rendered by this installation without secrets, or with `trust` by its own code.

    Raises OperationError.
    """
    path = Path(against)
    if path.exists() or path.suffix == ".json":
        return Baseline(name=path.name, states=_load(path))
    root = project_root()
    commit = commit_of(root, against)
    plan_of = _plan_by_own_code if trust else _plan_data
    return Baseline(name=commit, states=plan_of(root, commit, stack), commit=True)


def _load(path: Path) -> States:
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise RequestError(
            f"--against {path} cannot be read: {error.strerror}. Give a file that --save wrote, or"
            " a revision"
        ) from error
    except ValueError as error:
        raise RequestError(f"--against {path}: {error}") from error


def _plan_by_own_code(root: Path, commit: str, stack: str) -> States | None:
    with checked_out(root, commit) as checkout:
        line = [sys.executable, "-c", _RUN]
        return _plan_in(checkout, commit, stack, line, child_environment(PYTHONPATH=str(checkout)))


def _plan_data(root: Path, commit: str, stack: str) -> States | None:
    with stack_data(root, commit, _PACKAGE / "infra") as folder:
        # Isolated: without Python's variables, the user's packages and the current folder.
        package = str(_PACKAGE.parent)
        line = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {package!r}); {_RUN}"]
        named = os.environ.get("INFERPLAN_KUBECONFIG")
        environment = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            # Only names: the cluster of the revision is that of this plan, and nothing is read there.
            "INFERPLAN_STATE_DIR": str(state_directory()),
            **({"INFERPLAN_KUBECONFIG": named} if named else {}),
        }
        return _plan_in(folder, commit, stack, line, environment, preexec_fn=without_network)


def _plan_in(
    folder: Path,
    commit: str,
    stack: str,
    line: Sequence[str],
    environment: Mapping[str, str],
    **options: Any,
) -> States | None:
    files = stack_files(folder)
    # A file elsewhere is compared with the stack of its name.
    name = stack if stack in files else stack_name(Path(stack))
    if name not in files:
        return None
    target = folder / "earlier.json"
    ended = subprocess.run(
        [*line, "plan", name, "--save", str(target)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_SECONDS,
        **options,
    )
    # A plan that is over its budget is a plan too.
    if not target.exists():
        message = (
            " / ".join(ended.stderr.strip().splitlines()[-6:])
            or f"it ended with code {ended.returncode}"
        )
        raise OperationError(
            f"--against {commit[:12]}: {stack} cannot be planned there: {message} / --trust plans it"
            " by the revision's own code, with this shell's secrets"
        )
    return _load(target)


def with_secrets_of(before: States, after: States) -> States:
    """`before` with the masked secrets of `after` at the same places, so that only other changes
    show.
    """
    inputs = {each.urn: each.inputs for each in after.resources}
    resources = tuple(
        replace(each, inputs=_aligned(each.inputs, inputs.get(each.urn)))
        for each in before.resources
    )
    return replace(before, resources=resources)


def _aligned(old: Any, new: Any) -> Any:
    if isinstance(old, Masked) and isinstance(new, Masked):
        return new
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {
            key: new[key] if key in _DERIVED and key in new else _aligned(value, new.get(key))
            for key, value in old.items()
        }
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return list(map(_aligned, old, new))
    return old


def notes_before(workspace: Workspace) -> Iterator[str]:
    """Notes on the stack file before its program runs: placeholders for secrets, keys that expire,
    open egress.
    """
    if workspace.secrets.placeholders:
        yield f"this plan has placeholders for secrets: {workspace.secrets.reason}"
    yield from workspace.file.environment.notes()
    yield from stack_notes(workspace)
