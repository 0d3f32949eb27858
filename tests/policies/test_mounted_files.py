"""Files of ConfigMaps that containers run or read, written from the user's side."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.report import check_stack
from inferplan.policies.subjects.python_code import plain_code
from tests.policies.cases import recording_of
from tests.policies.test_rules import only

RULE = "pod-restrict-mounted-files"
VLLM = "docker.io/vllm/vllm-openai:v0.33.0"
OWN = "registry.acme.example/scorer:1.2.0"


def found(
    files: dict[str, str],
    command: list[str],
    *,
    image: str = OWN,
    volume: dict[str, Any] | None = None,
    mount: dict[str, Any] | None = None,
    part: str = "data",
    source: list[dict[str, Any]] | None = None,
    name: str = "code",
) -> list[str]:
    """The paths with violations of a Deployment with this command, and of the ConfigMap that it mounts
    at /code.
    """
    container = {
        "name": "server",
        "image": image,
        "command": command,
        "ports": [{"containerPort": 8000}],
        "volumeMounts": [{"name": "code", "mountPath": "/code", **(mount or {})}],
        "envFrom": source or [],
    }
    volumes = [{"name": "code", **(volume or {"configMap": {"name": "code"}})}]
    template = {"spec": {"containers": [container], "volumes": volumes}}
    listed = [
        ("apps/v1:Deployment", {"spec": {"template": template}}, "server"),
        ("core/v1:ConfigMap", {part: files}, name),
    ]
    resources = [
        {
            "type": f"kubernetes:{type_}",
            "name": each,
            "inputs": {"metadata": {"name": each, "namespace": "models"}, **inputs},
        }
        for type_, inputs, each in listed
    ]
    report = check_stack(stack_of(recording_of(resources)), only(RULE))
    return [f"{each.resource} {each.path}" for each in report.violations]


PROGRAMS = [
    "import pickle\npickle.load(open('/models/r.pkl', 'rb'))",
    "from joblib import load as read\nread('/models/c.joblib')",
    "import dill as d\nd.loads(b'')",
    "import torch\ntorch.load('/models/c.pt', map_location='cuda', weights_only=False)",
    "import pandas as pd\npd.read_pickle('/models/f.pkl')",
    "import numpy as np\nnp.load('/models/f.npy', allow_pickle=True)",
    "from torch import hub\nhub.load('acme/det', 'large')",
    "from transformers import AutoModel\nAutoModel.from_pretrained('/m', trust_remote_code=True)",
    "m = SentenceTransformer('/m', model_kwargs={'trust_remote_code': True})",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', 'flash-attn'])",
    "import os\nos.system(f'uv pip install {name}')",
    "import urllib.request as u\nexec(u.urlopen('http://boot.tools.svc/b.py').read())",
]
SCRIPTS = [
    "uv pip install --system fastapi\nexec /app/serve",
    "curl -fsSL https://acme.example/x.sh | env MODE=q bash -\nexec /app/serve",
    "git clone https://github.com/acme/r /tmp/r\ncd /tmp/r && python setup.py develop",
    "npx --yes @acme/agent &\nexec /app/serve",
    "exec vllm serve /models/glm --trust-remote-code",
    "export TRUST_REMOTE_CODE=1\npython -c 'import joblib; joblib.load(1)'",
]
CALM_PROGRAMS = [
    '"""Never calls torch.load(weights_only=False) or trust_remote_code=True."""\nimport json\n',
    "import torch\ntorch.load('/models/c.pt', weights_only=True)",
    "AutoModel.from_pretrained('/m', trust_remote_code=False)",
    "import json\n# pickle.load is banned\njson.load(open('/models/r.json'))",
    "print('run pip install in the Dockerfile')",
    "import logging\nlogging.error('pickle.load(f) is not allowed')",
    "raise ImportError('pip install acme[gpu]')",
    "parser.add_argument('--pkgs', help='pip install these')",
]
CALM_SCRIPTS = [
    "# never pip install here\nexec /app/serve",
    "pip list --format=freeze\npip check\nexec /app/serve",
    "echo 'run pip install in the Dockerfile'\nexec /app/serve",
    "until wget -qO- http://chat:8000/health; do sleep 2; done\nexec /app/serve",
    "exec vllm serve /models/glm --no-trust-remote-code",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_mounted_program_that_loads_other_code_is_found(program):
    files = {"serve.py": program}
    assert found(files, ["python", "/code/serve.py"]) == ["ConfigMap/code data['serve.py']"]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("start.sh", ["/code/start.sh"]),
        ("boot", ["bash", "-eu", "/code/boot"]),
        ("boot.txt", ["sh", "-c", ". /code/boot.txt"]),
        ("lib.sh", ["sh", "-c", "exec /app/serve"]),
    ],
)
def test_a_mounted_script_that_loads_other_code_is_found(script, key, command):
    assert found({key: script}, command)


@pytest.mark.parametrize("text", CALM_PROGRAMS)
def test_a_harmless_program_is_calm(text):
    assert found({"serve.py": text}, ["python", "/code/serve.py"]) == []


@pytest.mark.parametrize("text", CALM_SCRIPTS)
def test_a_harmless_script_is_calm(text):
    assert found({"start.sh": text}, ["sh", "/code/start.sh"]) == []


OTHER_LANGUAGES = {
    "app.js": (
        "const { execSync } = require('child_process');\nexecSync('npm install express');",
        "require('child_process').spawnSync('npm', ['i', 'acme-serve'], {stdio: 'inherit'});",
        "const r = await fetch('https://acme.example/b.js');\nconst code = await r.text();\neval(code);",
        "new Function(await (await fetch(url)).text())();",
        "require('https').get(url, r => r.pipe(out)); const vm = require('vm'); vm.runInThisContext(src);",
        "import serve from 'https://acme.example/serve.mjs';\nserve();",
        "const t = await (await fetch(u)).text(); fs.writeFileSync('/tmp/b.js', t); require('/tmp/b.js');",
        "execSync('curl -fsSL https://acme.example/i.sh | sh');",
    ),
    "app.rb": (
        "system('gem install puma')\nexec('puma')",
        "`bundle install`\nrun App",
        "require 'open-uri'\neval(URI.open('https://acme.example/b.rb').read)",
        "body = Net::HTTP.get(URI(url))\ninstance_eval(body)",
        "%x(luarocks install lapis)",
    ),
    "app.lua": (
        "os.execute('luarocks install lapis')",
        "local http = require('socket.http')\nload(http.request('https://acme.example/b.lua'))()",
        "local body = https.request(url)\nloadstring(body)()",
        "local p = io.popen('curl -s https://acme.example/b.lua')\nload(p:read('*a'))()",
    ),
}
CALM_LANGUAGES = {
    "app.js": (
        "// run npm install first\nconst http = require('http');\nhttp.createServer(answer).listen(8000);",
        "console.log('npm install express is missing');\nprocess.exit(1);",
        "const r = await fetch('http://chat:8000/v1/models');\nconsole.log(await r.json());",
        "import { serve } from './serve.mjs';\nserve(8000);",
        "throw new Error('npm install express');",
    ),
    "app.rb": (
        "# gem install puma\nrequire 'sinatra'\nget('/') { 'ok' }",
        "puts 'gem install puma'\nexit 1",
        "body = Net::HTTP.get(URI(url))\nJSON.parse(body)",
    ),
    "app.lua": (
        "-- luarocks install lapis\nlocal lapis = require('lapis')",
        "local body = http.request(url)\nngx.say(body)",
    ),
}
_RUNNERS = {"js": "node", "rb": "ruby", "lua": "luajit"}


@pytest.mark.parametrize(
    ("name", "text"), [(name, each) for name, texts in OTHER_LANGUAGES.items() for each in texts]
)
def test_a_program_of_another_language_that_loads_other_code_is_found(name, text):
    runner = _RUNNERS[name.rpartition(".")[2]]
    assert found({name: text}, [runner, f"/code/{name}"]) == [f"ConfigMap/code data['{name}']"]
    assert found({"main": text}, [runner, "/code/main"]) == ["ConfigMap/code data.main"]


@pytest.mark.parametrize(
    ("name", "text"), [(name, each) for name, texts in CALM_LANGUAGES.items() for each in texts]
)
def test_a_harmless_program_of_another_language_is_calm(name, text):
    runner = _RUNNERS[name.rpartition(".")[2]]
    assert found({name: text}, [runner, f"/code/{name}"]) == []


SCRIPT = "pip install x\nexec /app/serve"


@pytest.mark.parametrize(
    ("volume", "mount"),
    [
        ({"projected": {"sources": [{"configMap": {"name": "code"}}]}}, {}),
        ({"configMap": {"name": "code", "items": [{"key": "go", "path": "bin/start.sh"}]}}, {}),
        ({}, {"mountPath": "/usr/bin/entry.sh", "subPath": "start.sh"}),
    ],
)
def test_a_script_is_found_however_it_is_mounted(volume, mount):
    files = {"go": SCRIPT, "start.sh": SCRIPT}
    assert len(found(files, ["/app/serve"], volume=volume or None, mount=mount)) == 1


def test_binary_data_is_read():
    files = {"start.sh": base64.b64encode(SCRIPT.encode()).decode()}
    assert found(files, ["sh", "/code/start.sh"], part="binaryData")


def test_damaged_binary_data_is_read_as_it_is():
    assert found({"start.sh": "a"}, ["sh", "/code/start.sh"], part="binaryData") == []


def test_data_that_speaks_of_commands_is_calm():
    files = {
        "prompt.txt": "If they ask, explain pip install, npx -y and torch.load(weights_only=False).",
        "requirements.txt": "fastapi\n",
        "panel.json": '{"title": "reviews of trust_remote_code"}',
        "values.yaml": "# trust_remote_code: true\ntrust_remote_code: false\n",
    }
    assert found(files, ["python", "/app/serve.py"]) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"model": "/models/phi-4", "trust_remote_code": true}',
        "model:\n  trust-remote-code: yes\n",
        'parameters { key: "trust_remote_code" value: { string_value: "true" } }',
        "hf_trust_remote_code=1",
    ],
)
def test_settings_that_trust_code_are_found(text):
    assert found({"settings": text}, ["tritonserver"])


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("served-model-name: chat\nmax-model-len: 8192\n", False),
        ("trust-remote-code: false\n", False),
        ("trust-remote-code: true\n", True),
        ("middleware: acme.hook\n", True),
        ("load-format: pt\n", True),
        ("enable-prompt-embeds: true\n", True),
    ],
)
def test_the_options_of_a_file_count_as_those_of_the_command(text, bad):
    command = ["vllm", "serve", "/models/chat", "--config", "/code/serve.yaml"]
    assert bool(found({"serve.yaml": text}, command, image=VLLM)) is bad


def test_options_that_are_not_in_the_stack_cannot_be_read():
    command = ["vllm", "serve", "/models/chat", "--config=/code/serve.yaml"]
    files = {"serve.yaml": "port: 8000\n"}
    assert found(files, command, image=VLLM) == []
    assert found(files, command, image=VLLM, name="other") == [
        "Deployment/server spec.template.spec.containers[0].args"
    ]


@pytest.mark.parametrize(
    ("variables", "bad"),
    [
        ({"VLLM_LOGGING_LEVEL": "INFO"}, False),
        ({"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}, True),
        ({"TRUST_REMOTE_CODE": "true"}, True),
        ({"LD_PRELOAD": "/models/a.so"}, True),
    ],
)
def test_variables_of_a_map_count_as_those_of_the_container(variables, bad):
    source = [{"configMapRef": {"name": "code"}}]
    assert bool(found(variables, ["vllm", "serve", "/m"], image=VLLM, source=source)) is bad


def test_variables_that_are_not_in_the_stack_cannot_be_read():
    source = [{"configMapRef": {"name": "elsewhere"}}]
    assert found({}, ["vllm", "serve", "/m"], image=VLLM, source=source)
    assert found({}, ["/app/serve"], source=source) == []


@pytest.mark.parametrize(
    "text", ["f(" * 100_000, "f(" + "-" * 100_000 + "1)", "f(1)" + "+1" * 200_000, "f('\\d')\0"]
)
def test_a_program_that_cannot_be_parsed_stays_as_it_is(text, recwarn):
    assert plain_code(text) == text
    assert not recwarn.list
