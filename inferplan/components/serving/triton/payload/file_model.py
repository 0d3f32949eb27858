"""A Triton python model whose source lies beside the weights: the class TritonPythonModel of the file that `file` names.

It runs inside the server and adds nothing to that class; a file that is missing keeps the server from becoming ready.
"""

import json
import os
import sys
from typing import Any

import triton_python_backend_utils as pb_utils


def _source(path):
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the server's own Python may be older than this project's
            return compile(file.read(), path, "exec")
    except (OSError, SyntaxError) as fault:
        raise pb_utils.TritonModelException(f"cannot load the model's source: {fault}") from fault


class TritonPythonModel:
    """Stands for the class of the same name in the file."""

    def initialize(self, args):
        """Loads the file and its model. Raises TritonModelException where there is none."""
        path = json.loads(args["model_config"])["parameters"]["file"]["string_value"]
        # The source imports the modules in its own directory.
        sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120 - as the rest of this file, for an older Python
        scope: dict[str, Any] = {"__name__": "model", "__file__": path}
        exec(_source(path), scope)  # noqa: S102 - running the user's own model is what this file is for
        if "TritonPythonModel" not in scope:
            raise pb_utils.TritonModelException(f"{path} holds no class TritonPythonModel")
        self.model = scope["TritonPythonModel"]()
        if hasattr(self.model, "initialize"):
            self.model.initialize(args)
        self.execute = self.model.execute

    def execute(self, requests):
        """Answers `requests`, one response each."""
        return self.model.execute(requests)

    def finalize(self):
        """Lets the model clean up."""
        if hasattr(self.model, "finalize"):
            self.model.finalize()
