"""Tests of the console: signing in, answers, doors, keys, sizes and runs (I-50 to I-53)."""

import hashlib
import http.server
import json
import threading
import unittest
import urllib.parse
import urllib.request

from console import PATIENCE, SCREENSHOTS, ConsoleCase
from webdriver import ENTER, ESCAPE, TAB, wait_for


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of another origin that posts a form to where its query says."""

    def do_GET(self):
        target = urllib.parse.unquote(self.path.partition("?")[2])
        body = f'<form method=post action="{target}"><input name=decision value=approve><button>Go</button></form>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class ConsoleTest(ConsoleCase):
    # Signing in

    def test_opening_a_sign_in_link_spends_nothing_and_its_button_signs_in_once(self):
        link = self.server.sign_in_url
        for _ in range(20):
            urllib.request.urlopen(link, timeout=10).close()
        page = self.enterContext(self.driver.session())
        page.open(link)
        page.reload()
        self.assertEqual(page.cookies(), [])  # C-297
        page.find("#sign-in").click()
        page.wait_for(lambda: page.url.endswith("/console/approvals"))  # I-52
        cookie = page.cookies()[0]
        self.assertTrue(cookie["httpOnly"])  # I-52
        self.assertEqual(cookie["sameSite"], "Strict")  # I-52
        page.find(".who button").click()
        page.wait_for_text("Signed out")
        page.open(link)
        page.find("#sign-in").click()
        page.wait_for_text("This link is unknown, used or expired.")  # C-289

    def test_who_is_not_signed_in_is_sent_to_sign_in_and_back(self):
        page = self.enterContext(self.driver.session())
        page.open(self.server.url + "/console/runs?status=failed")
        page.find("#token").type("not-a-token" + ENTER)
        page.wait_for_text("This token is unknown")
        page.find("#token").type(self.tokens["maria"] + ENTER)
        page.wait_for(lambda: page.url.endswith("/console/runs?status=failed"))

    # Answers

    def test_a_question_appears_by_itself_and_an_approve_pays_what_was_shown(self):
        page = self.page()
        run = self.server.run("refund", {"id": "o-7"})
        approval = self.server.question(run)
        card = page.find(f"#{approval['id']} .cover")  # I-51
        card.click()
        shown = page.find(".exact").text
        self.assertEqual(hashlib.sha256(shown.encode()).hexdigest(), approval["arguments_digest"].split(":")[1])  # C-285
        page.find("#approve").click()
        page.wait_for_text("Recorded: approve.")
        self.assertEqual(self.status(approval), "approved")
        decision = self.server.approval(approval["id"])["decisions"][0]
        self.assertEqual((decision["principal"], decision["method"]), ("maria", "console"))  # C-177
        self.assertEqual(self.server.ended(run)["status"], "done")
        self.assertEqual(self.server.refunds("o-7"), [250.5])
        page.wait_for_text("its outcome is ok")  # I-51
        page.reload()
        self.assertEqual(len(self.server.approval(approval["id"])["decisions"]), 1)

    def test_an_edit_that_does_not_fit_comes_back_whole_and_one_that_fits_is_what_runs(self):
        run, approval = self.server.ask("refund", {"order_id": "o-8", "amount": 150})
        page = self.page()
        self.open(page, approval)
        page.find("#edit summary").click()
        field = page.find("#edited")
        self.assertEqual(json.loads(field.value), {"order_id": "o-8", "amount": 150})
        for wrong, fault in [('{"order_id": "o-8", "amount": ', "no JSON"), ('{"order_id": "o-8", "amount": -5}', "")]:
            page.find("#edited").clear()
            page.find("#edited").type(wrong)
            page.find("#edit-reason").clear()
            page.find("#edit-reason").type("half of it")
            page.find("#edit button").click()
            page.wait_for(lambda: fault in page.find("#edit .fault").text, "the fault beside the field")
            self.assertEqual(page.find("#edited").value, wrong)
            self.assertEqual(page.find("#edit-reason").value, "half of it")
        self.assertEqual(self.status(approval), "pending")
        page.find("#edited").clear()
        page.find("#edited").type('{"order_id": "o-8", "amount": 75.50}')
        page.find("#edit button").click()
        page.wait_for_text("Recorded: approve.")
        self.assertEqual(self.server.ended(run)["status"], "done")
        self.assertEqual(self.server.refunds("o-8"), [75.5])
        difference = page.find(".difference").text
        self.assertIn("150", difference)  # C-186
        self.assertIn("75.50", difference)  # C-186
        self.assertIn("approved with an edit", page.find("#history").text)

    def test_a_long_edit_arrives_whole(self):
        run, approval = self.server.ask("other", {"to": "long@customers.example", "body": "x"})
        page = self.page()
        self.open(page, approval)
        # A browser writes each of these letters as six bytes.
        edit = {"to": "long@customers.example", "body": "\u00e4" * 30_000}
        page.find("#edit summary").click()
        page.run("document.getElementById('edited').value = arguments[0]", json.dumps(edit, ensure_ascii=False))
        page.find("#edit button").click()
        page.wait_for_text("Recorded: approve.")
        self.assertEqual(self.server.ended(run)["status"], "done")
        self.assertEqual(self.server.mails("long@customers.example")[0]["body"], edit["body"])

    def test_a_reject_wants_a_reason_and_nothing_is_paid(self):
        run, approval = self.server.ask("other", {"to": "rejected@customers.example", "body": "x"})
        page = self.page()
        self.open(page, approval)
        page.find("#reject").click()
        page.find(".fault")
        self.assertEqual(self.status(approval), "pending")
        page.find("#reason").type("ask for a photo first")
        page.find("#reject").click()
        page.wait_for_text("Recorded: reject.")
        self.assertIn("ask for a photo first", page.find("#history").text)
        self.assertEqual(self.server.ended(run)["result"], {"done": ["Rejected"]})
        self.assertEqual(self.server.mails("rejected@customers.example"), [])

    def test_two_people_have_to_agree_and_the_second_sees_the_first(self):
        run, approval = self.server.ask("two", {"to": "quorum@customers.example", "body": "x"})
        maria, ben = self.page(), self.page("ben")
        self.open(ben, approval)
        self.open(maria, approval)
        maria.find("#approve").click()
        maria.wait_for_text("More people have to answer")
        self.assertIn("You approved. 1 of 2 approved", maria.find("#said").text)
        ben.wait_for_text("1 of 2")  # I-51
        self.assertEqual(self.status(approval), "pending")  # C-180
        self.assertEqual(self.server.mails("quorum@customers.example"), [])
        ben.find("#approve").click()
        ben.wait_for_text("Recorded: approve.")
        self.assertEqual(self.server.ended(run)["status"], "done")
        self.assertEqual(len(self.server.mails("quorum@customers.example")), 1)

    def test_the_requester_is_told_why_the_own_click_does_not_count(self):
        _, approval = self.server.ask("other", {"to": "own@customers.example", "body": "x"})
        page = self.page("local")
        self.open(page, approval)
        self.assertIn("somebody else has to decide", page.text)
        self.assertEqual(page.find_all("#approve"), [])
        fields = {"decision": "approve", "digest": approval["arguments_digest"]}
        fields["csrf"] = page.find(".who input[name=csrf]").attribute("value")
        headers = {"Cookie": f"stasis_session={page.cookies()[0]['value']}", "Origin": self.server.url}
        status, _, body = self.server.post(f"/console/approvals/{approval['id']}/decisions", fields, headers)
        self.assertEqual(status, 403)
        self.assertIn("local asked for this and cannot decide it", body)
        self.assertEqual(self.status(approval), "pending")  # C-293
        self.assertEqual(self.server.approval(approval["id"])["decisions"], [])  # C-293

    def test_who_may_only_look_is_offered_nothing_to_decide(self):
        run, approval = self.server.ask("other", {"to": "looked@customers.example", "body": "x"})
        page = self.page("vera", to=f"/console/runs/{run}")
        self.assertEqual(page.find_all("#actions a"), [])
        self.assertEqual(page.find("#why .button").text, "Look at it")
        page.find("#why .button").click()
        page.wait_for_text("it is decided by role finance")
        self.assertEqual(page.find_all("#approve"), [])

    def test_a_question_of_a_program_is_answered_in_its_form(self):
        run = self.server.run("gate", {})
        approval = self.server.question(run)
        page = self.page()
        self.open(page, approval)
        self.assertEqual(page.find("h1").text, "Which order does the customer mean?")
        page.size(360, 740)
        self.assertLess(page.run("return document.getElementById('member-0').getBoundingClientRect().top"), 740)
        self.assertEqual(page.find(".who .name").text, "Maria K.")
        page.size(1440, 900)
        # As JSON, which counts instead of the fields; what does not fit comes back.
        page.find("details:has(#answer) summary").click()
        page.find("#answer").type('{"order_id": 7}')
        page.find("#approve").click()
        page.find(".fault")
        self.assertEqual(page.find("#answer").value.strip(), '{"order_id": 7}')
        self.assertEqual(self.status(approval), "pending")
        # As fields, which is what people do.
        page.find("#answer").clear()
        page.find("#member-0").type("o-8")
        page.find("[name='member:json:share']").type("0.50")
        page.find("[name='member:json:urgent'] option[value=true]").click()
        page.find("#approve").click()
        page.wait_for_text("Recorded: approve.")
        answer = {"order_id": "o-8", "share": 0.5, "urgent": True}
        self.assertEqual(self.server.ended(run)["result"], {"answer": answer})

    def test_a_call_whose_outcome_was_lost_is_settled_by_who_found_out(self):
        _, later = self.server.ask("brief", {"to": "urgent@customers.example", "body": "x"})
        run = self.server.run("lost", {})
        approval = self.server.question(run)
        page = self.page("local")
        self.assertEqual(page.find(".cards > li").attribute("id"), approval["id"])
        self.assertIn("did it happen?", page.find(f"#{approval['id']}").text)
        page.open(self.server.url + "/console/runs")
        self.assertIn("outcome unknown", page.find(f"#{run}").text)
        self.open(page, approval)
        page.wait_for_text("Did this call happen?")
        self.assertEqual(page.find_all("#approve"), [])
        self.assertIn("the last attempt saw", page.text)
        self.assertIn("declares no output schema", page.text)
        self.assertIn("the run fails", page.find("#give_up").text)
        page.find("#answer").type('{"id": "mail-1"}')
        page.find("#reason").type("it is in their outbox")
        page.find("#happened").click()
        page.wait_for_text("It happened.")
        self.assertEqual(self.server.ended(run)["result"], {"sent": {"id": "mail-1"}})
        page.open(self.server.url + "/console/approvals?status=all&order=newest")
        self.assertIn("it happened", page.find(f"#{approval['id']}").text)
        self.assertNotIn("did it happen?", page.find(f"#{approval['id']}").text)
        page.open(self.server.url + "/console/runs")
        self.assertNotIn("outcome unknown", page.find(f"#{run}").text)

    # Twice, late, and again

    def test_a_double_click_is_one_answer(self):
        run, approval = self.server.ask("other", {"to": "twice@customers.example", "body": "x"})
        page = self.page()
        self.open(page, approval)
        page.find("#approve").double_click()
        page.wait_for_text("Recorded: approve.")  # I-53
        self.assertEqual(self.server.ended(run)["status"], "done")
        self.assertEqual(len(self.server.approval(approval["id"])["decisions"]), 1)
        self.assertEqual(len(self.server.mails("twice@customers.example")), 1)

    def test_the_second_of_two_tabs_is_told_who_was_first(self):
        _, approval = self.server.ask("other", {"to": "tabs@customers.example", "body": "x"})
        page = self.page()
        first = page.handle
        self.open(page, approval)
        page.tab()
        self.open(page, approval)
        page.find("#reason").type("I was typing when the other tab answered")
        second = page.handle
        page.switch(first)
        page.find("#approve").click()
        page.wait_for_text("Recorded: approve.")
        page.switch(second)
        self.assertEqual(page.find("#reason").value, "I was typing when the other tab answered")
        page.find("#reject").click()
        page.wait_for_text("It had been decided before your answer came: approved by maria")  # I-53
        self.assertEqual(self.status(approval), "approved")
        self.assertEqual(page.find_all("#approve"), [])

    def test_an_answer_after_the_expiry_approves_nothing(self):
        page = self.page()
        run, approval = self.server.ask("brief", {"to": "late@customers.example", "body": "x"})
        self.open(page, approval)
        page.find("#reason").type("thinking about it")  # What is typed into stays, so the late click is possible.
        wait_for(lambda: self.status(approval) == "expired", "the expiry", PATIENCE)
        page.find("#approve").click()
        page.wait_for_text("Your answer came after the expiry. Nothing was approved.")  # I-53
        self.assertEqual(self.status(approval), "expired")  # C-174
        self.assertEqual(self.server.ended(run)["result"], {"done": ["Expired"]})
        self.assertEqual(self.server.mails("late@customers.example"), [])

    def test_a_reload_at_round_two_asks_the_second_question_and_repeats_no_answer(self):
        run, first = self.server.ask("other", {"to": "rounds@customers.example", "body": "x"}, times=2)
        page = self.page()
        self.open(page, first)
        page.find("#approve").click()
        page.wait_for_text("Recorded: approve.")
        second = self.server.question(run, after=[first["id"]])
        page.reload()
        page.wait_for_text("Recorded: approve.")
        self.assertEqual(self.status(second), "pending")  # I-53
        self.open(page, second)
        page.reload()
        page.back()
        self.assertEqual(self.status(second), "pending")
        self.open(page, second)
        page.find("#approve").click()
        page.wait_for_text("Recorded: approve.")
        self.assertEqual(self.server.ended(run)["status"], "done")
        self.assertEqual(len(self.server.mails("rounds@customers.example")), 2)  # C-135

    # Doors

    def test_a_page_of_another_origin_decides_nothing(self):
        _, approval = self.server.ask("other", {"to": "foreign@customers.example", "body": "x"})
        page = self.page()
        elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
        self.addCleanup(elsewhere.server_close)
        self.addCleanup(elsewhere.shutdown)
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        target = f"{self.server.url}/console/approvals/{approval['id']}/decisions"
        page.open(f"http://127.0.0.1:{elsewhere.server_address[1]}/?{target}")
        page.find("button").click()
        page.wait_for_text("this form did not come from a page of this server")
        self.assertEqual(self.status(approval), "pending")  # C-297
        self.assertEqual(self.server.approval(approval["id"])["decisions"], [])  # C-297
        for _ in range(20):
            self.open(page, approval)
        self.assertEqual(self.status(approval), "pending")  # C-297
        page.find("#approve").click()
        page.wait_for_text("Recorded: approve.")  # C-297

    def test_no_form_counts_without_token_origin_and_session(self):
        run, approval = self.server.ask("other", {"to": "forged@customers.example", "body": "x"})
        page = self.page()
        self.open(page, approval)
        token = page.find("#decide input[name=csrf]").attribute("value")
        cookie = {"Cookie": f"stasis_session={page.cookies()[0]['value']}"}
        origin = {"Origin": self.server.url}
        fields = {"decision": "approve", "digest": approval["arguments_digest"], "csrf": token}
        decide, cancel = f"/console/approvals/{approval['id']}/decisions", f"/console/runs/{run}/cancel"
        forged = [
            (decide, fields, origin),
            (decide, fields, cookie),
            (decide, fields, cookie | {"Origin": "null"}),
            (decide, fields, cookie | {"Origin": "http://evil.example"}),
            (decide, fields | {"csrf": ""}, cookie | origin),
            (decide, fields | {"csrf": "x" * len(token)}, cookie | origin),
            (decide, fields | {"principal": "ben"}, cookie | origin),
            (decide, fields | {"digest": ""}, cookie | origin),
            (decide, fields | {"digest": "sha256:" + "0" * 64}, cookie | origin),
            (cancel, {"csrf": ""}, cookie | origin),
            (cancel, {"csrf": token}, cookie),
            ("/console/sign-out", {"csrf": ""}, cookie | origin),
            ("/console/sign-in", {"token": self.tokens["ben"]}, {"Origin": "http://evil.example"}),
        ]
        for path, form, headers in forged:
            with self.subTest(path=path, form=form, headers=headers):
                status, headers, _ = self.server.post(path, form, headers)
                self.assertNotIn("answer=recorded", headers.get("Location", ""))
                self.assertIn(status, (303, 400, 403, 422))
                self.assertNotIn("Set-Cookie", headers)
        self.assertEqual(self.status(approval), "pending")  # C-221, C-177
        self.assertEqual(self.server.approval(approval["id"])["decisions"], [])  # C-221
        status, headers, _ = self.server.post(decide, fields, cookie | origin)
        self.assertEqual((status, headers["Location"].partition("?")[2]), (303, "answer=recorded"))  # C-221

    def test_every_page_refuses_frames_inline_code_and_other_hosts(self):
        with urllib.request.urlopen(self.server.url + "/console/sign-in", timeout=10) as answer:
            headers, page = answer.headers, answer.read().decode()
        policy = headers["Content-Security-Policy"]
        self.assertIn("frame-ancestors 'none'", policy)  # C-221
        self.assertNotIn("unsafe", policy)  # I-52
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")  # C-221
        style = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
        with urllib.request.urlopen(self.server.url + style, timeout=10) as answer:
            self.assertIn("immutable", answer.headers["Cache-Control"])

    def test_without_script_every_answer_works(self):
        run, approval = self.server.ask("other", {"to": "plain@customers.example", "body": "x"})
        page = self.page()
        page.devtools("Emulation.setScriptExecutionDisabled", value=True)
        self.open(page, approval)
        page.find("#approve").click()
        wait_for(lambda: self.status(approval) == "approved", "the approval", PATIENCE)
        self.assertEqual(self.server.ended(run)["status"], "done")
        page.devtools("Emulation.setScriptExecutionDisabled", value=False)

    def test_a_text_of_an_agent_is_shown_and_never_obeyed(self):
        evil = "</pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
        evil += "\u202egpj.exe\u200b\u001b[2J"
        _, approval = self.server.ask("other", {"to": "evil@customers.example", "body": evil})
        page = self.page()
        self.open(page, approval)
        self.assertNotIn("owned", page.title)  # I-52
        self.assertEqual(page.run("return document.images.length"), 0)  # I-52
        marks = [mark.text for mark in page.find(".exact").find_all(".mark")]
        self.assertEqual(marks, ["U+202E", "U+200B"])  # C-140
        self.assertIn("\\u001b[2J", page.find(".exact").text)  # C-140
        # The marks stand for their characters: read back, the page gives the bytes that are hashed.
        back = page.find(".exact").run(
            "const e = arguments[0].cloneNode(true);"
            "for (const m of e.querySelectorAll('.mark')) m.replaceWith(String.fromCodePoint(parseInt(m.dataset.code, 16)));"
            "return e.textContent"
        )
        self.assertEqual("sha256:" + hashlib.sha256(back.encode()).hexdigest(), approval["arguments_digest"])  # C-285

    # Keyboard, sizes, colours

    def test_the_inbox_is_driven_by_keys_alone(self):
        _, approval = self.server.ask("other", {"to": "keys@customers.example", "body": "x"})
        page = self.page(to="/console/approvals?order=newest")
        page.find(f"#{approval['id']}")
        page.press("?")
        page.find("dialog[open]")
        page.press(ESCAPE)
        page.wait_for(lambda: not page.find_all("dialog[open]"), "the closed list of keys")
        page.press("j")
        self.assertEqual(page.find("[data-current]").attribute("id"), approval["id"])
        page.press("j", "k", "k")
        self.assertEqual(page.find("[data-current]").attribute("id"), approval["id"])
        page.press("a")
        page.wait_for(lambda: page.run("return document.activeElement.id") == "approve", "the focus on Approve")
        page.press("u")
        page.wait_for(lambda: page.url.endswith("/console/approvals"), "the inbox")
        self.open(page, approval)
        page.press(TAB)
        self.assertEqual(page.run("return document.activeElement.className"), "skip")  # I-51
        page.press(ENTER)
        page.find("#reason").type("by keyboard" + TAB)
        self.assertEqual(page.run("return document.activeElement.id"), "approve")
        outline = page.run("return getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")  # I-51
        page.press(ENTER)
        page.wait_for_text("Recorded: approve.")  # I-51

    def test_pages_fit_and_read_at_both_widths_in_both_colours(self):
        done = self.server.run("refund", {"id": "o-7", "damaged": []})
        self.server.ended(done)
        run, approval = self.server.ask("two", {"to": "pictures@customers.example", "body": "A long text. " * 40})
        question = self.server.question(self.server.run("gate", {}))
        places = {
            "question": f"/console/approvals/{question['id']}",
            "approvals": "/console/approvals?order=newest",
            "approval": f"/console/approvals/{approval['id']}",
            "runs": "/console/runs",
            "run": f"/console/runs/{run}",
            "cancel": f"/console/runs/{run}/cancel",
            "jobs": "/console/jobs",
            "job": f"/console/jobs/{self.claimed()['id']}",
            "resources": "/console/resources",
            "held": f"/console/runs/{self.held()}",
        }
        page = self.page()
        for width, height in [(1440, 900), (360, 740)]:
            page.size(width, height)
            for dark in (False, True):
                page.dark(dark)
                for name, place in places.items():
                    with self.subTest(page=name, width=width, dark=dark):
                        page.open(self.server.url + place)
                        page.screenshot(SCREENSHOTS / f"{name}-{width}-{'dark' if dark else 'light'}.png")
                        self.assertEqual(page.overflows(), 0)  # I-51
                        self.assertEqual(self.faint(page), [])  # I-51

    def faint(self, page):
        """Texts whose contrast to what is behind them is below 4.5 to 1 (WCAG 2.2, 1.4.3)."""
        return page.run("""
            const light = (rgb) => rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
            const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 && n[3] < 1 ? null : n.slice(0, 3); };
            const behind = (node) => {
                for (; node; node = node.parentElement) {
                    const colour = parse(getComputedStyle(node).backgroundColor);
                    if (colour) return colour;
                }
                return [255, 255, 255];
            };
            const faint = new Set();
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                const node = texts.currentNode.parentElement;
                if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest('.skip, script, svg')) continue;
                const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
                if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.add(`${node.className}: ${texts.currentNode.data.trim()}`);
            }
            return [...faint];""")

    # Runs

    def test_a_run_page_follows_its_run_to_the_end_and_cancel_asks_first(self):
        run, approval = self.server.ask("two", {"to": "cancel@customers.example", "body": "x"})
        page = self.page("local", to=f"/console/runs/{run}")
        self.assertIn("desk.two", page.find("#why").text)
        self.assertGreaterEqual(len(page.find("svg.timeline").find_all("rect")), 2)  # I-50
        page.find("#actions a").click()
        page.wait_for_text("Cancel this run?")
        self.assertEqual(self.status(approval), "pending")  # C-214
        page.find("#cancel").click()
        page.wait_for(lambda: page.find("#state").text.startswith("cancelled"), "the cancelled run")
        self.assertEqual(self.server.ended(run)["status"], "cancelled")
        self.assertEqual(self.status(approval), "cancelled")

    def test_a_run_page_changes_by_itself(self):
        run, approval = self.server.ask("other", {"to": "follow@customers.example", "body": "x"})
        page = self.page(to=f"/console/runs/{run}")
        digest = {"decision": "approve", "arguments_digest": approval["arguments_digest"]}
        self.server.api("POST", f"/v1/approvals/{approval['id']}/decisions", digest, self.tokens["ben"])
        page.wait_for(lambda: page.find("#state").text.startswith("done"), "the end on the page", PATIENCE)  # I-51
        self.assertIn("follow@customers.example", page.find("#calls").text)


if __name__ == "__main__":
    unittest.main()
