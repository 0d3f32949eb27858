from __future__ import annotations

import io
import logging
import shutil
import threading

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

from inferplan.components.sources import ObjectStore

from .invariants import Invariants, publish, published
from .proxy import BUCKET, Proxy
from .rig import MIB, MODEL, SECRET, Job, small_model, tiny_model
from .web import COMMIT, Commit, Hub, Web


@pytest.fixture(scope="session", autouse=True)
def _rclone():
    if shutil.which("rclone") is None:
        pytest.skip("there is no rclone on PATH; install Debian's package rclone")


@pytest.fixture(scope="session")
def moto():
    # One line a request would bury what a failing test has to say.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture(scope="session")
def proxy_server(moto):
    proxy = Proxy(moto)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    yield proxy
    proxy.released.set()
    proxy.shutdown()
    proxy.server_close()


@pytest.fixture
def proxy(proxy_server):
    proxy_server.faults = type(proxy_server.faults)()
    proxy_server.released = threading.Event()
    servers.append(proxy_server)
    yield proxy_server
    proxy_server.released.set()


servers = []
"""The servers of the running test, whose faults can end."""


def running(server):
    """Serves until the test has ended."""
    servers.append(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def web():
    """A web server that holds nothing yet."""
    yield from running(Web())


@pytest.fixture
def hub():
    """A hub, and the server that it hands large files to."""
    made = Hub()
    for _blobs in running(made.blobs):
        yield from running(made)


@pytest.fixture
def repository(hub):
    """The files of the hub's one repository."""
    files = tiny_model()
    hub.commits[COMMIT] = Commit(dict(files))
    return files


@pytest.fixture(scope="session")
def s3(moto):
    host, port = moto
    return boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id=SECRET["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=SECRET["AWS_SECRET_ACCESS_KEY"],
    )


@pytest.fixture
def bucket(s3):
    """A boto3 client of an S3 that holds nothing but an empty bucket."""
    s3.create_bucket(Bucket=BUCKET)
    yield s3
    # Requests that delete one object after another take a third of the processor time of a small
    # test.
    s3_backends.reset()


@pytest.fixture
def put(bucket):
    """Uploads files of the model as the AWS command line does: from 8 MiB on in parts of 8 MiB."""
    config = TransferConfig(
        multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, use_threads=False
    )

    def upload(files, prefix=f"llm/{MODEL}", config=config):
        publish(f"{BUCKET}/{prefix}", files)
        for path, data in files.items():
            bucket.upload_fileobj(io.BytesIO(data), BUCKET, f"{prefix}/{path}", Config=config)

    return upload


@pytest.fixture
def model(put):
    files = tiny_model()
    put(files)
    return files


@pytest.fixture
def small(put):
    files = small_model()
    put(files)
    return files


@pytest.fixture
def store(proxy):
    return ObjectStore(
        bucket=BUCKET,
        prefix="llm",
        region="us-east-1",
        endpoint=proxy.url,
        path_style=True,
        credentials="minio",
    )


_repeated = set()


@pytest.fixture(autouse=True)
def invariants(request):
    """Checks docs/preheat-invariants.md for every Job of the test.

    That the same input fails the same way, or that the next run ends READY, `make test` checks once
    for each file and exit code, and `make test-full` in every test.
    """
    published.clear()
    servers.clear()

    def repeats(code):
        seen = (request.path, code) in _repeated
        _repeated.add((request.path, code))
        return not seen or "not full" not in request.config.option.markexpr

    return Invariants(repeats)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Check the ends of a test's Jobs while its servers are still up."""
    result = yield
    if (made := pyfuncitem.funcargs.get("invariants")) is not None:
        made.finish(lambda: [server.reset() for server in servers])
    return result


@pytest.fixture
def job(tmp_path, store, invariants):
    """Makes the container of a preheat Job that copies from the S3 server to a temporary share."""
    target = tmp_path / "share"
    target.mkdir()
    return lambda **changes: Job(
        **{"target": target, "source": store, "invariants": invariants, **changes}
    )
