#!/usr/bin/env python3
"""An agent that reviews texts: it claims jobs over HTTP, says that it lives, and brings one result for each.

It needs nothing but the standard library. What it claimed stands in a file before it works on it, so that an agent that was
killed goes on with the same jobs: the same claim id gets the same jobs and tokens.

To see what becomes of agents that misbehave, `--until FILE` works until that file is there, `--twice` brings each result
twice, and `--ignore-stop` goes on when it is asked to stop.
"""

import argparse
import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request
import uuid


class Stasis:
    """The five verbs of an agent. A refusal is an answer like any other: its status and its body."""

    def __init__(self, url, token):
        self.url = url
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def post(self, path, body):
        request = urllib.request.Request(f"{self.url}/v1/jobs/{path}", json.dumps(body).encode(), self.headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.load(refusal)


def claim(stasis, options):
    """Claims one job, under the id of the claim that an agent before us did not finish."""
    state = pathlib.Path(options.state)
    claim_id = state.read_text() if state.exists() else str(uuid.uuid4())
    state.write_text(claim_id)
    body = {"kind": options.kind, "worker": options.name, "lease": options.lease, "claim_id": claim_id, "limit": 1}
    status, answer = stasis.post("claim", body)
    if status != 200:
        sys.exit(f"the claim was refused: {answer['detail']}")
    return answer["items"]


def review(task):
    words = task["text"].split()
    return {"words": len(words), "verdict": "fine" if len(words) >= 3 else "too short"}


def work(stasis, job, options):
    """Reviews, with a heartbeat at each step. None: it stopped, as it was asked to."""
    token = job["agent"]["token"]
    for step in range(1, sys.maxsize):
        status, heard = stasis.post(f"{job['id']}/heartbeat", {"token": token, "progress": {"step": step}})
        # A job that has ended cannot be heard of any more; this agent brings what it has all the same.
        stop = heard["stop"] if status == 200 else False
        tell("heard", job, status, stop=stop)
        if stop and not options.ignore_stop:
            return None
        if options.until is None or os.path.exists(options.until):
            return review(job["task"])
        time.sleep(options.pace)


def finish(stasis, job, result, options):
    token = job["agent"]["token"]
    if result is None:
        status, answer = stasis.post(f"{job['id']}/ack-cancel", {"token": token})
        return tell("stopped", job, status, state=answer.get("state"))
    for _ in range(2 if options.twice else 1):
        status, answer = stasis.post(f"{job['id']}/complete", {"token": token, "result": result})
        # After a refusal `truth` says what stands instead.
        tell("completed", job, status, state=answer.get("state") or answer.get("truth", {}).get("state"))


def tell(what, job, status, **facts):
    print(json.dumps({"what": what, "job": job["id"], "status": status, **facts}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:7878")
    parser.add_argument("--kind", default="reviewer")
    parser.add_argument("--name", default="agent.py", help="people are shown it")
    parser.add_argument("--lease", default="60s", help="how soon after each heartbeat the next is due")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between two steps")
    parser.add_argument("--state", default="agent.claim", help="where the claim stands")
    parser.add_argument("--once", action="store_true", help="end after one job, or when there is none")
    parser.add_argument("--until", metavar="FILE", help="work until this file is there")
    parser.add_argument("--twice", action="store_true", help="bring each result twice")
    parser.add_argument("--ignore-stop", action="store_true", help="go on when asked to stop")
    options = parser.parse_args()
    stasis = Stasis(options.url, os.environ["STASIS_TOKEN"])
    while True:
        jobs = claim(stasis, options)
        for job in jobs:
            finish(stasis, job, work(stasis, job, options), options)
        pathlib.Path(options.state).unlink()
        if options.once:
            return
        if not jobs:
            time.sleep(options.pace)


if __name__ == "__main__":
    main()
