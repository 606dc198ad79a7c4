#!/usr/bin/env python3
"""A small payments server: orders to look up, refunds and mails to make, each written down exactly once.

It stands for the system of somebody else that Stasis calls. It is a real server: an effect is a line in a file that
is on disk before the answer leaves, and an `Idempotency-Key` is remembered in that line, so it holds over a restart.

    GET  /orders/{id}                                     the order, and what was refunded of it
    POST /refunds   {"order_id": "o-7", "amount": 250.5}  one line in the ledger
    POST /mails     {"to": "...", "body": "..."}          one line in the outbox

To see what a caller does when it dies at the worst moment, `--die-before-apply N` ends the process just before its
N-th effect is written, and `--die-after-apply N` just after, before the answer. With PAY_TOKEN in its environment,
the server asks for it as a bearer token.
"""

import argparse
import hashlib
import hmac
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORDERS = {
    "o-7": {
        "id": "o-7",
        "customer": "ada@customers.example",
        "lines": [
            {"sku": "lamp", "price": 199.5, "quantity": 1},
            {"sku": "bulb", "price": 8.5, "quantity": 6},
        ],
    },
    "o-8": {
        "id": "o-8",
        "customer": "bo@customers.example",
        "lines": [{"sku": "shade", "price": 45, "quantity": 2}],
    },
}

LARGEST_BODY = 1 << 20


