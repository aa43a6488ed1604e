"""Headless Chromium, driven by chromedriver through the WebDriver protocol (no library but Python's own)."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess

import mounted
from web import wait_until


class Browser:
    """`with` ends it."""

    def __init__(self, width=1280, height=960):
        missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
        if missing:
            raise mounted.Skip(f"{' and '.join(missing)} cannot be found: apt-get install chromium chromium-driver")
        self.session = ""
        self.process = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=mounted._die_with_parent,
        )
        for line in self.process.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise mounted.Failure("chromedriver does not start")
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
        if os.getuid() == 0:
            arguments.append("--no-sandbox")  # Chromium has none for root
        wishes = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }
        try:
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wishes}})
        except BaseException:
            self.process.kill()
            raise
        self.session = f"/session/{answer['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        try:
            self._call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        connection.request(
            method, self.session + path, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(answer, dict) and answer.get("error"):
            raise mounted.Failure(f"{answer['error']}: {answer['message'][:500]}")
        return answer

    def go(self, address):
        self._call("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """The value of a function's body in the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, seconds=30):
        """Until the script's value is true; what it is then."""
        found = wait_until(lambda: self.run(script, *arguments), seconds)
        if not found:
            raise mounted.Failure(f"after {seconds} s it does not hold: {script} {arguments}\n{self.text()}")
        return found

    def text(self):
        return self.run("return document.body.innerText")

    def click(self, selector, text):
        """The element with this text."""
        self.wait(
            "const found = [...document.querySelectorAll(arguments[0])].find((one) => one.textContent === arguments[1]);"
            "found?.click(); return found !== undefined;",
            selector,
            text,
        )

    def set(self, selector, value, event="input"):
        self.run(
            "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
            "one.dispatchEvent(new Event(arguments[2], {bubbles: true}));",
            selector,
            str(value),
            event,
        )

    def problems(self):
        """Lines of the console since the last call."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("GET", "/screenshot")))
