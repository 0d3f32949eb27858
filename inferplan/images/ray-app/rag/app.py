"""A custom application of Ray Serve: replace `answer` by your own code, and keep `build`."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from ray import serve

api = FastAPI()


@serve.deployment
@serve.ingress(api)
class Chat:
    """One replica; its accelerators are those of `deployments.Chat.accelerators` in the stack file."""

    def __init__(self, checkpoint: str | None, base: str | None) -> None:
        self.files = [Path(each) for each in (checkpoint, base) if each is not None]

    @api.post("/answer")
    def answer(self, question: dict[str, str]) -> dict[str, object]:
        """The question, and the files that the model would be loaded from."""
        return {
            "question": question["text"],
            "files": {str(each): each.exists() for each in self.files},
        }


def build(args: dict[str, str]) -> serve.Application:
    """Called by Serve with the application's `args`: `checkpoint_path`, `base_model` and `adapter`
    are paths below /models/<model>.
    """
    return Chat.bind(args.get("checkpoint_path"), args.get("base_model"))
