"""What two parsers of forms read differently, the gateway's pattern rejects."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from python_multipart.multipart import parse_form
from werkzeug.formparser import FormDataParser

from inferplan.components.gateway.body_patterns import form_pattern
from tests.dataplane.gateway.forms import INVALID, VALID
from tests.lanes import in_full

TYPE = "multipart/form-data; boundary=XX"
# PCRE's spelling to Python's.
PATTERN = re.compile(
    re.sub(r"\(\?<(?=[a-z])", "(?P<", form_pattern("name", "boundary"))
    .replace(r"\k<boundary>", "(?P=boundary)")
    .replace(r"\z", r"\Z")
    .encode(),
    re.DOTALL,
)
PIECES = [
    *(b"\r", b"\n", b"\r\n", b"--XX", b"\r--XX\r", b"\r--XX\r\n", b"\n--XX\n", b"\r\n--XX"),
    *(b"--XX--", b"\n\r--XX--", b" ", b"\t", b"\0", b"\x0b", b"\x85", b";", b'"', b"\\"),
    *(b"Content-Disposition: form-data; name=model\r\n\r\nmistral", b"name*=utf-8''model"),
    *(b'; name="model"', b'; filename="model"', b"Content-Transfer-Encoding: base64\r\n"),
    *(b'\r--XX\rContent-Disposition: form-data; name="model"\r\r\rmistral', b"Content-Type: a\r\n"),
]
GO = """
package main
import ("bufio"; "bytes"; "encoding/base64"; "encoding/json"; "fmt"; "io"; "mime/multipart"; "os")
func main() {
  lines := bufio.NewScanner(os.Stdin); lines.Buffer(nil, 1<<20)
  for lines.Scan() {
    data, _ := base64.StdEncoding.DecodeString(lines.Text())
    reader := multipart.NewReader(bytes.NewReader(data), "XX")
    values := []string{}
    for {
      part, err := reader.NextPart()
      if err == io.EOF { break }
      if err != nil { values = nil; break }
      text, err := io.ReadAll(part)
      if err != nil { values = nil; break }
      if part.FormName() == "model" { values = append(values, string(text)) }
    }
    out, _ := json.Marshal(values); fmt.Println(string(out))
  }
}
"""


def of_werkzeug(form: bytes) -> list[str] | None:
    options = {"boundary": "XX"}
    parser = FormDataParser(silent=False)
    try:
        _, fields, files = parser.parse(BytesIO(form), "multipart/form-data", len(form), options)
    except ValueError:
        return None
    return [*fields.getlist("model"), *(str(each) for each in files.getlist("model"))]


def of_starlette(form: bytes) -> list[str] | None:
    """python-multipart, which starlette and FastAPI use."""
    values: list[str] = []

    def field(each: Any) -> None:
        if each.field_name == b"model":
            values.append((each.value or b"").decode(errors="replace"))

    def file(each: Any) -> None:
        if each.field_name == b"model":
            values.append("a file")

    try:
        parse_form({"Content-Type": TYPE.encode()}, BytesIO(form), field, file)
    except ValueError:
        return None
    return values


def of_email(form: bytes) -> list[str] | None:
    head = f"Content-Type: {TYPE}\r\n\r\n".encode()
    message = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + form)
    parts = message.iter_parts() if message.is_multipart() else ()
    named = [p for p in parts if p.get_param("name", header="content-disposition") == "model"]
    return [str(part.get_payload()) for part in named]


def generated(count: int) -> list[bytes]:
    """Forms and mutations of them: pieces added, removed and swapped."""
    random = Random(49)  # noqa: S311 - test data, nothing secret
    forms = [*VALID.values(), *INVALID.values()]
    for _ in range(count):
        content = b"".join(random.choices(PIECES, k=random.randint(1, 6)))
        file = b'--XX\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'
        forms.append(file + content + b"\r\n" + VALID["the model alone"])
        form = random.choice(forms)
        for _ in range(random.randint(1, 2)):
            at = random.randrange(len(form) + 1)
            piece = random.choice(PIECES)
            form = form[:at] + piece + form[at + random.choice((0, 0, 1, len(piece))) :]
        forms.append(form)
    return forms


def accepted(form: bytes) -> str | None:
    """The model that the gateway reads from a form, None if it rejects it."""
    match = PATTERN.match(form)
    return match["name"].decode() if match and match["boundary"] == b"XX" else None


@pytest.mark.parametrize("count", [2_000, *in_full(200_000)])
@pytest.mark.parametrize("parser", [of_werkzeug, of_starlette, of_email])
def test_every_parser_reads_an_accepted_form_as_the_gateway_does(
    parser: Callable[[bytes], list[str] | None], count: int
):
    names = {form: name for form in generated(count) if (name := accepted(form)) is not None}
    assert len(names) > count / 100
    wrong = {form: parser(form) for form, name in names.items() if parser(form) != [name]}
    assert not wrong, next(iter(wrong.items()))


def assert_reads_alike(parser: list[str], folder: Path) -> None:
    """Assert that the program `parser` reads each accepted form as the gateway does. It gets a form
    in base 64 a line, and answers with the names of models in it as JSON.
    """
    names = {form: name for form in generated(50_000) if (name := accepted(form)) is not None}
    done = subprocess.run(
        parser,
        cwd=folder,
        input=b"\n".join(map(b64encode, names)),
        capture_output=True,
        check=True,
    )
    readings = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [
        (form, reading)
        for (form, name), reading in zip(names.items(), readings, strict=True)
        if reading != [name]
    ]
    assert not wrong, wrong[0]


@pytest.mark.full
def test_go_reads_an_accepted_form_as_the_gateway_does(tmp_path: Path):
    go = shutil.which("go", path="/usr/local/go/bin:/usr/bin:/usr/local/bin")
    if go is None:
        pytest.skip("there is no Go on PATH")
    (tmp_path / "main.go").write_text(GO)
    assert_reads_alike([go, "run", "main.go"], tmp_path)


@pytest.mark.full
def test_busboy_reads_an_accepted_form_as_the_gateway_does(tmp_path: Path):
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no node with npm on PATH")
    shutil.copytree(Path(__file__).with_name("busboy"), tmp_path, dirs_exist_ok=True)
    # By the SHA-512 of the lock file.
    installed = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip("busboy cannot be installed here")
    assert_reads_alike([node, "read.js"], tmp_path)