class Refusal(Exception):
    """The request is answered with this status and nothing is done."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Journal:
    """A file of effects, one JSON line each. A line is whole and on disk, or it was never answered."""

    def __init__(self, path):
        self.path = path
        self.lines = []
        self.file = open(path, "a+b")
        self.file.seek(0)
        whole = 0
        for line in self.file:
            if not line.endswith(b"\n"):
                break
            self.lines.append(json.loads(line))
            whole += len(line)
        self.file.truncate(whole)

    def append(self, line):
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.lines.append(line)

    def find(self, key):
        return next((line for line in self.lines if key is not None and line["key"] == key), None)


class Shop:
    """What the server knows and does. Every method that writes holds the lock from its check to its line."""

    def __init__(self, options):
        self.options = options
        self.ledger = Journal(options.ledger)
        self.outbox = Journal(options.outbox)
        self.applied = 0
        self.lock = threading.Lock()

    def order(self, order_id):
        order = ORDERS.get(order_id)
        if order is None:
            raise Refusal(404, f"there is no order {order_id}")
        return order | {"paid": paid(order), "refunded": self.refunded_cents(order_id) / 100}

    def refund(self, key, body):
        order_id = text_field(body, "order_id")
        cents = cents_of(body.get("amount"))

        def check():
            left = round(self.order(order_id)["paid"] * 100) - self.refunded_cents(order_id)
            if cents > left:
                raise Refusal(409, f"{order_id}: {cents / 100:.2f} asked, {left / 100:.2f} left to refund")

        line = {"kind": "refund", "order_id": order_id, "amount": body["amount"]}
        return self.once(self.ledger, key, body, line, check)

    def mail(self, key, body):
        line = {"kind": "mail", "to": text_field(body, "to"), "body": text_field(body, "body")}
        return self.once(self.outbox, key, body, line, lambda: None)

    def once(self, journal, key, body, line, check):
        """Applies one effect, or answers as before if its key is known. Returns the line and whether it is new."""
        if self.options.slow:
            time.sleep(self.options.slow)
        body_digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self.lock:
            known = journal.find(key)
            if known is not None:
                if known["body_sha256"] != body_digest:
                    raise Refusal(422, "this Idempotency-Key was used with another body")
                return known, False
            check()
            self.die_if(self.options.die_before_apply)
            number = len(journal.lines) + 1
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            made = {"id": f"{line['kind']}-{number}", "at": at, **line, "key": key, "body_sha256": body_digest}
            journal.append(made)
            self.die_if(self.options.die_after_apply)
            self.applied += 1
            return made, True

    def die_if(self, number):
        if number == self.applied + 1:
            os._exit(137)

    def refunded_cents(self, order_id):
        return sum(cents_of(line["amount"]) for line in self.ledger.lines if line["order_id"] == order_id)


def paid(order):
    return sum(round(line["price"] * 100) * line["quantity"] for line in order["lines"]) / 100


def text_field(body, name):
    if not isinstance(body.get(name), str) or not body[name]:
        raise Refusal(400, f"`{name}` must be a text that is not empty")
    return body[name]


def cents_of(amount):
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 < amount < 1e9:
        raise Refusal(400, "`amount` must be a number above 0")
    cents = round(amount * 100)
    if abs(amount * 100 - cents) > 1e-6:
        raise Refusal(400, "`amount` has at most two decimals")
    return cents


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "payments"

    def do_GET(self):
        self.answer(self.get)

    def do_POST(self):
        self.answer(self.post)

    def get(self):
        folder, _, name = self.path.removeprefix("/").partition("/")
        if folder != "orders" or not name:
            raise Refusal(404, "GET knows /orders/{id}")
        return self.server.shop.order(name), True

    def post(self):
        body = self.body()
        act = {"/refunds": self.server.shop.refund, "/mails": self.server.shop.mail}.get(self.path)
        if act is None:
            raise Refusal(404, "POST knows /refunds and /mails")
        line, new = act(self.headers.get("Idempotency-Key"), body)
        return {name: value for name, value in line.items() if name not in ("key", "body_sha256")}, new

    def body(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True
            raise Refusal(413, f"a body has a length of at most {LARGEST_BODY} bytes")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except ValueError as error:
            raise Refusal(400, f"the body is no JSON: {error}") from error
        if not isinstance(body, dict):
            raise Refusal(400, "the body must be an object")
        return body

    def answer(self, act):
        status, headers = 200, {}
        try:
            self.check_token()
            answer, new = act()
            if not new:
                headers["Idempotent-Replayed"] = "true"
        except Refusal as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def check_token(self):
        token = self.server.token
        given = self.headers.get("Authorization", "")
        # Orders and mails are open; only money asks who you are.
        if token and self.path == "/refunds" and not hmac.compare_digest(given, f"Bearer {token}"):
            self.close_connection = True
            raise Refusal(401, "a refund needs the token of PAY_TOKEN")

    def log_message(self, *words):
        if self.server.shop.options.verbose:
            super().log_message(*words)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, options):
        self.shop = Shop(options)
        self.token = os.environ.get("PAY_TOKEN")
        super().__init__((options.host, options.port), Handler)


def parse_options():
    parser = argparse.ArgumentParser(description="A small payments server whose effects are lines in a file.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9100, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--ledger", default="payments.jsonl", help="file of refunds (default: %(default)s)")
    parser.add_argument("--outbox", default="mails.jsonl", help="file of mails (default: %(default)s)")
    parser.add_argument("--ready-file", help="written with the address, once connections are accepted")
    parser.add_argument("--die-before-apply", type=int, metavar="N", help="end before the N-th effect is written")
    parser.add_argument("--die-after-apply", type=int, metavar="N", help="end after the N-th effect, unanswered")
    parser.add_argument("--slow", type=float, default=0, metavar="SECONDS", help="wait before each effect")
    parser.add_argument("--verbose", action="store_true", help="log requests on stderr")
    return parser.parse_args()


def main():
    options = parse_options()
    try:
        server = Server(options)
    except OSError as error:
        sys.exit(f"error: {error}")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    port = server.server_address[1]
    ready = json.dumps({"port": port, "url": f"http://{options.host}:{port}"})
    print(ready, flush=True)
    if options.ready_file:
        with open(options.ready_file + ".part", "w") as file:
            file.write(ready + "\n")
        os.replace(options.ready_file + ".part", options.ready_file)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
