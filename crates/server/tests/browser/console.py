"""A real server with real tools, and people signed in to its console in a real browser.

Each test starts runs of small programs, does on the pages what a person would do, and reads the result from the ledger of the
payments server or from the API: what the page shows is never taken for what happened. The server is the binary that
STASIS_BIN names.
"""

import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request

from webdriver import ENTER, Driver, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[4]
REFUND = ROOT / "examples" / "refund"
MODEL_SERVER = ROOT / "examples" / "gpu-wait" / "model.py"
SCREENSHOTS = ROOT / "target" / "screenshots"

#: How long something of the server may take: a first compilation of the guest image is part of the first run.
PATIENCE = 60

#: Beside the tools of the example: one that two have to approve, one that the requester may not, one that soon expires.
TOOLS = """
[[tool]]
name = "desk.two"
effect = "write"
recovery = "idempotent"
description = "Write to every customer"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:9100/mails" }
approval = { when = "exists(args.to)", roles = ["finance"], quorum = 2 }

[[tool]]
name = "desk.other"
description = "Write to a customer"
effect = "write"
recovery = "idempotent"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:9100/mails" }
approval = { when = "exists(args.to)", roles = ["finance"], separate_requester = true, edit = "yes" }

[[tool]]
name = "desk.brief"
description = "Write to a customer, soon"
effect = "write"
recovery = "idempotent"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:9100/mails" }
approval = { when = "exists(args.to)", roles = ["finance"], lease = "8s" }

[[tool]]
name = "desk.lost"
effect = "write"
recovery = "manual"
description = "Write to a customer over a line that breaks"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:9200/mails" }
approval = "never"

[[tool]]
name = "small.ask"
description = "Ask the small model"
effect = "read"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:9301/ask" }
resource = "chat:small"

[[tool]]
name = "large.ask"
description = "Ask the large model"
effect = "read"
input = { type = "object" }
http = { method = "POST", url = "http://127.0.0.1:9302/ask" }
resource = "chat:large"

[[resource]]
name = "chat:small"
cost = { memory_mib = 3000 }
start = ["python3", "{model}", "--port", "9301", "--load", "0.3", "--fail-from", "2", "--log", "{folder}/models.log"]
ready = "http://127.0.0.1:9301/health"

[[resource]]
name = "chat:large"
cost = { memory_mib = 8000 }
start = ["python3", "{model}", "--port", "9302", "--load", "2", "--die-loading"]
ready = "http://127.0.0.1:9302/health"

[worker]
resource_memory_mib = 8000

[[principal]]
id = "robot"
name = "The reviewer"
kind = "program"
rights = ["jobs:claim"]

[[principal]]
id = "vera"
name = "Vera"
kind = "person"
rights = ["runs:read"]

[[principal]]
id = "ben"
name = "Ben"
kind = "person"
roles = ["finance"]
"""

#: Calls the tool that the input names, with the arguments it names, as often as it says; a no is no error.
ASKS = """
desk_tools = {"two": desk.two, "other": desk.other, "brief": desk.brief, "refund": payments.refund}
done = []
for turn in range(inputs.get("times", 1)):
    try:
        done.append(desk_tools[inputs["tool"]](**inputs["arguments"]))
    except (stasis.Rejected, stasis.Expired) as refusal:
        done.append(type(refusal).__name__)
result = {"done": done}
"""

#: Asks a person for a word, and ends with what the person said.
GATE = """
decision = stasis.gate("Which order does the customer mean?", details={"found": ["o-7", "o-8"]}, roles=["finance"],
                       form={"type": "object", "required": ["order_id"], "properties": {
                           "order_id": {"type": "string", "maxLength": 20},
                           "urgent": {"type": "boolean", "title": "Urgent?", "description": "Urgent ones go out today."},
                           "share": {"type": "number"},
                           "note": {"type": "string"}}})
result = {"answer": decision.answer}
"""

#: Makes one call whose answer never comes.
LOST = """
result = {"sent": desk.lost(to="lost@customers.example", body="x")}
"""


#: Hands a text to a reviewer outside.
REVIEW = """
try:
    result = stasis.delegate("reviewer", {"text": "three words here"}, timeout="24h")
except stasis.JobFailed as error:
    result = {"why": error.status}
"""

#: Asks the model that the input names.
MODEL = """
result = {"reply": {"small": small.ask, "large": large.ask}[inputs["model"]](text="hello")["reply"]}
"""


