"""A rehearsal that answers: clients of a stack on a simulated cluster, through the generated
configuration in a real nginx.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path

import pytest
import urllib3

from inferplan.client.local_gateway import nginx
from inferplan.kube.api import Api
from inferplan.rehearsal.cluster import processes, start
from inferplan.rehearsal.cluster.components import PROXY, PROXY_WORKER, STUBS
from inferplan.rehearsal.serving.programs import answering_ports
from tests.canaries import hits
from tests.dataplane.gateway.stand import nginx_binary, wait_for
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.commands import ROOT, inferplan, started, up, variant

pytestmark = pytest.mark.cluster

FAST = "ttft=30ms,itl=3ms"
STUB = "This is the stub of"
CHAT = {"model": "llama-3-8b", "messages": [{"role": "user", "content": "hello there"}]}
DEPLOYMENT = "/apis/apps/v1/namespaces/inference/deployments/llama-3-8b"
SMALL = "      replicas: 2\n      consumers: [chat, batch]"


def scale(api: Api, count: int) -> None:
    api.request(
        "PATCH", DEPLOYMENT, {"spec": {"replicas": count}}, media="application/merge-patch+json"
    )


class Stand:
    """The local stack, up in its own state directory. A test that needs another stack file or
    profile runs `up` itself.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self.directory = state / "clusters" / "local"

    def up(self, *options: str, stack: str | Path = "local") -> str:
        done = inferplan(
            self.state, "up", str(stack), "--engine", "rehearsal", *(options or ("--profile", FAST))
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr + done.stdout

    @property
    def ports(self) -> dict[str, int]:
        return json.loads((self.directory / "serving" / "ports.json").read_text())

    def key(self, consumer: str = "chat", stack: str | Path = "local") -> str:
        return inferplan(
            self.state, "keys", "show", consumer, "--stack", str(stack), "--value"
        ).stdout.strip()

    def ask(
        self, key: str, path: str = "/llama-3-8b/v1/chat/completions", **body: object
    ) -> urllib3.BaseHTTPResponse:
        url = f"http://127.0.0.1:{self.ports['http']}{path}"
        return urllib3.request(
            "POST",
            url,
            json={**CHAT, **body},
            headers={"Authorization": f"Bearer {key}"},
            retries=False,
            timeout=60,
        )

    def metric(self, name: str) -> float:
        """The sum over the Ready pods of llama-3-8b."""
        base = f"http://127.0.0.1:{self.ports['metrics']}"
        targets = urllib3.request("GET", f"{base}/targets").json()
        pages = [
            urllib3.request("GET", f"{base}{each['labels']['__metrics_path__']}").data.decode()
            for each in targets
            if each["labels"]["model"] == "llama-3-8b"
        ]
        return sum(
            float(value)
            for page in pages
            for value in re.findall(rf"^{name}{{.*}} (\S+)$", page, re.MULTILINE)
        )

    def pids(self, component: str) -> list[int]:
        return processes.running(self.directory).get(component, [])


def resident_mebibytes(directory: Path) -> float:
    """What the processes that answer hold in memory; shared pages are counted in each."""
    pids = processes.running(directory)
    pages = [
        int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        for each in (STUBS, PROXY, PROXY_WORKER)
        for pid in pids[each]
    ]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def with_ten_models(folder: Path, stack: str) -> str:
    """The stack of docs/engines with `writer` under more names, all of which speak gRPC."""
    text = Path(stack).read_text().replace("nodes: 2, zones", "nodes: 6, zones")
    start, end = text.index("    writer:"), text.index("    guarded:")
    copies = [
        text[start:end].replace("writer:", f"writer-{number}:")
        for number in range(10 - len(re.findall("engine: triton", text)))
    ]
    path = folder / Path(stack).name
    path.write_text(text[:end] + "".join(copies) + text[end:])
    return str(path)


@pytest.fixture(scope="module")
def stand(local_up):
    nginx_binary()
    made = Stand(local_up[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERPLAN_STATE_DIR", str(made.state))
        made.up()
        yield made
        up(made.state)


def test_up_ends_with_a_question_and_its_answer_and_prints_the_address_on_loopback(stand):
    *_, question, answer = stand.up().strip().splitlines()
    assert re.fullmatch(r'\$ inferplan call llama-3-\S+ "hello" --stack local', question)
    assert answer.startswith(STUB)
    printed = inferplan(stand.state, "status", "local").stdout
    assert f"http://127.0.0.1:{stand.ports['http']}/llama-3-8b/v1" in printed


def test_call_and_the_printed_code_get_an_answer(stand):
    done = started(stand.state, "call", "llama-3-8b", "hello there", "--stack", "local")
    assert (
        done.stdout
        == f"{STUB} llama-3-8b in a rehearsal. No model has read the 2 words of the prompt.\n"
    ), done.stderr
    code = inferplan(
        stand.state, "snippet", "llama-3-8b", "--stack", "local", "--language", "curl"
    ).stdout
    environment = {**os.environ, "INFERPLAN_API_KEY": stand.key()}
    done = subprocess.run(
        ["/bin/sh", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert "data: [DONE]" in done.stdout, done.stderr
    assert "".join(re.findall(r'"content": "([^"]*)"', done.stdout)).startswith(STUB)


def test_the_protocol_of_openai(stand):
    key = stand.key()
    whole = stand.ask(key, max_tokens=4).json()
    assert (whole["choices"][0]["message"]["content"], whole["choices"][0]["finish_reason"]) == (
        "This is the stub",
        "length",
    )
    assert whole["usage"] == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}
    assert (
        stand.ask(key, "/v1/chat/completions", model="llama-3-70b")
        .headers["X-Inferplan-Stub"]
        .startswith("llama-3-70b-")
    )
    long = stand.ask(key, max_tokens=60, ignore_eos=True).json()
    assert long["usage"]["completion_tokens"] == 60
    text = stand.ask(key, "/llama-3-8b/v1/completions", prompt="a b c", max_tokens=3)
    assert text.json()["choices"][0]["text"] == "This is the"
    assert text.headers["X-Inferplan-Stub"].startswith("llama-3-8b-")
    two = stand.ask(key, "/llama-3-8b/v1/embeddings", input=["one", "two"]).json()["data"]
    assert len({tuple(each["embedding"]) for each in two}) == 2
    assert (
        stand.ask(key, model="other").status,
        stand.ask(key, "/llama-3-8b/v1/rerank").status,
    ) == (404, 501)
    models = urllib3.request(
        "GET",
        f"http://127.0.0.1:{stand.ports['http']}/llama-3-8b/v1/models",
        headers={"X-API-Key": key},
    )
    assert [each["id"] for each in models.json()["data"]] == ["llama-3-8b"]


def test_keys_grants_and_a_rotation_are_those_of_the_stack(stand, tmp_path):
    old = stand.key()
    assert (stand.ask("ipk_wrong").status, stand.ask(old).status) == (401, 200)
    assert (
        stand.ask(
            stand.key("batch"), "/llama-3-70b/v1/chat/completions", model="llama-3-70b"
        ).status
        == 404
    )
    rotated = variant(tmp_path, "chat: {keys: [2, 1]}", "chat: {keys: [3]}")
    rotated.write_text(
        rotated.read_text().replace("chat: {issued: 2}", "chat: {issued: 3, spent: 2}")
    )
    stand.up(stack=rotated)
    # Workers with the old keys finish what they have, and take nothing new.
    wait_for(lambda: stand.ask(old).status == 401, "the old key is denied")
    assert stand.ask(stand.key(stack=rotated)).status == 200
    stand.up()


def _answered_by(stand: Stand, key: str, requests: int) -> Counter[str]:
    """How many of `requests` to the route each model answered."""
    url = f"http://127.0.0.1:{stand.ports['http']}/v1/chat/completions"
    pool = urllib3.PoolManager(
        maxsize=16, headers={"Authorization": f"Bearer {key}"}, retries=False, timeout=60
    )

    def model_of(_: int) -> str:
        answer = pool.request("POST", url, json={**CHAT, "model": "chat-large", "max_tokens": 1})
        assert answer.status == 200, answer.data
        return answer.headers["X-Inferplan-Stub"].rsplit("-", 2)[0]

    with ThreadPoolExecutor(16) as threads:
        return Counter(threads.map(model_of, range(requests)))


@pytest.mark.full
def test_a_rehearsal_shows_the_split_of_a_route_and_its_change(stand, tmp_path):
    route = (
        "  inferplan:routes: {chat-large: {backends: {llama-3-8b: %d, llama-3-70b: %d}, consumers:"
        " [batch]}}\n"
    )
    requests = 400
    for share in (5, 50):
        # Five standard deviations of the binomial distribution: one run in a million fails by
        # chance.
        bound = 5 * sqrt(requests * share / 100 * (1 - share / 100))
        stack = variant(
            tmp_path, "  inferplan:gateway:", route % (100 - share, share) + "  inferplan:gateway:"
        )
        shown = stand.up("--profile", "ttft=5ms,itl=1ms", stack=stack)
        assert re.search(
            rf"chat-large +{share}% to llama-3-70b, {100 - share}% to llama-3-8b +batch", shown
        ), shown
        key = stand.key("batch", stack)
        wait_for(
            lambda key=key: (
                stand.ask(key, "/v1/chat/completions", model="chat-large").status == 200
            ),
            "the route answers",
        )
        answers = _answered_by(stand, key, requests)
        assert set(answers) == {"llama-3-8b", "llama-3-70b"}
        assert abs(answers["llama-3-70b"] - requests * share / 100) < bound, answers
    assert (
        stand.ask(stand.key("chat", stack), "/v1/chat/completions", model="chat-large").status
        == 404
    )
    stand.up()


def test_a_model_without_ready_replicas_takes_no_requests_and_a_drained_one_finishes_them(stand):
    key, cluster = stand.key(), start("local")
    stand.up("--profile", "ttft=30ms,itl=40ms")
    answers = []
    call = threading.Thread(
        target=lambda: answers.append(stand.ask(key, max_tokens=60, ignore_eos=True))
    )
    call.start()
    wait_for(lambda: stand.metric("vllm:num_requests_running") == 1, "the request runs")
    api = cluster.api()
    scale(api, 0)
    wait_for(lambda: stand.ask(key).status in (502, 503), "requests are rejected")
    assert call.is_alive()
    call.join(PATIENCE_SECONDS)
    assert (answers[0].status, answers[0].json()["usage"]["completion_tokens"]) == (200, 60)
    scale(api, 2)
    wait_for(lambda: stand.ask(key).status == 200, "requests are answered again")
    api.close()


def test_a_queue_builds_up_and_failures_come_as_the_profile_says(stand, tmp_path):
    few = variant(tmp_path, SMALL, SMALL.replace("replicas: 2", "replicas: 1\n      maxNumSeqs: 2"))
    said = stand.up(
        "--profile", "ttft=200ms,itl=50ms", "--profile", "llama-3-8b:failEvery=9", stack=few
    )
    assert (
        "llama-3-70b: ttft=200ms,itl=50ms,tokensPerSecond=2000,failEvery=0; llama-3-8b: ttft=200ms,"
        in said
    )
    key, statuses = stand.key(), []
    calls = [
        threading.Thread(target=lambda: statuses.append(stand.ask(key, max_tokens=30).status))
        for _ in range(8)
    ]
    for each in calls:
        each.start()
    wait_for(lambda: stand.metric("vllm:num_requests_waiting") == 6, "six requests wait")
    assert stand.metric("vllm:num_requests_running") == 2
    shown = json.loads(inferplan(stand.state, "top", str(few), "--once", "--json").stdout)
    [row] = [each for each in shown["models"] if each["name"] == "llama-3-8b"]
    assert (shown["source"], row["waitingRequests"] in range(7), row["kvCache"] is None) == (
        "pods",
        True,
        False,
    )
    for each in calls:
        each.join(PATIENCE_SECONDS)
    assert statuses == [200] * 8
    assert (stand.ask(key).status, stand.ask(key).status) == (500, 200)
    assert stand.metric("vllm:generation_tokens_total") > 8 * 20


@pytest.mark.full
def test_a_model_that_scales_to_zero_is_started_by_hand_and_answers(stand, tmp_path):
    """KEDA does not run here. Without a new JavaScript module, nginx rejects requests instead of
    holding them, and `up` says so.
    """
    monitored = (
        "  inferplan:monitoring: {prometheus: {namespace: monitoring, url:"
        " 'http://prometheus.monitoring.svc:9090'}}\n  inferplan:gateway:"
    )
    path = variant(tmp_path, SMALL, SMALL.replace("replicas: 2", "replicas: {min: 0, max: 2}"))
    path.write_text(path.read_text().replace("  inferplan:gateway:", monitored))
    said = stand.up(stack=path)
    assert ("the local gateway neither counts nor holds requests to llama-3-8b" in said) == (
        nginx._njs() is None
    )
    api = start("local").api()
    scale(api, 0)
    wait_for(lambda: stand.ask(stand.key()).status in (502, 503), "requests are rejected")
    scale(api, 1)
    wait_for(lambda: stand.ask(stand.key()).status == 200, "requests are answered")
    api.close()
    stand.up()


@pytest.mark.parametrize("component", [STUBS, *in_full(PROXY, PROXY_WORKER)])
def test_up_repairs_what_was_killed(stand, component):
    key = stand.key()
    [before] = stand.pids(component)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: before not in stand.pids(component), "it is gone")
    stand.up()
    assert stand.ask(key).status == 200
    assert [len(stand.pids(each)) for each in (STUBS, PROXY, PROXY_WORKER)] == [1, 1, 1]


def test_a_second_up_changes_no_process_and_no_port(stand):
    before = {each: stand.pids(each) for each in (STUBS, PROXY, PROXY_WORKER)}, stand.ports
    stand.up()
    assert (
        {each: stand.pids(each) for each in (STUBS, PROXY, PROXY_WORKER)},
        stand.ports,
    ) == before


def test_no_key_is_in_arguments_environments_or_logs_and_files_are_private(stand):
    secrets = {"chat": stand.key(), "batch": stand.key("batch")}
    assert all(stand.ask(key).status == 200 for key in secrets.values())
    server = re.search(r"Bearer (ips_\w+)", (stand.directory / "serving" / "keys.conf").read_text())
    assert server is not None
    secrets["server"] = server[1]
    surfaces = {path.name: path.read_bytes() for path in (stand.directory / "logs").iterdir()}
    for component in (STUBS, PROXY, PROXY_WORKER):
        for pid in stand.pids(component):
            surfaces |= {
                f"{component} {name}": Path(f"/proc/{pid}/{name}").read_bytes()
                for name in ("cmdline", "environ")
            }
    surfaces["stubs.json"] = (stand.directory / "serving" / "stubs.json").read_bytes()
    wait_for(
        lambda: b"llama-3-8b" in (stand.directory / "logs" / "access.log").read_bytes(),
        "nginx has written its log",
    )
    assert hits(secrets, surfaces) == []
    assert (stand.directory / "serving").stat().st_mode & 0o077 == 0
    assert (stand.directory / "serving" / "keys.conf").stat().st_mode & 0o177 == 0


def test_everything_listens_on_loopback_in_little_memory_and_starts_at_once(stand):
    assert inferplan(stand.state, "down", "local", "--engine", "rehearsal").returncode == 0
    assert not (stand.directory / "serving").exists()
    assert answering_ports("local") == {}
    assert processes.running(stand.directory).keys() & {STUBS, PROXY, PROXY_WORKER} == set()
    stand.up()
    table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine = {f"{port:04X}" for port in stand.ports.values()}
    listening = {
        each[1] for each in table if each[3] == "0A" and each[1].rpartition(":")[2] in mine
    }
    assert len(listening) >= 5
    assert {each.partition(":")[0] for each in listening} == {"0100007F"}
    assert 20 < resident_mebibytes(stand.directory) < 55


def test_without_nginx_up_says_how_to_get_it_and_goes_on(stand, monkeypatch):
    monkeypatch.setattr(nginx, "_binary", lambda: None)
    [line] = [each for each in stand.up().splitlines() if "answers in this rehearsal" in each]
    assert line.startswith(
        "note: no model of local answers in this rehearsal: nginx is not on PATH. Install it"
        " (inferplan's extra gateway:"
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "ttft=fast",
            (
                "--profile: ttft: 'fast' is not a duration. Write milliseconds or seconds above 0:"
                " 800ms or 1.5s."
            ),
        ),
        ("itl=1ms,failevery=2", "--profile: Unknown key 'failevery'. Did you mean 'failEvery'?"),
        ("llama:itl=1ms", "--profile: Unknown model 'llama'."),
        ("failEvery=-1", "--profile: failEvery: Input should be greater than or equal to 0"),
    ],
)
def test_a_profile_with_mistakes_is_rejected_before_anything_starts(tmp_path, option, message):
    done = inferplan(tmp_path, "up", "local", "--engine", "rehearsal", "--profile", option)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "clusters").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("engine", "ten"),
    [("triton", False), ("triton", True), ("ray-serve", False)],
    ids=["triton", "ten models of triton", "ray-serve"],
)
def test_other_protocols_are_answered_through_the_gateway(tmp_path, engine, ten):
    nginx_binary()
    stack = str(ROOT / "docs" / "engines" / f"Pulumi.{engine}.yaml")
    if ten:
        stack = with_ten_models(tmp_path, stack)
    try:
        done = inferplan(tmp_path, "up", stack, "--engine", "rehearsal", "--profile", FAST)
        assert done.returncode == 0, done.stderr[-2000:]
        calls = {
            "triton": [
                ("guarded", "kserve-v2-http"),
                ("writer", "kserve-v2-grpc"),
                ("writer", "triton-generate"),
                ("chatter", "openai"),
            ],
            "ray-serve": [("assistant", "openai"), ("tuned", "ray-serve")],
        }
        for model, protocol in calls[engine]:
            done = inferplan(
                tmp_path, "call", model, "hello", "--stack", stack, "--protocol", protocol
            )
            assert done.stdout.startswith(f"{STUB} {model} in a rehearsal."), (
                protocol,
                done.stderr,
            )
        assert 20 < resident_mebibytes(tmp_path / "clusters" / engine) < 60
    finally:
        inferplan(tmp_path, "down", stack, "--engine", "rehearsal", "--cluster")
    assert not [
        pid
        for pid, words in processes._command_lines()
        if any(str(tmp_path) in word for word in words) and pid != os.getpid()
    ]
