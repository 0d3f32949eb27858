"""usage: bucket.py NAME FOLDER: serves moto's S3 on port 9000 of every address, with the files of FOLDER
in the bucket NAME, until its standard input ends.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

PORT = 9000


def main(name: str, folder: Path) -> None:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    os.environ.update(keys, AWS_DEFAULT_REGION="us-east-1")
    server = ThreadedMotoServer("0.0.0.0", PORT, verbose=False)  # noqa: S104 - the network of a pod
    server.start()
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{PORT}")
    client.create_bucket(Bucket=name)
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), name, str(path.relative_to(folder)))
    print("ready", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
