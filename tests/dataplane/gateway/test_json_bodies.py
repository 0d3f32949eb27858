"""The `model` and `stream` that two JSON parsers read differently in a body, the gateway rejects."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pydantic_core
import pytest
import rapidjson

from inferplan.components.gateway.body_patterns import json_pattern
from tests.dataplane.gateway.bodies import variants
from tests.dataplane.gateway.stand import nginx_binary, wait_for
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

Reading = tuple[str, str] | None
"""The model and stream of a body, as JSON; None if the parser rejects the body."""
KEYS = [
    *(
        '"model"',
        '"stream"',
        '"Model"',
        '"MODEL"',
        '"mOdel"',
        '"Stream"',
        '"STREAM"',
        '"\u017ftream"',
    ),
    *(r'"\u006dodel"', r'"\u004dodel"', r'"mod\u0065l"', r'"mo\u0044el"', r'"\u0073tream"'),
    *(r'"\u017ftream"', r'"\u017Ftream"', r'"strea\u004D"', r'"model\u0000"', r'"\ud800model"'),
    *(
        '"model "',
        '"x"',
        '"messages"',
        '""',
        "model",
        "'model'",
        r'"mode\/l"',
        '"mödel"',
        '"modeł"',
    ),
    *(r'"\uff4dodel"', r'"m\u03bfdel"', '"\u043codel"', r'"mode\u013a"', r'"a\"model"'),
]
VALUES = [
    *('"llama"', '"mistral"', "true", "false", "null", '"true"', "1", "1e999", "NaN", "-Infinity"),
    *(r'"\ud800"', r'"l\u006cama"', '"LLAMA"', '{"model":"mistral"}', '["model","mistral"]', "tru"),
    *('"}"', '"{"', r'"\""', '"a,\\"model\\":\\"mistral\\""', "0x1", "1.", ".5", "01", '"\\x41"'),
    *('"\t"', '"\\\n"', "[1,]", "{,}", "[" * 66 + "]" * 66, "[" * 3000 + "]" * 3000, '"a" "b"'),
]
SPACES = [
    "",
    "",
    "",
    "",
    " ",
    "\n",
    "\t",
    "\r",
    "\x0b",
    "\xa0",
    "/**/",
    "//\n",
    "#\n",
    "\0",
    "\ufeff",
]
FRAMES = [
    *(
        "{0}",
        "{0}",
        "{0}",
        "\ufeff{0}",
        "[{0}]",
        "{0}{0}",
        '{0}{{"model":"mistral"}}',
        "{0},",
        "{0}\0",
    ),
    *(")]}}'\n{0}", '{{"model":"llama","x":{0}}}', "/*{0}*/{0}", "{0}//", "{{{0}}}", " {0}\n"),
]
ENCODINGS = ["utf-8"] * 12 + ["utf-16", "utf-16-le", "utf-32", "utf-7", "latin-1"]


def generated(count: int) -> list[bytes]:
    """JSON bodies, nearly all with a model, and mutations of them."""
    chance = Random(4949)  # noqa: S311 - test data, nothing secret

    def member() -> str:
        key, value = chance.choice(KEYS), chance.choice(VALUES)
        if chance.random() < 0.3:
            key, value = '"stream"', chance.choice(VALUES[2:7])
        spaces = [chance.choice(SPACES) if chance.random() < 0.1 else "" for _ in range(4)]
        return "{0}{4}{1}:{2}{5}{3}".format(*spaces, key, value)

    bodies = [each.body for each in variants(count // 4)]
    while len(bodies) < count:
        members = [member() for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        members.insert(chance.randint(0, len(members)), '"model":"llama"')
        text = chance.choice(FRAMES).format("{" + ",".join(members) + "}")
        body = text.encode(chance.choice(ENCODINGS), "replace")
        if chance.random() < 0.2:
            at = chance.randrange(len(body))
            piece = chance.choice(
                (b'"', b"\\", b"{", b"}", b",", b":", b"\xff", b"\xed\xa0\x80", b"\0")
            )
            body = body[:at] + piece + body[at + chance.randint(0, 1) :]
        bodies.append(body)
    return list(dict.fromkeys(bodies))


@contextmanager
def pattern_server(folder: Path) -> Iterator[Callable[[Sequence[bytes]], list[str]]]:
    """nginx with the gateway's pattern alone: yields a function that returns the model of each
    body, "-" for a body that it rejects.
    """
    port, config = free_port(), folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(
        f"""{user} daemon off; pcre_jit on; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 1000000; client_body_buffer_size 1m;
    location / {{
      client_body_in_single_buffer on; mirror /.body; empty_gif; error_page 405 = @read;
    }}
    location = /.body {{ internal; return 204; }}
    location @read {{
      if ($request_body !~ '{json_pattern("name").replace(chr(92), chr(92) * 2)}') {{ return 200 "-"; }}
      return 200 "$name";
    }}
  }}
}}"""
    )
    process = subprocess.Popen([nginx_binary(), "-p", str(folder), "-c", str(config)])

    def read(bodies: Sequence[bytes]) -> list[str]:
        names = []
        with closing(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)) as connection:
            stream = connection.makefile("rb")
            for start in range(0, len(bodies), 20):
                batch = bodies[start : start + 20]
                connection.sendall(
                    b"".join(
                        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"
                        % (len(each), each)
                        for each in batch
                    )
                )
                for _ in batch:
                    length = 0
                    while (line := stream.readline()).strip():
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    names.append(stream.read(length).decode())
        return names

    def listens() -> bool:
        assert process.poll() is None, "nginx has ended"
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(listens, "nginx listens")
        yield read
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def reading(document: Any) -> Reading:
    if not isinstance(document, dict):
        return None
    return json.dumps(document.get("model")), json.dumps(document.get("stream"))


def first_of_two(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def any_case(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What Go's encoding/json reads."""
    return {key.replace("\u017f", "s").lower(): value for key, value in pairs}