class Broken(http.server.BaseHTTPRequestHandler):
    """Reads a request whole and hangs up without an answer."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.close_connection = True

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Server:
    """`stasis dev` on a directory of its own, with the payments server behind it."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="stasis-console-")
        self.path = pathlib.Path(self.folder.name)
        self.processes = []
        self.outputs = []
        self.broken = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken)
        threading.Thread(target=self.broken.serve_forever, daemon=True).start()
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        environment = {**os.environ, "PAY_TOKEN": "pay"}
        files = ["--ledger", self.path / "payments.jsonl", "--outbox", self.path / "mails.jsonl"]
        payments = self.spawn([sys.executable, REFUND / "payments.py", "--port", "0", *files], environment)
        address = self.first_line(payments)["url"].removeprefix("http://")
        config = (REFUND / "stasis.toml").read_text() + TOOLS
        config = config.replace("127.0.0.1:9100", address).replace(":9200", f":{self.broken.server_address[1]}")
        for port in ("9301", "9302"):
            config = config.replace(port, str(free_port()))
        config = config.replace("{model}", str(MODEL_SERVER)).replace("{folder}", str(self.path))
        (self.path / "stasis.toml").write_text(config)
        words = ["dev", "--listen", "127.0.0.1:0", "--output", "ndjson"]
        places = ["--data", self.path / "data", "--config", self.path / "stasis.toml"]
        host = self.spawn([os.environ["STASIS_BIN"], *words, *places], environment)
        up = self.first_line(host)
        self.url, self.sign_in_url, self.token = up["url"].rstrip("/"), up["sign_in_url"], up["token"]
        programs = {"asks": ASKS, "gate": GATE, "lost": LOST, "review": REVIEW, "model": MODEL, "refund": (REFUND / "refund.py").read_text()}
        for key, source in programs.items():
            self.api("POST", "/v1/workflows", {"key": key, "kind": "script", "source": source})

    def spawn(self, command, environment):
        log = open(self.path / f"log-{len(self.processes)}", "w+b")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment)
        self.processes.append(process)
        self.outputs.append(log)
        return process

    def first_line(self, process):
        """What a process says once it is ready; where it ended instead, what it said of that."""
        line = process.stdout.readline()
        if not line:
            raise RuntimeError((self.path / f"log-{self.processes.index(process)}").read_text())
        return json.loads(line)

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        for log in self.outputs:
            log.close()
        self.broken.shutdown()
        self.broken.server_close()
        self.folder.cleanup()

    def api(self, method, path, body=None, token=None):
        """The answer of the API, to `local` unless another token is given."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def post(self, path, form, headers):
        """Status, headers and body of the answer to a form, as it comes: no redirect is followed."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE)
        try:
            headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
            connection.request("POST", path, urllib.parse.urlencode(form), headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def token_of(self, principal):
        return self.api("POST", "/v1/tokens", {"principal": principal})["secret"]

    def run(self, workflow, body):
        return self.api("POST", "/v1/runs", {"workflow": workflow, "input": body})["id"]

    def ask(self, tool, arguments, times=1):
        """Starts a run that calls `tool`, and waits for its question. Gives the run and the approval."""
        run = self.run("asks", {"tool": tool, "arguments": arguments, "times": times})
        return run, self.question(run)

    def question(self, run, after=()):
        def found():
            pending = self.api("GET", f"/v1/approvals?run={run}")["items"]
            return next((approval for approval in pending if approval["id"] not in after), None)

        return wait_for(found, f"a question of {run}", PATIENCE)

    def approval(self, id):
        return self.api("GET", f"/v1/approvals/{id}")

    def ended(self, run):
        """The run, once it has ended."""
        final = ("done", "failed", "cancelled")
        read = lambda: (found := self.api("GET", f"/v1/runs/{run}"))["status"] in final and found
        return wait_for(read, f"the end of {run}", PATIENCE)

    def lines(self, name):
        file = self.path / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def refunds(self, order):
        return [line["amount"] for line in self.lines("payments.jsonl") if line["order_id"] == order]

    def mails(self, to):
        return [line for line in self.lines("mails.jsonl") if line["to"] == to]


class ConsoleCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.driver = cls.enterClassContext(Driver())
        cls.tokens = {name: cls.server.token_of(name) for name in ("maria", "ben", "vera")}

    def page(self, who="maria", to="/console/approvals", **options):
        """A browser in which somebody is signed in by token."""
        page = self.enterContext(self.driver.session(**options))
        page.open(self.server.url + to)
        page.find("#token").type((self.server.token if who == "local" else self.tokens[who]) + ENTER)
        page.wait_for(lambda: page.url.endswith(to), f"{who} at {to}")
        self.addCleanup(self.assert_quiet, page)
        return page

    def assert_quiet(self, page):
        """The browser refused nothing by the content security policy, and no script failed."""
        loud = [line["message"] for line in page.console() if line["level"] == "SEVERE"]
        # A refused form is answered with its status, which the browser reports; that is no fault of the page.
        loud = [line for line in loud if "the server responded with a status of 4" not in line]
        self.assertEqual(loud, [])

    def open(self, page, approval):
        page.open(f"{self.server.url}/console/approvals/{approval['id']}")

    def status(self, approval):
        return self.server.approval(approval["id"])["status"]

    def delegated(self):
        """A run that handed a job over, with its job."""
        run = self.server.run("review", {})
        found = lambda: self.server.api("GET", f"/v1/jobs?run={run}")["items"]
        return run, wait_for(found, f"the job of {run}", PATIENCE)[0]

    def claimed(self):
        """A job that an agent has in hand, and tells of."""
        _, job = self.delegated()
        claim = {"kind": "reviewer", "worker": "reviewer on desk 3", "claim_id": job["id"], "limit": 64}
        robot = self.server.token_of("robot")
        for taken in self.server.api("POST", "/v1/jobs/claim", claim, robot)["items"]:
            beat = {"token": taken["agent"]["token"], "progress": {"step": 2, "of": 5, "now": "reading the second page"}}
            self.server.api("POST", f"/v1/jobs/{taken['id']}/heartbeat", beat, robot)
            job = taken if taken["id"] == job["id"] else job
        return job

    def held(self):
        """A run that waited for a model to load, which then failed; what was stopped for it did not come back."""
        # From its second start on the small one fails, by this file.
        (self.server.path / "models.log").unlink(missing_ok=True)
        self.server.ended(self.server.run("model", {"model": "small"}))
        run = self.server.run("model", {"model": "large"})
        self.server.ended(run)
        return run
