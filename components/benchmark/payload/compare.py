"""Drives services with the same load through aiperf and prints one table: `python3 compare.py`, with the plan as JSON in $BENCHMARK.

It reads aiperf's summary (profile_export_aiperf.json, or genai-perf's, whose shape is the same). The key is in $API_KEY and is printed
nowhere. It ends with status 1 when a measurement failed, after the table of those that did not.
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
# What a gateway answers while no server of a model is ready.
NOT_READY = (502, 503, 504)
POLL_SECONDS = 5


def main(plan, key, directory):
    """Runs every measurement of `plan` and prints the table; the exit code."""
    if shutil.which(plan["program"]) is None:
        print(f"this image holds no {plan['program']}; name one that does under benchmark.image (pip install aiperf)", file=sys.stderr)
        return 2
    rows, failures = [], []
    for service in plan["services"]:
        said = wait_for(service, key, plan["waitSeconds"])
        if said:
            failures.append(f"{service['model']}: {said}")
            continue
        for prompt in plan["promptTokens"]:
            for callers in plan["concurrency"]:
                place = directory / f"{service['model']}-{prompt}-{callers}"
                print(f"measuring {service['model']}: prompts of {prompt} tokens, {callers} at once", file=sys.stderr, flush=True)
                done = subprocess.run(command(plan, service, key, prompt, callers, place), capture_output=True, text=True)  # noqa: PLW1510 - its exit code is read below
                try:
                    rows.append(row(service["model"], prompt, callers, summary(place)))
                except (OSError, ValueError, KeyError) as fault:
                    last = hidden((done.stdout + done.stderr).strip()[-800:], key)
                    failures.append(f"{service['model']}, {prompt} tokens, {callers} at once: no summary ({fault!r}); it said: {last}")
    print(table(rows))
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def command(plan, service, key, prompt, callers, place):
    """The command line of one measurement. aiperf takes its key as an argument, so it shows in this container's process list."""
    arguments = [plan["program"], "profile", "--model", service["served"], "--url", service["url"], "--streaming", "--ui", "none"]
    if service["protocol"] == "openai":
        arguments += ["--endpoint-type", "chat"]
    else:
        extra = {"payload_template": service["template"], "response_field": service["output"]}
        arguments += ["--endpoint-type", "template", "--custom-endpoint", service["path"], "--extra-inputs", json.dumps(extra)]
    arguments += ["--tokenizer", plan["tokenizer"], "--random-seed", "7", "--request-count", str(plan["requests"])]
    arguments += ["--concurrency", str(callers), "--synthetic-input-tokens-mean", str(prompt), "--synthetic-input-tokens-stddev", "0"]
    arguments += ["--output-tokens-mean", str(plan["outputTokens"]), "--output-tokens-stddev", "0"]
    return [*arguments, "--artifact-dir", str(place), "--no-server-metrics", "--no-gpu-telemetry", "--api-key", key]


def wait_for(service, key, seconds):
    """Asks until the gateway has a server for the service; None, or why there is none."""
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
            # Anything else than "no server" is a server that read the empty request.
            if answer.code not in NOT_READY:
                return None
            said = f"the gateway answers {answer.code}"
        except OSError as unreachable:
            said = f"{service['probe']} cannot be reached: {unreachable}"
        else:
            return None
        if time.monotonic() >= end:
            return f"{said}, for {seconds} s"
        time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))


def summary(place):
    """The newest summary below `place`. Raises FileNotFoundError where there is none, ValueError where it is no JSON."""
    found = sorted([*place.rglob("profile_export_aiperf.json"), *place.rglob("*genai_perf.json")])
    if not found:
        raise FileNotFoundError(f"no summary in {place}")
    return json.loads(found[-1].read_text(encoding="utf-8"))


def row(model, prompt, callers, found):
    """One line of the table. Raises KeyError where the summary holds no measurement at all."""
    errors = sum(int(each.get("count", 1)) for each in found.get("error_summary") or [])
    completed = figure(found, "request_count", "avg")
    if completed is None and not errors:
        raise KeyError("request_count")
    latencies = [
        figure(found, metric, percentile) for metric in ("time_to_first_token", "inter_token_latency") for percentile in PERCENTILES
    ]
    return [model, prompt, callers, int(completed or 0), errors, figure(found, "output_token_throughput", "avg"), *latencies]


def figure(found, metric, statistic):
    """A figure of the summary, None where it was not measured."""
    value = (found.get(metric) or {}).get(statistic)
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
