"""Chromium for the tests of pages: the little of WebDriver that is needed, spoken to chromedriver over HTTP on the loopback
interface. Used by the scripts in this directory."""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.request

ENTER, SPACE, TAB, RIGHT = "\ue007", " ", "\ue004", "\ue014"
WIDTHS = (1280, 400)


def available():
    return bool(shutil.which("chromedriver") and shutil.which("chromium"))


class Browser:
    """The little of WebDriver that is needed; spoken to chromedriver over HTTP on the loopback interface."""

    def __init__(self, profile):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        else:
            raise RuntimeError("chromedriver did not start")
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--window-size=1280,1000"]}
        if binary := shutil.which("chromium"):
            options["binary"] = binary
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}}
        self.session = "/session/" + self.call("POST", "/session", wanted, root=True)["sessionId"]

    def call(self, method, path, body=None, root=False):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + ("" if root else self.session) + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)["value"]

    def script(self, code, *args):
        return self.call("POST", "/execute/sync", {"script": code, "args": list(args)})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    # --- what the tests do with a page -------------------------------------------------------------------
    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def key(self, value):
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]}]})

    def scheme(self, name):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def width(self, pixels):
        self.devtools("Emulation.setDeviceMetricsOverride", width=pixels, height=900, deviceScaleFactor=1, mobile=False)

    def paper(self):
        return self.script("return getComputedStyle(document.body).backgroundColor")

    def wait(self, code, what, *args, seconds=60):
        """Until the script's value is true; gives it back."""
        end = time.monotonic() + seconds
        while not (value := self.script(code, *args)):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}; the page says: {self.script('return document.body.innerText')[:1500]}")
            time.sleep(0.1)
        return value

    def shoot(self, path):
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(shot))

    def check_widths_and_schemes(self, name, keep=None):
        """Light and dark, wide and narrow: the right paper, and no sideways scrolling of the page."""
        for scheme in ("dark", "light"):
            self.scheme(scheme)
            assert (self.paper() == "rgb(255, 255, 255)") == (scheme == "light"), f"{name}: {scheme} page has paper {self.paper()}"
            for width in WIDTHS:
                self.width(width)
                over = self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert over <= 0, f"{name}: {over} px wider than a window of {width}"
                if keep:
                    self.shoot(keep / f"{name}-{scheme}-{width}.png")
        self.devtools("Emulation.clearDeviceMetricsOverride")

    def check_theme_choice(self, name):
        """The choice beats the system's scheme, both ways, and goes back to it."""
        for scheme, other in (("light", "dark"), ("dark", "light")):
            self.scheme(scheme)
            papers = [self.script("const s = document.getElementById('theme'); s.value = arguments[0]; s.dispatchEvent(new Event('change'));"
                                  "return getComputedStyle(document.body).backgroundColor", value) for value in (other, "")]
            assert (papers[0] == "rgb(255, 255, 255)") == (other == "light"), f"{name}: the choice {other} gives {papers[0]}"
            assert (papers[1] == "rgb(255, 255, 255)") == (scheme == "light"), f"{name}: as the system ({scheme}) gives {papers[1]}"

    def check_quiet(self, name, origin=None):
        """No console message, and nothing asked of anybody but the page's own origin (of nobody without one)."""
        asked = self.script("return performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith('data:'))")
        foreign = [url for url in asked if origin is None or not url.startswith(origin + "/")]
        assert not foreign, f"{name}: asked for {foreign}"
        errors = [entry for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]
        assert not errors, f"{name}: {errors}"
