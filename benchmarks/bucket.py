"""An S3 bucket whose list and objects nginx serves, so that a benchmark measures clients and not the
server: moto takes milliseconds for each object and copies a whole one for each range.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.gateway import bare_nginx
from benchmarks.preheat_processes import BUCKET
from tests.dataplane.gateway.stand import nginx_binary
from tests.ports import free_port

_LIST = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
    ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name><Prefix>m/</Prefix>'
    "<KeyCount>{count}</KeyCount><MaxKeys>{count}</MaxKeys><IsTruncated>false</IsTruncated>"
    "{objects}</ListBucketResult>"
)
_OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;{md5}&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


@contextmanager
def bucket(folder: Path, files: dict[str, bytes]) -> Iterator[str]:
    """Serve `files` below m/ of the bucket from the new directory `folder`; yields the URL."""
    objects, sums = [], []
    for name, data in files.items():
        path = folder / BUCKET / "m" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        objects.append(_OBJECT.format(key=f"m/{name}", md5=md5, size=len(data)))
        sums.append(f"/{BUCKET}/m/{name} '\"{md5}\"';\n")
    (folder / "list.xml").write_text(
        _LIST.format(bucket=BUCKET, count=len(files), objects="".join(objects))
    )
    (folder / "sums").write_text("".join(sums))
    port = free_port()
    directives = (
        f"root {folder}; sendfile on; etag off; add_header ETag $md5;"
        " if ($args ~ prefix=) { rewrite ^ /list.xml break; }"
    )
    http = f"map_hash_max_size 65536; map $uri $md5 {{ include {folder}/sums; }}"
    with bare_nginx(nginx_binary(), folder / "nginx", port, directives, http):
        yield f"http://127.0.0.1:{port}"
