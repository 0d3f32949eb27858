"""Builds the site of the documentation in .site: `python .ci/site.py [--pages]`. The pages come from README, docs and the code; Zensical
(.ci/site.lock) makes HTML of them with a search that needs no server. `--pages` stops before that.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from inferplan.commands.main import COMMANDS, load
from inferplan.commands.pages import sections
from inferplan.components.nodes.table import markdown as accelerators
from inferplan.policies.pages import write as write_rules
from inferplan.stackfile.reference import reference

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = ROOT / ".ci" / "site.toml"
_LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def options() -> str:
    """Return the page of every command's options, from the commands themselves."""
    lines = ["# Options of every command"]
    for name, (_, text, example) in COMMANDS.items():
        lines += [
            "",
            f"## {name}",
            "",
            text,
            "",
            f"Example: `{example}`",
            "",
            "| option | meaning |",
            "|---|---|",
        ]
        for each in load(name).params:
            names = ", ".join(f"`{option}`" for option in (*each.opts, *each.secondary_opts))
            meaning = (getattr(each, "help", None) or "").replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {names} | {meaning} |")
    return "\n".join(lines) + "\n"


def write_pages(folder: Path) -> None:
    """Write every page to `folder`, whose links lead to pages and files of the site alone."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("rules", "reference"))
    write_rules(folder / "policies" / "rules")
    (folder / "reference").mkdir()
    for name, text in {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "reference/stack-file.md": reference(),
        "reference/accelerators.md": accelerators(),
        "reference/options.md": options(),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        path.write_text(_inside(path, folder), encoding="utf-8")
    (folder / "llms.txt").write_text(llms(folder), encoding="utf-8")


def _inside(path: Path, folder: Path) -> str:
    """Return the text of a page with links out of the site as plain text."""

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match.groups()
        file = (path.parent / target).resolve()
        if file.is_dir() and (file / "README.md").is_file():
            target, file = f"{target.rstrip('/')}/README.md", file / "README.md"
        if file.is_file() and file.is_relative_to(folder.resolve()):
            return f"{label}({target}{anchor or ''})"
        name = label.strip("![]")
        return name if "`" in name or target in name else f"{name} (`{target.lstrip('./')}`)"

    return _LINK.sub(link, path.read_text(encoding="utf-8"))


def llms(folder: Path) -> str:
    """Return llms.txt: every page with its title and its first sentence, for programs that read."""
    with CONFIGURATION.open("rb") as file:
        project = tomllib.load(file)["project"]
    lines = [
        f"# {project['site_name']}",
        "",
        f"> {project['site_description']}",
        "",
        "## Pages",
        "",
    ]
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder).as_posix()
        first = next(sections(name, path.read_text(encoding="utf-8")))
        paragraph = next((each for each in first.text.split("\n\n")[1:] if each[:1].isalpha()), "")
        sentence = re.split(r"(?<=[.:]) ", " ".join(paragraph.split()))[0]
        lines.append(f"- [{first.title}]({name}){f': {sentence}' if sentence else ''}")
    return "\n".join(lines) + "\n"


def configuration(folder: Path) -> str:
    """Return the generator's configuration, in which a folder of the navigation is its pages."""

    def listed(match: re.Match[str]) -> str:
        names = sorted(
            each.relative_to(folder).as_posix() for each in (folder / match[1]).glob("*.md")
        )
        return f"= {json.dumps(names)} }}"

    return re.sub(r'= "([a-z/]+)" }', listed, CONFIGURATION.read_text(encoding="utf-8"))


def main() -> None:
    site = ROOT / ".site"
    write_pages(site / "pages")
    if "--pages" in sys.argv[1:]:
        return
    (site / "zensical.toml").write_text(configuration(site / "pages"), encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"],
        cwd=site,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)
    print(f"{site / 'site' / 'index.html'}: open it in a browser")


if __name__ == "__main__":
    main()
