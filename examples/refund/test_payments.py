"""Tests of payments.py: an effect is applied once per key, also when the server dies around it."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
REFUND = {"order_id": "o-7", "amount": 250.5}


class Payments:
    """A running server over files in `folder`."""

    def __init__(self, folder, *options, token=None):
        self.ledger_path = folder / "payments.jsonl"
        self.outbox_path = folder / "mails.jsonl"
        command = [sys.executable, HERE / "payments.py", "--port", "0", "--ledger", self.ledger_path]
        command += ["--outbox", self.outbox_path, "--ready-file", folder / "ready.json", *options]
        environment = {name: value for name, value in os.environ.items() if name != "PAY_TOKEN"}
        if token:
            environment["PAY_TOKEN"] = token
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def send(self, path, body=None, **headers):
        """The status and body of the answer; None where the connection ends without one."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, json.load(answer)
        except OSError:
            return None

    def ledger(self):
        return [json.loads(line) for line in self.ledger_path.read_text().splitlines()]

    def outbox(self):
        return [json.loads(line) for line in self.outbox_path.read_text().splitlines()]


class PaymentsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_an_order_shows_what_was_paid_and_refunded(self):
        with Payments(self.folder) as payments:
            status, order = payments.send("/orders/o-7")
            self.assertEqual((status, order["paid"], order["refunded"]), (200, 250.5, 0))
            payments.send("/refunds", {"order_id": "o-7", "amount": 50.25})
            self.assertEqual(payments.send("/orders/o-7")[1]["refunded"], 50.25)
            self.assertEqual(payments.send("/orders/o-0")[0], 404)

    def test_a_key_applies_once_and_gives_the_same_answer(self):
        with Payments(self.folder) as payments:
            first = payments.send("/refunds", REFUND, Idempotency_Key="k1")
            again = payments.send("/refunds", REFUND, Idempotency_Key="k1")
            self.assertEqual(first[0], 200)
            self.assertEqual(again, first)
            self.assertEqual(len(payments.ledger()), 1)

    def test_a_key_is_remembered_over_a_restart(self):
        with Payments(self.folder) as payments:
            first = payments.send("/refunds", REFUND, Idempotency_Key="k1")
        with Payments(self.folder) as payments:
            self.assertEqual(payments.send("/refunds", REFUND, Idempotency_Key="k1"), first)
            self.assertEqual(len(payments.ledger()), 1)

    def test_a_key_with_another_body_is_refused(self):
        with Payments(self.folder) as payments:
            payments.send("/refunds", REFUND | {"amount": 1}, Idempotency_Key="k1")
            status, _ = payments.send("/refunds", REFUND | {"amount": 2}, Idempotency_Key="k1")
            self.assertEqual((status, len(payments.ledger())), (422, 1))

    def test_twenty_at_once_with_one_key_apply_once(self):
        with Payments(self.folder) as payments, concurrent.futures.ThreadPoolExecutor(20) as pool:
            sent = [pool.submit(payments.send, "/refunds", REFUND, Idempotency_Key="k1") for _ in range(20)]
            answers = [answer.result() for answer in sent]
            self.assertEqual(answers, [answers[0]] * 20)
            self.assertEqual(len(payments.ledger()), 1)

    def test_without_a_key_every_request_applies(self):
        with Payments(self.folder) as payments:
            mail = {"to": "ada@customers.example", "body": "Hello"}
            self.assertNotEqual(payments.send("/mails", mail), payments.send("/mails", mail))
            self.assertEqual(len(payments.outbox()), 2)

    def test_dying_before_it_applies_leaves_no_line(self):
        with Payments(self.folder, "--die-before-apply", "1") as payments:
            self.assertIsNone(payments.send("/refunds", REFUND, Idempotency_Key="k1"))
            self.assertEqual(payments.process.wait(10), 137)
            self.assertEqual(payments.ledger(), [])

    def test_dying_after_it_applied_leaves_the_line_for_the_next_attempt(self):
        with Payments(self.folder, "--die-after-apply", "2") as payments:
            self.assertEqual(payments.send("/refunds", REFUND | {"amount": 1}, Idempotency_Key="k1")[0], 200)
            self.assertIsNone(payments.send("/refunds", REFUND | {"amount": 2}, Idempotency_Key="k2"))
            self.assertEqual(payments.process.wait(10), 137)
        with Payments(self.folder) as payments:
            status, answer = payments.send("/refunds", REFUND | {"amount": 2}, Idempotency_Key="k2")
            self.assertEqual((status, answer["id"]), (200, "refund-2"))
            self.assertEqual(len(payments.ledger()), 2)

    def test_a_line_that_was_cut_short_is_dropped_at_the_start(self):
        (self.folder / "payments.jsonl").write_bytes(b'{"id": "refund-1", "ki')
        with Payments(self.folder) as payments:
            self.assertEqual(payments.send("/refunds", REFUND)[1]["id"], "refund-1")
            self.assertEqual(len(payments.ledger()), 1)

    def test_more_than_was_paid_is_refused(self):
        with Payments(self.folder) as payments:
            self.assertEqual(payments.send("/refunds", REFUND | {"amount": 250.51})[0], 409)
            self.assertEqual(payments.send("/refunds", REFUND)[0], 200)
            self.assertEqual(payments.send("/refunds", REFUND | {"amount": 0.01})[0], 409)

    def test_a_refund_needs_the_token_and_an_order_does_not(self):
        with Payments(self.folder, token="secret") as payments:
            self.assertEqual(payments.send("/refunds", REFUND)[0], 401)
            self.assertEqual(payments.send("/refunds", REFUND, Authorization="Bearer wrong")[0], 401)
            self.assertEqual(payments.send("/orders/o-7")[0], 200)
            self.assertEqual(payments.send("/refunds", REFUND, Authorization="Bearer secret")[0], 200)
            self.assertEqual(len(payments.ledger()), 1)

    def test_what_is_no_refund_is_refused(self):
        bad = [b"{", b"[]", {"amount": 1}, REFUND | {"amount": "1"}, REFUND | {"amount": -1}, REFUND | {"amount": 0.001}]
        with Payments(self.folder) as payments:
            for body in bad:
                self.assertEqual(payments.send("/refunds", body)[0], 400, body)
            self.assertEqual(payments.send("/refunds", REFUND | {"order_id": "o-0"})[0], 404)
            self.assertEqual(payments.ledger(), [])

    def test_the_ready_file_names_the_address(self):
        with Payments(self.folder) as payments:
            payments.send("/orders/o-7")
            self.assertEqual(json.loads((self.folder / "ready.json").read_text())["url"], payments.url)


if __name__ == "__main__":
    unittest.main()
