#!/usr/bin/env python3
"""A stand-in for a local model server: it takes a while to load, says when it is ready, and answers in upper case.

    python3 model.py --port 8081 --load 3

GET /health is 503 while it loads and 200 afterwards; POST /ask takes {"text": ...}. The other options make it misbehave
in the ways that real servers do.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--port", type=int, required=True)
options.add_argument("--load", type=float, default=3.0, help="seconds until it is ready")
options.add_argument("--log", help="a file that gets a line at each start, readiness and end")
options.add_argument("--die-loading", action="store_true", help="end while loading")
options.add_argument("--never-ready", action="store_true", help="load for ever")
options.add_argument("--deaf", action="store_true", help="ignore SIGTERM")
options.add_argument("--die-after-answer", action="store_true", help="end after the first answer")
options.add_argument("--fail-from", type=int, help="end while loading from this start on; needs --log")
asked = options.parse_args()


def log(word):
    if asked.log:
        with open(asked.log, "a") as file:
            file.write(f"{word} {asked.port} {os.getpid()}\n")


def earlier_starts():
    try:
        with open(asked.log) as file:
            return sum(line.startswith(f"start {asked.port} ") for line in file)
    except FileNotFoundError:
        return 0


def end(*_):
    log("end")
    os._exit(0)


def idle():
    # In short naps, so that a signal is never kept waiting.
    while True:
        time.sleep(0.2)


ready = threading.Event()


class Model(BaseHTTPRequestHandler):
    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(200 if ready.is_set() else 503, {"ready": ready.is_set()})

    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        time.sleep(0.3)
        self.answer(200, {"reply": text.upper()})
        if asked.die_after_answer:
            log("died")
            os._exit(1)

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, signal.SIG_IGN if asked.deaf else end)
fails = asked.die_loading or (asked.fail_from is not None and earlier_starts() + 1 >= asked.fail_from)
log("start")
server = ThreadingHTTPServer(("127.0.0.1", asked.port), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
if asked.never_ready:
    idle()
time.sleep(asked.load)
if fails:
    log("died")
    sys.exit("out of memory: this model does not fit")
ready.set()
log("ready")
idle()
