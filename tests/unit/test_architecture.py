from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.kube.facts import STATED_CONTENT

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "inferplan"
DIAGRAM = ROOT / "docs" / "architecture.md"
OF_THE_REHEARSAL = ROOT / "docs" / "rehearsal-life.md"


GROUND = {"capacity", "documents", "hardware", "images", "kube", "pulumi_engine"}


def rooms() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def arrows() -> dict[str, set[str]]:
    """Who may import whom: the arrows that the architecture page shows, and the ground for all above
    it. Every other import is an accident.
    """
    targets: dict[str, set[str]] = {
        room: {room} if room in GROUND else {room, *GROUND} for room in rooms()
    }
    for source, target in shown_arrows():
        targets[source].add(target)
    return targets


def shown_arrows() -> list[tuple[str, str]]:
    text = DIAGRAM.read_text()
    return re.findall(r"^ +(\w+) --> (\w+)$", text, re.MULTILINE)


ALLOWED = arrows()


def modules(package: str) -> Iterator[Path]:
    yield from (path for path in (PACKAGE / package).rglob("*.py") if "payload" not in path.parts)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("inferplan.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            rooms = node.module == "inferplan"
            yield from (
                (alias.name for alias in node.names)
                if rooms
                else (node.module.removeprefix("inferplan."),)
            )


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_the_imports_are_the_arrows_of_the_diagram(package):
    edges = {
        (str(path.relative_to(PACKAGE)), name.split(".")[0])
        for path in modules(package)
        for name in imports(path)
    }
    assert {edge for edge in edges if edge[1] in ALLOWED.keys() - ALLOWED[package]} == set()
    shown = {target for source, target in shown_arrows() if source == package}
    assert shown - {target for _, target in edges} == set(), (
        "the diagram has an arrow that no import needs"
    )


def module_graph() -> dict[str, set[str]]:
    """Every module of the package with the modules that it imports: at its top, inside functions
    and for type checkers alike.
    """
    files = {
        ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for path in PACKAGE.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        targets: set[str] = set()
        for node in nodes(path):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = ".".join(
                    (
                        *(package[: len(package) - node.level + 1] if node.level else ()),
                        *([node.module] if node.module else ()),
                    )
                )
                targets |= {
                    dotted if (dotted := f"{base}.{alias.name}") in files else base
                    for alias in node.names
                }
        graph[module] = targets & set(files) - {module}
    return graph


def test_no_modules_import_one_another_in_a_circle():
    graph = module_graph()
    assert sum(map(len, graph.values())) > 1000
    graphlib.TopologicalSorter(graph).prepare()


def folder_arrows(room: str) -> set[tuple[str, str]]:
    """Which folder of a room imports which; modules next to the folders are left out."""
    folders = {path.parent.name for path in (PACKAGE / room).glob("*/__init__.py")}
    edges = {
        (path.relative_to(PACKAGE / room).parts[0], name.split(".")[1])
        for path in modules(room)
        for name in imports(path)
        if name.startswith(f"{room}.")
    }
    return {(a, b) for a, b in edges if a != b and {a, b} <= folders}


def test_the_folders_of_the_rehearsal_import_one_another_as_the_diagram_says():
    text = OF_THE_REHEARSAL.read_text()
    shown = set(re.findall(r"^    (\w+) -\.-> (\w+)$", text, re.MULTILINE))
    assert folder_arrows("rehearsal") == shown


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_the_folders_of_a_room_import_one_another_in_no_circle(room):
    graph: dict[str, set[str]] = {}
    for source, target in folder_arrows(room):
        graph.setdefault(source, set()).add(target)
    graphlib.TopologicalSorter(graph).prepare()


def test_a_command_imports_no_other_command():
    """Code that several commands share is in a module next to their folders, or in a room below."""
    assert folder_arrows("commands") == set()


def test_an_engine_is_known_by_its_folder_and_the_union_alone():
    """Engines may build on one another; whatever serves any engine asks the model, and names none
    of them.
    """
    folders = {path.parent.name for path in (PACKAGE / "components" / "serving").glob("*/spec.py")}
    known = {
        str(path.relative_to(PACKAGE))
        for package in ALLOWED
        for path in modules(package)
        for name in imports(path)
        if name.startswith("components.serving.")
        and name.split(".")[2] in folders
        and path.parent.name not in folders
        and not path.is_relative_to(PACKAGE / "trial" / "engines")
    }
    assert folders == {each.__module__.split(".")[-2] for each in MODEL_SPECS.values()}
    assert known == {"components/serving/spec.py"}


ENGINE = re.compile(
    r"(?i:vllm|triton|tensorrt|trtllm|sglang|kuberay)|(?<![A-Za-z])(?:[Rr]ay|RAY)(?![a-z])|ray[A-Z](?!p)|(?<=io:)Ray"
)
# The rooms of the engines, and the rules on their servers, which the pack reads in any program.
ENGINE_ROOMS = (
    *("/".join(each.__module__.split(".")[1:-1]) + "/" for each in MODEL_SPECS.values()),
    "trial/",
)
# This list may only get shorter: a new engine adds a folder and its name in the union, and no
# module to it.
ENGINE_EXCEPTIONS = {
    "commands/arguments.py": "describes the option --route of Ray Serve applications",
    "commands/snippet/command.py": (
        "describes options for one of several served models, and calls the protocol of Ray Serve"
    ),
    "components/benchmark/benchmark_job.py": "speaks the protocol generate",
    "components/gateway/proxy.py": "names protocols",
    "components/gateway/routes.py": "names protocols with their paths",
    "components/handles.py": "lists the protocols",
    "hardware/accelerators.py": "reads releases from the name of Habana's image",
    "components/serving/hardware.py": "names the image of ours that has the libraries of EFA",
    "components/serving/spec.py": "is the union of the engines",
    "components/serving/server_container.py": (
        "moves the temporary files of Ray, which several engines start"
    ),
    "images/ray-app/rag/app.py": "is the example of an application",
    "kube/pod_templates.py": "lists kinds with pod templates, among them those of KubeRay",
    "client/connection.py": "calls gRPC with Triton's client library",
    "client/messages.py": "names protocols",
    "commands/snippet/snippet.py": "names protocols",
    "client/target.py": "names protocols in the order of preference",
    "updating/drift/visible.py": "knows a field of KubeRay whose values are commands",
    "status/differences.py": (
        "lists kinds whose status says why pods are missing, among them those of KubeRay"
    ),
    "status/models.py": "counts the pods of KubeRay's workers",
    "commands/down/down.py": "deletes workloads by their kinds, among them those of KubeRay",
    "updating/downtime.py": "compares workloads by their kinds, among them those of KubeRay",
    "policies/subjects/kserve.py": "lists the frameworks of KServe",
    "policies/subjects/pods.py": "reads pod templates of KubeRay's kinds",
    "policies/subjects/workloads.py": "counts the pods of KubeRay's kinds",
    "rehearsal/apply/operators/ray_service.py": "is the stub of KubeRay",
    "rehearsal/apply/operators/reconcile.py": "calls the stub of KubeRay",
    "rehearsal/wait/reasons.py": "lists kinds of workloads, among them those of KubeRay",
    "review/rollout.py": "knows how KubeRay replaces clusters",
    "stackfile/checks/access.py": "says which calls a benchmark makes",
}
MOST_ENGINE_EXCEPTIONS = 29


CLOUD = re.compile(
    r"pulumi_aws|platforms\.aws|Eks[A-Z]|Efs[A-Z]|(?<![A-Za-z])(?i:aws|ec2|arn|eks)(?![a-z])"
)
# The room of a cloud, and the rules on its resources, which the pack reads in any program.
CLOUD_ROOMS = (
    "components/platforms/aws/",
    "commands/doctor/aws/",
    "commands/versions/",
    "policies/iam/",
    "policies/rules/",
)
# This list may only get shorter: a new cloud adds a room, and no module to it.
CLOUD_EXCEPTIONS = {
    "commands/up/command.py": "explains the option --karpenter",
    "hardware/machines.py": "reads the table of EC2 instance types",
    "components/nodes/pool.py": "describes the field of the instance type",
    "components/objects/spec.py": "lists kinds of Kubernetes that end like a word of AWS",
    "components/balancers.py": "registers the load balancers of each cloud",
    "components/platforms/spec.py": "registers the cluster and the pool of each cloud",
    "components/sources.py": "sets the variables of the S3 API, which many vendors speak",
    "components/serving/vllm/service.py": (
        "sets the variables of the S3 API, which many vendors speak"
    ),
    "components/storage/fields.py": "checks names of buckets by the rules of the S3 API",
    "components/stores.py": (
        "S3 is an API of many vendors, and `create` and `kmsKeyArn` are its options at AWS;"
        " registers the store of each cloud"
    ),
    "kube/names.py": "names resources of accelerators as their vendors do",
    "commands/doctor/addons.py": "names DaemonSets that clouds install",
    "commands/doctor/examination.py": "calls the checks of an AWS account",
    "updating/drift/drift.py": "says that AWS resources are not compared",
    "workspace/kubectl.py": "shows the command that makes a kubeconfig",
    "planning/notes.py": "notes what egress to AWS STS is for",
    "commands/preheat/preview.py": "passes the variables of the S3 API on",
    "workspace/buying.py": (
        "offers the instance types of EC2 with the labels of EKS Auto Mode to Karpenter"
    ),
    "policies/subjects/placement.py": "reads the taints of EKS node groups",
    "rehearsal/cluster/karpenter.py": "reads an annotation that Karpenter writes",
    "rehearsal/apply/applier.py": "calls the stub of AWS",
    "pulumi_engine/plan/change.py": "calls the stub of AWS",
    "pulumi_engine/program/monitor.py": "calls the stub of AWS",
    "pulumi_engine/program/record.py": "calls the stub of AWS",
    "pulumi_engine/providers/aws.py": "is the stub of AWS",
    "capacity/declared.py": "reads the node groups of EKS",
    "review/cost_table.py": "reads the region of the provider",
    "capacity/cost.py": "prices EKS Auto Mode and volumes",
    "hardware/prices.py": "reads the table of EC2 prices",
    "hardware/refresh_prices.py": "asks the pricing API of AWS",
    "review/reading/preview.py": "keeps the region of the provider",
    "stackfile/reader.py": "knows the section of the AWS provider",
}
MOST_CLOUD_EXCEPTIONS = 33


def words(path: Path) -> Iterator[str]:
    """The names, imports and texts of a module, without its docstrings and comments."""
    docstrings = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        for field, value in ast.iter_fields(node):
            if isinstance(value, str) and field != "type_comment" and id(node) not in docstrings:
                yield value


def test_a_cloud_is_known_by_its_folder_and_the_unions_alone():
    """Adding a cloud adds a folder, and its types to the unions of `platforms/spec.py`,
    `balancers.py` and `stores.py`.
    """
    known = {
        str(path.relative_to(PACKAGE))
        for package in ALLOWED
        for path in modules(package)
        if any(CLOUD.search(word) for word in words(path))
    }
    inside = {path for path in known if path.startswith(CLOUD_ROOMS)}
    assert len(inside) > 10
    assert known - inside == set(CLOUD_EXCEPTIONS)
    assert len(CLOUD_EXCEPTIONS) <= MOST_CLOUD_EXCEPTIONS


def test_engines_are_named_in_their_folders_and_the_union_alone():
    known = {
        str(path.relative_to(PACKAGE))
        for package in ALLOWED
        for path in modules(package)
        if any(ENGINE.search(word) for word in words(path))
    }
    inside = {path for path in known if path.startswith((*ENGINE_ROOMS, "policies/rules/"))}
    assert len(inside) > 20
    assert known - inside == set(ENGINE_EXCEPTIONS)
    assert len(ENGINE_EXCEPTIONS) <= MOST_ENGINE_EXCEPTIONS


# Readers that take a served model as a whole. This list may only get shorter: the others take the
# part that they read (`model_parts.py`).
READERS_OF_WHOLE_MODELS = {
    *(
        "components/public/services.py",
        "components/serving/facts.py",
        "components/serving/model_service.py",
        "components/serving/spec.py",
    ),
}


def test_most_readers_of_a_model_take_the_part_that_they_read():
    whole = {
        str(path.relative_to(PACKAGE))
        for package in ALLOWED
        for path in modules(package)
        if re.search(r"(: |\[|str, )ServedModel\b", path.read_text())
    }
    parts = ast.parse((PACKAGE / "components" / "serving" / "served_model.py").read_text())
    [model] = [node for node in parts.body if isinstance(node, ast.ClassDef)]
    assert whole == READERS_OF_WHOLE_MODELS
    assert sum(isinstance(node, ast.FunctionDef | ast.AnnAssign) for node in model.body) <= 9


COMPONENT = re.compile(r"inferplan:[a-z(]")


def test_reports_and_policies_name_no_component_and_no_path_into_its_inputs():
    """What they know about a component reaches them as facts (`inferplan/kube/facts.py`)."""
    files = [
        path
        for room in ("review", "policies")
        for path in (PACKAGE / room).rglob("*")
        if path.suffix in (".py", ".toml", ".csv")
    ]
    lines = [
        (path.name, line)
        for path in files
        for line in path.read_text().splitlines()
        if COMPONENT.search(line)
    ]
    # The marker of a comment on a pull request, and the key of the configuration that the engine's
    # events show.
    allowed = {("markdown.py", "<!-- inferplan:preview"), ("budget.py", '"inferplan:budget"')}
    assert [
        (name, line)
        for name, line in lines
        if not any(name == each and text in line for each, text in allowed)
    ] == []
    assert len(files) > 80
    registered = "\n".join(path.read_text() for path in modules("components"))
    packages = re.findall(r"[a-z]+", STATED_CONTENT.pattern.partition("(")[2].partition(")")[0])
    assert [each for each in packages if f'"inferplan:{each}:' not in registered] == []


def test_the_exposure_of_a_gateway_is_asked_and_never_compared():
    comparing = {
        str(path.relative_to(PACKAGE))
        for package in ALLOWED
        for path in modules(package)
        if re.search(r"\.exposure (==|!=|in)\b|\.exposure (==|!=)", path.read_text())
    }
    assert comparing == {"components/gateway/exposure_spec.py"}


def test_the_checks_ask_the_specifications_and_compare_no_class_of_them():
    comparing = {}
    for path in (PACKAGE / "stackfile" / "checks").glob("*.py"):
        tree = ast.parse(path.read_text())
        from_components = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and "components" in (node.module or "")
            for alias in node.names
        }
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
        ]
        classes = {
            each.id
            for call in calls
            for each in ast.walk(call.args[1])
            if isinstance(each, ast.Name)
        }
        if classes & from_components:
            comparing[path.name] = classes & from_components
    assert comparing == {}