PARSERS: dict[str, Callable[[bytes], Any]] = {
    "json, the last of two": json.loads,
    "json, the first of two": lambda body: json.loads(body, object_pairs_hook=first_of_two),
    "json, in any case": lambda body: json.loads(body, object_pairs_hook=any_case),
    "jiter (pydantic)": pydantic_core.from_json,
    "rapidjson (Triton)": rapidjson.loads,
    "rapidjson with comments": lambda body: rapidjson.loads(
        body, parse_mode=rapidjson.PM_COMMENTS | rapidjson.PM_TRAILING_COMMAS
    ),
}


def python_readings(bodies: Sequence[bytes]) -> Iterator[tuple[str, list[Reading]]]:
    for name, parse in PARSERS.items():
        readings: list[Reading] = []
        for body in bodies:
            try:
                readings.append(reading(parse(body)))
            except (ValueError, RecursionError):
                readings.append(None)
        yield name, readings


JAVASCRIPT = """
const text = (value) => value === undefined ? 'null' : JSON.stringify(value);
for (const line of require('fs').readFileSync(0, 'latin1').split('\\n')) {
  let reading = null;
  try {
    const document = JSON.parse(Buffer.from(line, 'base64').toString('utf8'));
    if (document && typeof document === 'object' && !Array.isArray(document))
      reading = [text(document.model), text(document.stream)];
  } catch (error) {}
  console.log(JSON.stringify(reading));
}
"""
GO = """
package main
import ("bufio"; "encoding/base64"; "encoding/json"; "fmt"; "os")
func main() {
  lines := bufio.NewScanner(os.Stdin); lines.Buffer(nil, 1<<20)
  for lines.Scan() {
    data, _ := base64.StdEncoding.DecodeString(lines.Text())
    document := struct{ Model any `json:"model"`; Stream any `json:"stream"` }{}
    if json.Unmarshal(data, &document) != nil { fmt.Println("null"); continue }
    model, _ := json.Marshal(document.Model); stream, _ := json.Marshal(document.Stream)
    both, _ := json.Marshal([]string{string(model), string(stream)}); fmt.Println(string(both))
  }
}
"""


