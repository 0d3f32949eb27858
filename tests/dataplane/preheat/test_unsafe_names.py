"""Names at the source that lead out of the model's directory, or that no file can have: rejected by
name, and not tried again.
"""

from __future__ import annotations

import pytest

from inferplan.components.sources import WebStore

from .proxy import BUCKET
from .rig import MODEL, refused, verified

CONFIG = {"config.json": b"{}"}
TUNING = {"retries": 1, "report_seconds": 60.0}
REMEDY = "rename it at the source or exclude it"


def only_for_full(names, quick):
    return [
        pytest.param(name, id=ascii(name), marks=() if name in quick else pytest.mark.full)
        for name in names
    ]


KEYS = [
    "../outside.json",
    "sub/..",
    "./a.json",
    "/a.json",
    "sub//a.json",
    "sub/",
    "a\x01b.json",
    "a\x7fb.json",
    "a\u2401b.json",
]


@pytest.mark.parametrize("key", only_for_full(KEYS, {"../outside.json", "a\x01b.json"}))
def test_a_key_that_is_no_safe_name_is_rejected_before_a_byte_moves(job, bucket, put, proxy, key):
    put(CONFIG)
    bucket.put_object(Bucket=BUCKET, Key=f"llm/{MODEL}/{key}", Body=b"{}")
    made = job(tuning=TUNING)
    shown = repr(key) if "\u2401" not in key else "a\u201b\u2401b.json"
    refused(made.run(), made, 3, shown, REMEDY)
    assert not proxy.faults.gets


@pytest.mark.full
def test_a_key_that_is_no_safe_name_can_be_excluded(job, bucket, put):
    put(CONFIG)
    bucket.put_object(Bucket=BUCKET, Key=f"llm/{MODEL}/../outside.json", Body=b"{}")
    made = job(preheat={"exclude": ["../*"]}, tuning=TUNING)
    verified(made.run(), made, CONFIG)


LINKS = {
    "..%2foutside.json": "../outside.json",
    "%2foutside.json": "/outside.json",
    "a%2f%2fb.json": "a//b.json",
    "%2e%2e/": "../",
    "a%01b.json": "a\x01b.json",
    "a%0ab.json": "a\nb.json",
    "a%01b/": "a\x01b/",
    "a%E2%90%81b.json": "a\u2401b.json",
    "a.json%20": "a.json ",
    "%20a.json": " a.json",
}


@pytest.mark.parametrize("link", only_for_full(LINKS, {"..%2foutside.json", "%2e%2e/"}))
def test_a_link_that_is_no_safe_name_is_rejected_and_not_followed(job, web, link):
    web.put(CONFIG, f"llm/{MODEL}")
    web.put({"outside.json": b"{}"}, "llm")
    web.links = [link]
    made = job(source=WebStore(address=f"{web.url}/llm"), tuning=TUNING)
    refused(made.run(), made, 3, repr(LINKS[link]), REMEDY)
    assert "/llm/outside.json" not in web.faults.gets


@pytest.mark.parametrize(
    "name", only_for_full(["../outside.json", "/outside.json", "sub//a.json", "a\x01b.json"], set())
)
def test_a_list_of_checksums_with_no_safe_name_is_rejected(job, web, name):
    web.put({**CONFIG, "SHA256SUMS": f"{'0' * 64}  {name}\n".encode()}, f"llm/{MODEL}")
    made = job(source=WebStore(address=f"{web.url}/llm"), tuning=TUNING)
    refused(made.run(), made, 3, repr(name), REMEDY)
