"""Starts SGLang's server so that its keys stay in variables: `python3 serve.py OPTIONS`.

SGLang takes its key as an option only, which every process of the node can read, and shows it in
/server_info. This program gives it a key of its own, made at each start, and exchanges the keys of
SGLANG_API_KEY and NEXT_API_KEY for it in front of all of SGLang's handlers.
"""

import hmac
import os
import secrets
import sys

KEY_VARIABLES = ("SGLANG_API_KEY", "NEXT_API_KEY")


class Exchange:
    """An ASGI application that replaces accepted keys by the `inner` key of the application that it
    wraps. Requests with other keys pass unchanged, and are denied there.
    """

    def __init__(self, app, keys, inner):
        self.app, self.inner = app, f"Bearer {inner}".encode()
        self.accepted = [f"Bearer {key}".encode() for key in keys]

    async def __call__(self, scope, receive, send):
        if scope["type"] in ("http", "websocket"):
            headers = [
                (name, self.inner if name.lower() == b"authorization" and self._accepts(value) else value)
                for name, value in scope["headers"]
            ]
            scope = {**scope, "headers": headers}
        await self.app(scope, receive, send)

    def _accepts(self, value):
        matches = [hmac.compare_digest(value, key) for key in self.accepted]
        return any(matches)


def guard(app, keys, inner):
    """Put the exchange in front of the handlers of `app`, a Starlette application that builds them
    at its first request.
    """
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: Exchange(build(), keys, inner)


def main(arguments):
    from sglang.launch_server import run_server
    from sglang.srt.entrypoints.http_server import app
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    # Without a key it serves nothing, instead of serving every client.
    keys = [os.environ.pop(KEY_VARIABLES[0]), *filter(None, [os.environ.pop(KEY_VARIABLES[1], None)])]
    inner = secrets.token_hex(32)
    guard(app, keys, inner)
    try:
        run_server(prepare_server_args([*arguments, "--api-key", inner]))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main(sys.argv[1:])
