"""Firefox by WebDriver BiDi: what the page's smoke test needs, over the websocket that Firefox itself opens.

Playwright drives a Firefox of its own build only, Selenium needs geckodriver; an installed Firefox needs
neither for this. https://w3c.github.io/webdriver-bidi/
"""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import time

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox")

# No request may leave this machine; with a proxy that does not exist, every request fails.
PREFERENCES = {
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.startup.max_resumed_crashes": -1,
}


class Firefox:
    """One Firefox with one tab. `errors` collects what its console complains about."""

    def __init__(self, profile):
        profile.mkdir(parents=True, exist_ok=True)
        lines = [f'user_pref("{key}", {json.dumps(value)});' for key, value in PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines))
        command = [PROGRAM, "--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", profile]
        self.log = profile / "log.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.loop = asyncio.new_event_loop()
        self.errors, self.count, self.socket = [], 0, None
        self.socket = self.loop.run_until_complete(self._connect())
        self.version = self.send("session.new", capabilities={})["capabilities"]["browserVersion"]
        self.send("session.subscribe", events=["log.entryAdded"])
        self.tab = self.send("browsingContext.getTree")["contexts"][0]["context"]

    async def _connect(self):
        from tornado.websocket import websocket_connect

        until = time.monotonic() + 60
        while not (found := re.search(r"ws://\S+", self.log.read_text())):
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            await asyncio.sleep(0.2)
        return await websocket_connect(f"{found[0]}/session", max_message_size=64_000_000)

    def send(self, method, **params):
        """The result of a command; events that come before it are noted."""
        return self.loop.run_until_complete(asyncio.wait_for(self._send(method, params), 120))

    async def _send(self, method, params):
        self.count += 1
        await self.socket.write_message(json.dumps({"id": self.count, "method": method, "params": params}))
        while True:
            text = await self.socket.read_message()
            assert text is not None, "Firefox has gone"
            answer = json.loads(text)
            if answer.get("method") == "log.entryAdded" and answer["params"]["level"] == "error":
                self.errors.append(answer["params"]["text"])
            if answer.get("id") == self.count:
                assert answer["type"] == "success", answer
                return answer["result"]

    def size(self, width, height):
        self.send(
            "browsingContext.setViewport", context=self.tab, viewport={"width": width, "height": height}
        )

    def open(self, url):
        self.send("browsingContext.navigate", context=self.tab, url=url, wait="complete")

    def evaluate(self, expression):
        """A value of the page, by way of JSON."""
        target = {"context": self.tab}
        wrapped = f"(async () => JSON.stringify(await ({expression})) ?? 'null')()"
        found = self.send("script.evaluate", expression=wrapped, target=target, awaitPromise=True)
        assert found["type"] == "success", found
        return json.loads(found["result"]["value"])

    def wait(self, expression, seconds=60):
        """Until an expression holds."""
        until = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < until, (expression, self.errors)
            time.sleep(0.1)

    def keys(self, *keys):
        """Press keys, one after the other. Names are those of WebDriver's table where they are no letter."""
        names = {"Tab": "\ue004", "Left": "\ue012", "Right": "\ue014", "Enter": "\ue007", "Space": " "}
        actions = [
            {"type": kind, "value": names.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")
        ]
        source = {"type": "key", "id": "keys", "actions": actions}
        self.send("input.performActions", context=self.tab, actions=[source])

    def click(self, selector):
        """Press and release where the middle of an element is."""
        x, y = self.evaluate(
            "(e => { e.scrollIntoView({ block: 'center' }); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        move = {"type": "pointerMove", "x": round(x), "y": round(y), "origin": "viewport"}
        actions = [move, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        source = {"type": "pointer", "id": "mouse", "actions": actions}
        self.send("input.performActions", context=self.tab, actions=[source])

    def picture(self, path):
        data = self.send("browsingContext.captureScreenshot", context=self.tab)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.process.terminate()
        self.process.wait(20)
        self.loop.close()
