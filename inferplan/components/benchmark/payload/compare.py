"""Runs the same load against several models with aiperf and prints one table: `python3 compare.py`, with the plan as JSON in $BENCHMARK.

It reads aiperf's summary (profile_export_aiperf.json, or genai-perf's in the same format). The key is in $API_KEY and is never
printed. The exit code is 1 if a measurement failed; the table has the others.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

COLUMNS = ("model", "prompt", "callers", "requests", "errors", "tokens/s")
PERCENTILES = ("p50", "p95", "p99")
# Responses of the gateway while no server of a model is ready.
NOT_READY = (502, 503, 504)
POLL_SECONDS = 5


def main(plan, key, directory):
    """Run every measurement of `plan` and print the table; return the exit code."""
    if shutil.which(plan["program"]) is None:
        print(f"The image has no {plan['program']}. Set benchmark.image to an image that has it (pip install aiperf).", file=sys.stderr)
        return 2
    rows, failures = [], []
    for service in plan["services"]:
        problem = wait_for(service, key, plan["waitSeconds"])
        if problem:
            failures.append(f"{service['model']}: {problem}")
            continue
        for prompt in plan["promptTokens"]:
            for callers in plan["concurrency"]:
                artifacts = directory / f"{service['model'].replace('/', '_')}-{prompt}-{callers}"
                print(f"measuring {service['model']}: prompts of {prompt} tokens, {callers} at once", file=sys.stderr, flush=True)
                done = subprocess.run(command(plan, service, key, prompt, callers, artifacts), capture_output=True, text=True)  # noqa: PLW1510 - its exit code is read below
                try:
                    rows.append(row(service["model"], prompt, callers, summary(artifacts)))
                except (OSError, ValueError, KeyError) as error:
                    last = hidden((done.stdout + done.stderr).strip()[-800:], key)
                    failures.append(f"{service['model']}, {prompt} tokens, {callers} at once: no summary ({error!r}); last output: {last}")
    print(table(rows))
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def command(plan, service, key, prompt, callers, artifacts):
    """Return the command line of one measurement. aiperf takes the key as an argument, so this container's process list shows it."""
    arguments = [plan["program"], "profile", "--model", service["served"], "--url", service["url"], "--streaming", "--ui", "none"]
    if service["protocol"] == "openai":
        arguments += ["--endpoint-type", "chat"]
    else:
        extra = {"payload_template": service["template"], "response_field": service["output"]}
        arguments += ["--endpoint-type", "template", "--custom-endpoint", service["path"], "--extra-inputs", json.dumps(extra)]
    arguments += ["--tokenizer", plan["tokenizer"], "--random-seed", "7", "--request-count", str(plan["requests"])]
    arguments += ["--concurrency", str(callers), "--synthetic-input-tokens-mean", str(prompt), "--synthetic-input-tokens-stddev", "0"]
    arguments += ["--output-tokens-mean", str(plan["outputTokens"]), "--output-tokens-stddev", "0"]
    return [*arguments, "--artifact-dir", str(artifacts), "--no-server-metrics", "--no-gpu-telemetry", "--api-key", key]


def wait_for(service, key, seconds):
    """Call the gateway until it has a server for the model; return None, or the problem after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        request = urllib.request.Request(service["probe"], data=b"{}", method="POST")  # noqa: S310 - the gateway's own address
        request.add_header("Authorization", f"Bearer {key}")
        request.add_header("Content-Type", "application/json")
        try:
            urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - as above
        except urllib.error.HTTPError as answer:
            if answer.code in (401, 403, 404):
                return f"the gateway answers {answer.code}: {answer.read()[:200].decode('utf-8', 'replace')}"
            # Any other status comes from a server that read the empty request.
            if answer.code not in NOT_READY:
                return None
            problem = f"the gateway answers {answer.code}"
        except OSError as unreachable:
            problem = f"{service['probe']} cannot be reached: {unreachable}"
        else:
            return None
        if time.monotonic() >= end:
            return f"{problem}, for {seconds} s"
        time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))


def summary(artifacts):
    """Return the newest summary below `artifacts`. Raises FileNotFoundError if there is none, ValueError if it is not JSON."""
    files = sorted([*artifacts.rglob("profile_export_aiperf.json"), *artifacts.rglob("*genai_perf.json")])
    if not files:
        raise FileNotFoundError(f"no summary in {artifacts}")
    return json.loads(files[-1].read_text(encoding="utf-8"))


def row(model, prompt, callers, report):
    """Return one row of the table. Raises KeyError if the summary has no measurement."""
    errors = sum(int(each.get("count", 1)) for each in report.get("error_summary") or [])
    completed = figure(report, "request_count", "avg")
    if completed is None and not errors:
        raise KeyError("request_count")
    latencies = [
        figure(report, metric, percentile) for metric in ("time_to_first_token", "inter_token_latency") for percentile in PERCENTILES
    ]
    return [model, prompt, callers, int(completed or 0), errors, figure(report, "output_token_throughput", "avg"), *latencies]


def figure(report, metric, statistic):
    """Return a value of the summary, None if it was not measured."""
    value = (report.get(metric) or {}).get(statistic)
    return None if value is None else float(value)


def table(rows):
    """The rows as aligned text; latencies in milliseconds."""
    heads = [*COLUMNS, *(f"{name} {percentile}" for name in ("TTFT", "ITL") for percentile in PERCENTILES)]
    lines = [heads, *([shown(value) for value in each] for each in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = [_line(line, widths) for line in lines]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], "", "TTFT: time to first token, ITL: inter-token latency, both in ms"])


def _line(cells, widths):
    first, *rest = (cell.rjust(widths[index]) if index else cell.ljust(widths[0]) for index, cell in enumerate(cells))
    return "  ".join([first, *rest])


def shown(value):
    """A cell: whole numbers and names as they are, measurements with one digit, nothing as a dash."""
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def hidden(text, key):
    """`text` without the key."""
    return text.replace(key, "<key>")


if __name__ == "__main__":
    sys.exit(main(json.loads(os.environ["BENCHMARK"]), os.environ["API_KEY"], Path(os.environ.get("ARTIFACTS", "/artifacts"))))