def program_readings(
    command: Sequence[str], bodies: Sequence[bytes], folder: Path
) -> list[Reading]:
    done = subprocess.run(
        command,
        cwd=folder,
        input=b"\n".join(map(b64encode, bodies)),
        capture_output=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [None if each is None else (each[0], each[1]) for each in lines]


def disagreement(bodies: Sequence[bytes], names: Sequence[str], readings: list[Reading]) -> Any:
    """The first body that the gateway accepts and that was read as another model."""
    for body, name, each in zip(bodies, names, readings, strict=True):
        if each is not None and each[0].replace("\\/", "/") != json.dumps(name.replace("\\/", "/")):
            return body, name, each
    return None


@pytest.mark.parametrize("count", [6000, *in_full(150_000)])
def test_parsers_read_an_accepted_body_alike(tmp_path: Path, count: int):
    bodies = generated(count)
    with pattern_server(tmp_path) as read:
        pairs = [pair for pair in zip(bodies, read(bodies), strict=True) if pair[1] != "-"]
    assert len(pairs) > count / 20
    bodies, names = [body for body, _ in pairs], [name for _, name in pairs]
    parsers = dict(python_readings(bodies))
    if node := shutil.which("node"):
        parsers["JSON.parse"] = program_readings([node, "-e", JAVASCRIPT], bodies, tmp_path)
    go = shutil.which("go", path="/usr/local/go/bin:/usr/bin:/usr/local/bin")
    if go and count > 10_000:
        (tmp_path / "main.go").write_text(GO)
        parsers["Go"] = program_readings([go, "run", "main.go"], bodies, tmp_path)
    wrong = {name: disagreement(bodies, names, readings) for name, readings in parsers.items()}
    assert not any(wrong.values()), wrong
    streams = [{each[1] for each in row if each} for row in zip(*parsers.values(), strict=True)]
    differing = [body for body, each in zip(bodies, streams, strict=True) if len(each) > 1]
    assert not differing, differing[0]


AMBIGUOUS = {
    "two models": b'{"model":"llama","model":"mistral"}',
    "another case": b'{"model":"llama","Model":"mistral"}',
    "upper case": b'{"MODEL":"mistral","model":"llama"}',
    "an escaped key": rb'{"model":"llama","\u006dodel":"mistral"}',
    "an escaped capital": rb'{"model":"llama","\u004dodel":"mistral"}',
    "two streams": b'{"model":"llama","stream":true,"stream":false}',
    "streams on both sides": b'{"stream":true,"model":"llama","stream":false}',
    "a stream in another case": b'{"model":"llama","Stream":true}',
    "a stream with a long s": '{"model":"llama","\u017ftream":true}'.encode(),
    "an escaped long s": rb'{"model":"llama","\u017ftream":true}',
    "a text as stream": b'{"model":"llama","stream":"false"}',
    "a byte order mark": b'\xef\xbb\xbf{"model":"llama"}',
    "a comment": b'{"model":"llama"/*,"model":"mistral"*/}',
    "a comment in front": b'//\n{"model":"llama"}',
    "two documents": b'{"model":"llama"}{"model":"mistral"}',
    "UTF-16": '{"model":"llama"}'.encode("utf-16"),
    "66 levels": b'{"model":"llama","x":' + b"[" * 66 + b"]" * 66 + b"}",
}
PLAIN = {
    "the model alone": b'{"model":"llama"}',
    "with a stream": b'{"stream" : true , "x":1,"model":"llama"}',
    "with a stream behind": b'{"model":"llama","x":"\xc5\xbf","stream":null,"y":[{"stream":1,"model":2}]}',
    "between others": b'{"a":{},"model":"llama","Models":1,"streams":[]}',
    "keys and values in quotes": rb'{"x":"\"model\":\"mistral\"","model":"llama"}',
}


def test_ambiguous_bodies_are_rejected_and_plain_ones_pass(tmp_path: Path):
    with pattern_server(tmp_path) as read:
        rejected = dict(zip(AMBIGUOUS, read(list(AMBIGUOUS.values())), strict=True))
        assert {name: each for name, each in rejected.items() if each != "-"} == {}
        assert set(read(list(PLAIN.values()))) == {"llama"}
