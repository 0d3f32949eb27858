"""The contract of a preheat, kept by the real payload with a real S3 server and the real rclone."""

from __future__ import annotations

import json


def test_a_model_arrives_whole_and_is_marked_ready_last(job, model):
    preheat = job()
    outcome = preheat.run()
    assert outcome.code == 0, outcome.output
    assert preheat.ready
    assert preheat.files() == model
