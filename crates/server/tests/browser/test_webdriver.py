"""Tests of the driver itself, on a small page of its own: what a console test relies on is true of this browser."""

import http.server
import pathlib
import tempfile
import threading
import unittest

from webdriver import ENTER, Driver, Timeout, WebDriverError

PAGE = b"""<!doctype html><html lang=en><meta charset=utf-8><title>Counter</title>
<style>body { background: #ffffff } @media (prefers-color-scheme: dark) { body { background: #000000 } }
#wide { width: 500px; height: 10px }</style>
<form onsubmit="event.preventDefault(); out.textContent = 'sent ' + name.value"><input id=name name=name></form>
<button onclick="count.textContent = +count.textContent + 1">more</button>
<p id=count>0</p><p id=out></p><div id=wide></div>
<script>
  var count = document.getElementById('count'), out = document.getElementById('out');
  if (location.hash == '#late') setTimeout(() => document.body.append(Object.assign(document.createElement('i'), {id: 'late'})), 300);
</script>"""


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "who=ada; Path=/; HttpOnly; SameSite=Strict")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


class WebDriverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{server.server_address[1]}/"
        cls.driver = cls.enterClassContext(Driver())

    def page(self, **options):
        page = self.enterContext(self.driver.session(**options))
        page.open(self.url)
        return page

    def test_it_clicks_and_types_as_a_person_does(self):
        page = self.page()
        self.assertEqual(page.title, "Counter")
        page.find("button").click()
        page.find("button").double_click()
        self.assertEqual(page.find("#count").text, "3")
        page.find("#name").type("ada" + ENTER)
        page.wait_for_text("sent ada")
        self.assertEqual(page.find("#name").value, "ada")

    def test_size_and_colours_are_what_was_asked_for(self):
        narrow = self.page(width=360, height=640, dark=True)
        self.assertEqual(narrow.run("return [innerWidth, innerHeight]"), [360, 640])
        self.assertEqual(narrow.find("body").style("background-color"), "rgba(0, 0, 0, 1)")
        self.assertGreater(narrow.overflows(), 100)
        narrow.size(1440, 900)
        narrow.dark(False)
        self.assertEqual(narrow.run("return innerWidth"), 1440)
        self.assertEqual(narrow.find("body").style("background-color"), "rgba(255, 255, 255, 1)")
        self.assertEqual(narrow.overflows(), 0)

    def test_tabs_share_cookies_and_sessions_do_not(self):
        page = self.page()
        first = page.handle
        page.tab()
        page.open(self.url)
        self.assertEqual([cookie["value"] for cookie in page.cookies()], ["ada"])
        page.find("button").click()
        page.switch(first)
        self.assertEqual(page.find("#count").text, "0")
        with self.driver.session() as other:
            other.open("data:text/html,<p>blank")
            self.assertEqual(other.cookies(), [])

    def test_finding_waits_for_what_comes_late_and_gives_up_on_what_does_not(self):
        page = self.page()
        page.open(self.url + "#late")
        page.reload()
        self.assertEqual(page.find_all("#late"), [])
        self.assertEqual(page.find("#late").attribute("id"), "late")
        with self.assertRaises(Timeout):
            page.find("#never", timeout=0.2)

    def test_a_refused_command_says_why(self):
        page = self.page()
        with self.assertRaises(WebDriverError) as refused:
            page.run("throw new Error('no')")
        self.assertEqual(refused.exception.code, "javascript error")

    def test_a_screenshot_is_a_picture_of_the_size_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.page(width=360, height=640).screenshot(pathlib.Path(folder) / "new" / "a.png", whole=False)
            data = path.read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual([int.from_bytes(data[at : at + 4]) for at in (16, 20)], [360, 640])


if __name__ == "__main__":
    unittest.main()