def test_nothing_but_settings_reads_the_configuration():
    readers = {
        str(path.relative_to(PACKAGE))
        for package in ("infra", "stackfile", "components")
        for path in modules(package)
        if "pulumi.Config(" in path.read_text()
    }
    assert readers == {"stackfile/settings.py"}


def test_nothing_but_settings_reads_the_environment_in_the_program():
    readers = {
        str(path.relative_to(PACKAGE))
        for package in ("infra", "stackfile", "components")
        for path in modules(package)
        if "os.environ" in path.read_text()
    }
    assert readers <= {"stackfile/settings.py"}


def test_no_resource_is_made_by_infra_but_the_providers():
    makers = {
        str(path.relative_to(PACKAGE))
        for path in modules("infra")
        for name in imports(path)
        if name.startswith(("pulumi_kubernetes", "pulumi_aws")) and path.name != "providers.py"
    }
    assert makers == set()


def test_the_top_level_names_are_links_that_reject_imports():
    """A reader finds the rooms where the README says; an import through a link names the real
    module, so no class exists twice.
    """
    for room in ("infra", "components", "policies"):
        link = ROOT / room
        assert (link.is_symlink(), link.readlink()) == (True, Path("inferplan", room))
        done = subprocess.run(
            [sys.executable, "-c", f"import {room}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr.endswith(
            f"ImportError: {room} is not a package of its own. Import inferplan.{room} instead.\n"
        )
    rooms = {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert rooms == set(ALLOWED)


def test_every_test_file_is_collected():
    stray = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_")
        and any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            for node in nodes(path)
        )
    ]
    assert stray == []


