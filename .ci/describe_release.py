"""Describes the release in dist: its bill of materials (CycloneDX 1.6), its provenance (an in-toto statement with SLSA's predicate) and the
SHA-256 of every file. The same files at the same commit give the same bytes: `python .ci/describe_release.py dist`.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
import zipfile
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "inferplan" / "commands" / "init" / "template" / "requirements.lock"
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of URLs, RFC 9562


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def materials(wheel: Path) -> dict[str, Any]:
    """The bill of materials: the wheel, and every package that the lock file installs with it."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    reference = _purl(metadata["Name"], metadata["Version"])
    packages = [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": _purl(name, version),
            "bom-ref": _purl(name, version),
            "properties": [
                {"name": "sha256 of a file", "value": each}
                for each in re.findall(r"sha256:([0-9a-f]{64})", rest)
            ],
        }
        for name, version, rest in _PACKAGE.findall(LOCK.read_text())
    ]
    own = {
        "type": "application",
        "name": metadata["Name"],
        "version": metadata["Version"],
        "purl": reference,
        "bom-ref": reference,
    }
    own["hashes"] = [{"alg": "SHA-256", "content": sha256(wheel)}]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, sha256(wheel))}",
        "version": 1,
        "metadata": {"timestamp": _time(), "component": own},
        "components": packages,
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(each["bom-ref"] for each in packages)}
        ],
    }


def provenance(files: list[Path]) -> dict[str, Any]:
    """Which commit and which command the files come from."""
    commit = os.environ.get("GITHUB_SHA") or _git("rev-parse", "HEAD")
    dirty = bool(_git("status", "--porcelain", "--untracked-files=no"))
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": sha256(each)}} for each in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {
                    "commit": commit,
                    "changed": dirty,
                    "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", ""),
                },
                "resolvedDependencies": [
                    {"name": name, "digest": {"sha256": sha256(ROOT / name)}}
                    for name in ("requirements.lock", "pyproject.toml")
                ],
            },
            "runDetails": {
                "builder": {"id": os.environ.get("GITHUB_WORKFLOW_REF", "make release")}
            },
        },
    }


def main(folder: Path) -> None:
    built = sorted(each for each in folder.iterdir() if each.suffix in (".whl", ".gz"))
    [wheel] = [each for each in built if each.suffix == ".whl"]
    stem = wheel.name.removesuffix("-py3-none-any.whl")
    bill, origin = folder / f"{stem}.cdx.json", folder / f"{stem}.provenance.json"
    bill.write_text(json.dumps(materials(wheel), indent=1) + "\n")
    origin.write_text(json.dumps(provenance([*built, bill]), indent=1) + "\n")
    sums = "".join(f"{sha256(each)}  {each.name}\n" for each in (*built, bill, origin))
    (folder / "SHA256SUMS").write_text(sums)
    sys.stdout.write(sums)


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"


def _time() -> str:
    return datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments],  # noqa: S607 - git is how the files came here
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
