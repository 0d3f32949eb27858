"""The executor of a program's event loop, on which the SDK awaits the answer to each registration."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Executor(ThreadPoolExecutor):
    """Runs each function immediately, or in a thread of its own that ends with it if the monitor
    waits (`threads`).

    A pool would keep a thread for each object that was awaited: with thousands of idle threads, the
    kernel needs longer for every lock.
    """

    def __init__(self, *, threads: bool) -> None:
        super().__init__(1)
        self._own, self._started = threads, list[threading.Thread]()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` and return its outcome."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the future carries every outcome to its reader
                future.set_exception(error)

        if self._own:
            self._started.append(threading.Thread(target=run, name="register", daemon=True))
            self._started[-1].start()
        else:
            run()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001 - as in the base class
        """Return when every function has returned."""
        for each in self._started:
            each.join()
