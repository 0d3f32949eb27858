"""The types of the public components' inputs and outputs, made from the specifications by
`inferplan schema --write`.

Type checkers, editors and Pulumi's component analyzer all read args.pyi: the analyzer takes the
descriptions of inputs from the source of a type, so the same text is the source at run time.
"""

from pathlib import Path

__file__ = str(Path(__file__).with_suffix(".pyi"))
exec(compile(Path(__file__).read_text(encoding="utf-8"), __file__, "exec"))  # noqa: S102 - a file of this package