def test_no_committed_file_names_a_download_address_or_a_registry():
    tracked = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - git is how the files came here
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    locks = [
        name
        for name in tracked
        if name.endswith((".lock", "requirements.txt", "package-lock.json"))
    ]
    assert "requirements.lock" in locks
    assert "uv.lock" not in tracked
    assert [name for name in locks if "https://" in (ROOT / name).read_text()] == []


def test_every_exception_from_a_check_says_why_on_its_line():
    mark = re.compile(r"# (noqa|type: ignore|pyrefly: ignore|nosec)")
    reasoned = re.compile(
        r"# (noqa: [A-Z0-9, ]+|type: ignore\[[a-z-]+\]|pyrefly: ignore(\[[a-z-]+\])?) +(-|#)"
        r" \S.{7,}"
    )
    silent = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(ROOT.glob("[!.]*/**/*.py"))
        for line in path.read_text().splitlines()
        if mark.search(line) and not reasoned.search(line) and "mark = " not in line
    ]
    assert silent == []


def test_files_and_functions_are_short():
    """A reader sees a file in five screens and a function in one: 350 and 70 lines."""
    files, functions = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.read_text(encoding="utf-8").count("\n") > 350:
            files.append(path.name)
        functions += [
            node.name
            for node in nodes(path)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= 70
        ]
    assert (files, functions) == ([], [])
