"""Drives a real headless Chromium over the WebDriver protocol, with the standard library alone.

Owns: starting and ending `chromedriver` and its browser, and the few commands that the console's tests need. Never
does: assert anything about the console. Nothing it starts outlives its `with` block, and every wait has a deadline.

    with Driver() as driver, driver.session(width=360, dark=True) as page:
        page.open("http://127.0.0.1:7878/")
        page.find("#token").type("...")
        page.find("button[type=submit]").click()
        page.wait_for(lambda: page.url.endswith("/approvals"))
        page.screenshot("approvals-360-dark.png")

A session has a profile of its own, so cookies of one never reach another. `Page.tab()` opens a second tab with the
cookies of the first.
"""

import base64
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

#: The key under which WebDriver names an element in JSON (W3C WebDriver, section 12).
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"

#: Chromium's switches: no window, no contact with the outside, and no need of the kernel features that containers lack.
SWITCHES = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]

#: Names of special keys, for `Element.type` and `Page.press`.
ENTER, TAB, ESCAPE, SHIFT = "\ue007", "\ue004", "\ue00c", "\ue008"
UP, DOWN, LEFT, RIGHT = "\ue013", "\ue015", "\ue012", "\ue014"


class WebDriverError(Exception):
    """The driver or the browser refused a command; `code` is the protocol's word for why."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Timeout(AssertionError):
    """A condition did not come true in time: a failure of the test, not of the driver."""


def wait_for(condition, what="the condition", timeout=10.0):
    """Asks until `condition()` is true and returns what it gave. An element that went away meanwhile counts as no."""
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except WebDriverError as error:
            if error.code not in ("no such element", "stale element reference", "no such alert"):
                raise
            last = error
        if time.monotonic() > deadline:
            raise Timeout(f"{what} did not come true within {timeout:g} s; last seen: {last!r}")
        time.sleep(0.02)  # Poll: the browser tells nobody when a page has changed.


class Driver:
    """A running `chromedriver` on a free port of its own choice."""

    def __init__(self, chromedriver=None, chromium=None):
        self.chromium = chromium or find_program("chromium", "chromium-browser", "google-chrome")
        program = chromedriver or find_program("chromedriver", "chromium-driver")
        # The output goes to a file: a pipe that nobody reads would stop the driver once it is full.
        self.log = tempfile.NamedTemporaryFile(prefix="chromedriver-", suffix=".log")
        self.process = subprocess.Popen(
            [program, "--port=0"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT
        )
        try:
            self.url = f"http://127.0.0.1:{wait_for(self._port, 'the port of chromedriver')}"
        except BaseException:
            self.close()
            raise

    def _port(self):
        text = pathlib.Path(self.log.name).read_text(errors="replace")
        if self.process.poll() is not None:
            raise RuntimeError(f"chromedriver ended with {self.process.returncode}: {text}")
        _, found, rest = text.partition("started successfully on port ")
        return int(rest.split(".")[0]) if found and "." in rest else None

    def session(self, width=1440, height=900, dark=False):
        """A new browser with an empty profile."""
        return Page(self, width, height, dark)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def request(self, method, path, body=None, timeout=60):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        # Only ever this machine: a proxy of the environment must not be asked.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as answer:
            with answer:
                fault = json.load(answer)["value"]
            raise WebDriverError(fault["error"], fault["message"].split("\n")[0]) from None


class Page:
    """One browser with one profile. Commands go to its current tab."""

    def __init__(self, driver, width, height, dark):
        self.driver = driver
        self.profile = tempfile.mkdtemp(prefix="chromium-profile-")
        options = {"binary": driver.chromium, "args": [*SWITCHES, f"--user-data-dir={self.profile}"]}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.id = None
        try:
            session = driver.request("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
            self.id = session["sessionId"]
            self.size(width, height)
            self.dark(dark)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.id is not None:
            try:
                self.command("DELETE", "")
            finally:
                self.id = None
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def command(self, method, path, body=None):
        return self.driver.request(method, f"/session/{self.id}{path}", body)

    def devtools(self, command, **parameters):
        """A command of the Chrome DevTools protocol."""
        return self.command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    # What the page is

    def size(self, width, height, scale=1):
        """The size of the viewport in CSS pixels, exact also below the narrowest window that Chromium makes."""
        parameters = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **parameters)

    def dark(self, on):
        """Whether the page is told that its reader prefers dark colours."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    @property
    def url(self):
        return self.command("GET", "/url")

    @property
    def title(self):
        return self.command("GET", "/title")

    @property
    def source(self):
        return self.command("GET", "/source")

    @property
    def text(self):
        """The text of the page as a reader sees it."""
        return self.run("return document.body.innerText")

    def cookies(self):
        return self.command("GET", "/cookie")

    def console(self):
        """The messages of the browser's console since the last call; refused content (CSP) and failed loads too."""
        return self.command("POST", "/se/log", {"type": "browser"})

    # Acting

    def open(self, url):
        """Goes to `url` and returns when it has loaded."""
        self.command("POST", "/url", {"url": url})

    def reload(self):
        self.command("POST", "/refresh", {})

    def back(self):
        self.command("POST", "/back", {})

    def run(self, script, *arguments):
        """Runs JavaScript as the body of a function and returns what it returns."""
        return unpack(self, self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)}))

    def press(self, *keys):
        """Presses keys where the focus is, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.command("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def find(self, css, timeout=10.0):
        """The first element that matches, once there is one."""
        found = wait_for(lambda: self.find_all(css), f"an element `{css}` on {self.url}", timeout)
        return found[0]

    def find_all(self, css):
        """Every element that matches now, without waiting."""
        return unpack(self, self.command("POST", "/elements", {"using": "css selector", "value": css}))

    def wait_for(self, condition, what=None, timeout=10.0):
        return wait_for(condition, what or f"the condition on {self.url}", timeout)

    def wait_for_text(self, text, timeout=10.0):
        wait_for(lambda: text in self.text, f"the text {text!r} on {self.url}", timeout)

    def tab(self):
        """Opens a tab with the cookies of this one, and makes it the current one. Returns its handle."""
        handle = self.command("POST", "/window/new", {"type": "tab"})["handle"]
        self.switch(handle)
        return handle

    @property
    def handle(self):
        return self.command("GET", "/window")

    def switch(self, handle):
        """Makes a tab the current one. Size and colours are the tab's own: set them again in a new one."""
        self.command("POST", "/window", {"handle": handle})

    def screenshot(self, path, whole=True):
        """Writes a PNG of the whole page, or of the viewport, and returns its path."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def overflows(self):
        """By how many pixels the page is wider than its viewport; 0 on a page that fits."""
        return self.run("const e = document.documentElement; return Math.max(0, e.scrollWidth - e.clientWidth)")


class Element:
    """An element of a page. It stays with the document it was found in."""

    def __init__(self, page, id):
        self.page = page
        self.id = id

    def command(self, method, path, body=None):
        return self.page.command(method, f"/element/{self.id}{path}", body)

    def click(self):
        """A real click at the middle of the element; refused where something else covers it."""
        self.command("POST", "/click", {})

    def double_click(self):
        """Two real clicks in one go, as a hasty hand makes them: nothing is waited for between them."""
        origin = {ELEMENT: self.id}
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        actions = [{"type": "pointerMove", "origin": origin, "x": 0, "y": 0}, *press, *press]
        pointer = {"type": "pointer", "id": "mouse", "actions": actions}
        self.run("arguments[0].scrollIntoView({block: 'center'})")
        self.page.command("POST", "/actions", {"actions": [pointer]})

    def type(self, text):
        """Types into the element, after what it holds."""
        self.command("POST", "/value", {"text": text})

    def clear(self):
        self.command("POST", "/clear", {})

    def run(self, script):
        """Runs JavaScript with this element as `arguments[0]`."""
        return self.page.run(script, {ELEMENT: self.id})

    @property
    def text(self):
        return self.command("GET", "/text")

    @property
    def visible(self):
        return self.command("GET", "/displayed")

    @property
    def enabled(self):
        return self.command("GET", "/enabled")

    @property
    def value(self):
        return self.command("GET", "/property/value")

    def attribute(self, name):
        return self.command("GET", f"/attribute/{name}")

    def style(self, name):
        """The computed value of a CSS property."""
        return self.command("GET", f"/css/{name}")

    def find_all(self, css):
        return unpack(self.page, self.command("POST", "/elements", {"using": "css selector", "value": css}))


def unpack(page, value):
    """Turns the elements of an answer into `Element`s."""
    if isinstance(value, list):
        return [unpack(page, item) for item in value]
    if isinstance(value, dict):
        return Element(page, value[ELEMENT]) if ELEMENT in value else {k: unpack(page, v) for k, v in value.items()}
    return value


def find_program(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise FileNotFoundError(f"none of {', '.join(names)} is installed (Debian: chromium, chromium-driver)")
    return found
