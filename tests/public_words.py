"""Writes `inferplan/kube/disclosure/words.txt`: the words that the APIs of Kubernetes and AWS, and
this repository, use in public.

python -m tests.public_words
"""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "inferplan" / "kube" / "disclosure" / "words.txt"
_WORD = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{1,6}[0-9]{1,4}(?![A-Za-z0-9])|[A-Z]?[a-z]{2,19}|[A-Z]{2,9}(?![a-z])"
)
_OURS = (
    "inferplan/**/*.py",
    "inferplan/**/*.toml",
    "inferplan/**/*.j2",
    "inferplan/**/*.yaml",
    "inferplan/**/*.txt",
    "inferplan/**/*.json",
    "stacks/*.yaml",
    "docs/**/*.md",
    "docs/**/*.yaml",
)
_PACKAGES = {"pulumi_aws": 12, "pulumi_kubernetes": 4, "boto3": 4, "pulumi": 4}
# Words of passwords in examples.
_PASSWORDS = re.compile(
    r"change|secret.|.secret|password.|.password|hunter|letmein|qwerty|dragon|monkey|sunshine|canary|must.+char|(foo|bar|baz){2,}"
)


def words() -> set[str]:
    counts: Counter[str] = Counter()
    ours = {path for pattern in _OURS for path in ROOT.glob(pattern) if path != TARGET}
    for path in sorted(ours):
        counts.update(
            {word.lower(): 100 for word in _WORD.findall(path.read_text(errors="ignore"))}
        )
    # Metrics and resources write the kinds in lower case.
    types = json.loads((ROOT / "inferplan" / "kube" / "object_types.json").read_text())
    counts.update(
        {kind.rpartition("/")[2].lower() + end: 1 for kind in types["kinds"] for end in ("", "s")}
    )
    for name, least in _PACKAGES.items():
        spec = find_spec(name)
        assert spec is not None
        folder = Path(str(spec.origin)).parent
        own: Counter[str] = Counter()
        for path in sorted(folder.rglob("*.py")):
            own.update(word.lower() for word in _WORD.findall(path.read_text(errors="ignore")))
        counts.update({word: 1 for word, count in own.items() if count >= least})
        # The services of a cloud.
        counts.update(
            {path.name: 1 for path in folder.iterdir() if re.fullmatch(r"[a-z0-9]+", path.name)}
        )
    return {
        word
        for word in counts
        if not _PASSWORDS.search(word)
        or word in ("change", "changes", "changed", "exchange", "secrets", "secretsmanager")
    }


if __name__ == "__main__":
    TARGET.write_text("\n".join(sorted(words())) + "\n")
