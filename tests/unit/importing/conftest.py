from __future__ import annotations

import functools

import pytest

from inferplan.commands.import_stack.import_stack import import_stack
from inferplan.pulumi_engine.secrets import new_salt
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate

# A key takes a third of a second: one salt for all tests.
one_salt = functools.cache(new_salt)


@pytest.fixture
def imported(tmp_path, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    monkeypatch.setattr("inferplan.commands.import_stack.rejections.new_salt", one_salt)

    def run(text, accelerator="nvidia-h100"):
        (tmp_path / "source.yaml").write_text(text)
        result = import_stack(tmp_path / "source.yaml", accelerator=accelerator)
        (tmp_path / "Pulumi.imported.yaml").write_text(result.text)
        return result, validate(read_stack(tmp_path / "Pulumi.imported.yaml"))

    return run
