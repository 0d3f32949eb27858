"""The program of this repository's own stacks."""

from inferplan.infra.program import run

run()
