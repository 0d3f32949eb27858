"""Models from an HTTP server, a Hugging Face hub and a mounted directory, copied by the real
payload with the real rclone and huggingface_hub.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import pytest

from inferplan.components.sources import HubStore, VolumeClaim, WebStore
from tests.lanes import in_full

from .rig import MIB, MODEL, SECRET, refused, tiny_model, verified
from .web import COMMIT, REPOSITORY

SHARD = "model-00001-of-00002.safetensors"
PINNED = {"path": REPOSITORY, "revision": COMMIT}


def evidence(preheat):
    return {
        each["path"]: each["evidence"]
        for each in json.loads((preheat.directory / "READY").read_text())["files"]
    }


def sums(files):
    return "".join(
        f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in files.items()
    ).encode()


@pytest.mark.full
def test_index_pages_say_which_files_there_are_and_each_is_read_twice(job, web):
    files = tiny_model() | {"adapters/chat/adapter config.json": b"{}"}
    web.put(files, "llm/tiny-llm")
    web.faults.plan = lambda _path, count: ("pace", 16 * MIB) if count > 3 else None
    preheat = job(source=WebStore(address=f"{web.url}/llm"), tuning={"report_seconds": 0.2})
    outcome = preheat.run()
    verified(outcome, preheat, files)
    assert evidence(preheat)[SHARD] == "second reading"
    assert re.search(r"verifying: \d+\.\d MiB of 20\.0 MiB", outcome.output), outcome.output
    assert ", 20.0 MiB moved" in outcome.output


def test_a_sha256sums_is_the_list_of_files_and_the_proof(job, web):
    files = tiny_model()
    web.put({**files, "SHA256SUMS": sums(files), "notes.txt": b"not part of it"}, "llm/tiny-llm")
    web.index = False
    preheat = job(source=WebStore(address=f"{web.url}/llm"))
    verified(preheat.run(), preheat, files)
    assert set(evidence(preheat).values()) == {"sha256"}
    assert web.faults.body_bytes < sum(map(len, files.values())) + MIB


@pytest.mark.full
def test_named_files_need_neither_pages_nor_sums(job, web):
    files = tiny_model()
    web.put(files, "llm/tiny-llm")
    web.index = False
    named = dict.fromkeys(files) | {SHARD: hashlib.sha256(files[SHARD]).hexdigest()}
    preheat = job(source=WebStore(address=f"{web.url}/llm"), weights={"files": named})
    verified(preheat.run(), preheat, files)
    assert evidence(preheat)[SHARD] == "sha256"
    assert evidence(preheat)["config.json"] == "second reading"


@pytest.mark.full
@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({SHARD: "0" * 64}, [SHARD, "differs from the source", "0" * 64]),
        (
            {"model-00003-of-00002.safetensors": None},
            [
                "model-00003-of-00002.safetensors",
                "a list names it, and the server does not give it",
            ],
        ),
    ],
    ids=["another sha256", "a file that is not there"],
)
def test_a_server_that_does_not_hold_what_was_named_is_refused(job, web, named, words):
    files = tiny_model()
    web.put(files, "llm/tiny-llm")
    preheat = job(
        source=WebStore(address=f"{web.url}/llm"), weights={"files": dict.fromkeys(files) | named}
    )
    refused(preheat.run(), preheat, 3, *words)


@pytest.mark.full
def test_a_server_without_ranges_is_refused_before_a_large_file_moves(job, web):
    web.put(tiny_model(), "llm/tiny-llm")
    web.ranges = False
    preheat = job(source=WebStore(address=f"{web.url}/llm"))
    refused(
        preheat.run(),
        preheat,
        3,
        "whatever part of it is asked for",
        "let the server answer ranges",
    )
    assert not any(preheat.target.rglob("*.safetensors"))


@pytest.mark.full
@pytest.mark.parametrize(("flips", "code"), [(2, 0), (99, 5)], ids=["twice", "always"])
def test_a_bit_that_flips_while_ranges_are_tried_is_not_taken_for_a_server_without_them(
    job, web, flips, code
):
    web.put(tiny_model(), "llm/tiny-llm")
    web.faults.plan = lambda path, count: (
        ("flip", count % 32)
        if path.endswith(SHARD) and count <= 2 * flips and not count % 2
        else None
    )
    preheat = job(source=WebStore(address=f"{web.url}/llm"))
    outcome = preheat.run()
    assert outcome.code == code, outcome.output
    assert ("other bytes each time" in outcome.output) is (code != 0)
    assert "ranges" not in outcome.output


def test_a_secret_opens_a_server_and_stays_out_of_log_and_share(job, web):
    files = tiny_model()
    web.put(files, "llm/tiny-llm")
    web.authorization = SECRET["AUTHORIZATION"]
    preheat = job(source=WebStore(address=f"{web.url}/llm", credentials="mirror"))
    outcome = preheat.run()
    verified(outcome, preheat, files)
    assert set(web.authorizations) == {SECRET["AUTHORIZATION"]}
    on_share = b"".join(path.read_bytes() for path in preheat.target.rglob("*") if path.is_file())
    assert "canary-web-token" not in outcome.output
    assert b"canary-web-token" not in on_share


@pytest.mark.full
def test_a_server_that_wants_credentials_and_gets_none_is_told_as_such(job, web):
    web.put(tiny_model(), "llm/tiny-llm")
    web.authorization = SECRET["AUTHORIZATION"]
    preheat = job(
        source=WebStore(address=f"{web.url}/llm"),
        tuning={"retries": 1},
        repair=lambda _job: setattr(web, "authorization", None),
    )
    refused(preheat.run(), preheat, 5, "check that it is up and that the key may read it", "401")


@pytest.mark.full
def test_a_repository_arrives_at_its_commit_and_everything_is_compared_with_the_hub(
    job, hub, repository
):
    preheat = job(source=HubStore(endpoint=hub.url), weights=PINNED)
    verified(preheat.run(), preheat, repository)
    assert evidence(preheat)[SHARD] == "sha256"
    assert evidence(preheat)["config.json"] == "git-sha1"


def test_a_token_goes_to_the_hub_and_never_to_the_servers_behind_it(job, hub, repository):
    hub.token = SECRET["HF_TOKEN"]
    preheat = job(source=HubStore(endpoint=hub.url, credentials="hub"), weights=PINNED)
    outcome = preheat.run()
    verified(outcome, preheat, repository)
    assert set(hub.blobs.authorizations) == {None}
    on_share = b"".join(path.read_bytes() for path in preheat.target.rglob("*") if path.is_file())
    assert hub.token not in outcome.output
    assert hub.token.encode() not in on_share


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("v1.0", "revision 'v1.0' is a name that can move"),
        *in_full((None, "no revision is pinned")),
    ],
)
def test_a_name_that_moves_is_refused_with_the_commit_that_it_stands_for(job, hub, revision, words):
    hub.branches["v1.0"] = COMMIT
    preheat = job(source=HubStore(endpoint=hub.url), weights={**PINNED, "revision": revision})
    refused(preheat.run(), preheat, 3, words, f"write weights.revision: {COMMIT}")


@pytest.mark.full
@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"weights": {"path": "acme/none"}},
            ["this repository does not exist, or it is private", "HF_TOKEN"],
        ),
        ({"weights": {"revision": "f" * 40}}, [f"the repository has no commit {'f' * 40}"]),
        ({"gated": True}, ["the repository is gated", "accept the repository's terms"]),
        ({"token": "another"}, ["this repository does not exist, or it is private", "HF_TOKEN"]),
    ],
    ids=["no repository", "no commit", "gated", "no token"],
)
def test_what_the_hub_refuses_is_told_with_what_to_do(job, hub, change, words):
    hub.gated, hub.token = change.get("gated", False), change.get("token")
    preheat = job(
        source=HubStore(endpoint=hub.url), weights={**PINNED, **change.get("weights", {})}
    )
    refused(preheat.run(), preheat, 3, *words)


@pytest.mark.full
@pytest.mark.usefixtures("repository")
def test_a_pickle_of_a_repository_is_refused_before_a_byte_moves(job, hub):
    hub.commits[COMMIT].files["original/consolidated.00.pth"] = b"\x80\x04."
    preheat = job(source=HubStore(endpoint=hub.url), weights=PINNED)
    refused(preheat.run(), preheat, 3, "original/consolidated.00.pth", "preheat.exclude")
    assert not hub.faults.gets


@pytest.mark.full
@pytest.mark.usefixtures("repository")
def test_an_image_without_the_hubs_client_is_told_as_such(job, hub, tmp_path):
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError\n")
    preheat = job(source=HubStore(endpoint=hub.url), weights=PINNED)
    preheat.env["PYTHONPATH"] = str(tmp_path)
    refused(preheat.run(), preheat, 2, "this image has no huggingface_hub", "preheat.image")


@pytest.mark.full
@pytest.mark.usefixtures("repository")
def test_a_hub_that_falls_silent_is_not_waited_for_without_end(job, hub):
    hub.stall_listing = True
    repair = lambda _job: setattr(hub, "stall_listing", False)  # noqa: E731 - the fault and its end, next to each other
    preheat = job(
        source=HubStore(endpoint=hub.url),
        weights=PINNED,
        tuning={"stall_seconds": 0.5},
        repair=repair,
    )
    refused(preheat.run(), preheat, 5, "the hub was silent for", "check that it is up")


def test_a_mounted_directory_is_a_source_as_well(job, tmp_path):
    files = tiny_model()
    share = tmp_path / "other-share" / MODEL
    for path, data in files.items():
        share.mkdir(parents=True, exist_ok=True)
        (share / path).write_bytes(data)
    preheat = job(source=VolumeClaim(name="origin"), mounts={"/source": share.parent})
    outcome = preheat.run()
    assert outcome.code == 0, outcome.output
    assert preheat.files() == files
    assert set(evidence(preheat).values()) == {"second reading"}


@pytest.mark.full
@pytest.mark.usefixtures("model")
def test_a_ready_directory_as_a_source_hands_its_checksums_on(job, tmp_path):
    first = job()
    first.run()
    share = tmp_path / "copy"
    shutil.copytree(first.directory, share / MODEL)
    second = job(source=VolumeClaim(name="origin"), mounts={"/source": share})
    outcome = second.run()
    assert outcome.code == 0, outcome.output
    assert set(evidence(second).values()) == {"sha256"}
