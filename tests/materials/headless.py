"""One headless Chromium for all tests of pages, driven through a pipe: real keys, clicks and touches."""

import itertools
import json
import os
import shutil
import subprocess
import time
from select import select
from tempfile import TemporaryDirectory

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PATIENCE = 20
MOUSE = "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
KEY_CODES = {"Enter": 13, "Escape": 27, " ": 32, "Tab": 9, "Backspace": 8}
KEY_CODES |= {"PageUp": 33, "PageDown": 34, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
TEXTS = {"Enter": "\r", " ": " "}

WIDTHS = (320, 390, 768, 1280)
ILLEGIBLE = """([least, smallest]) => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const isSolid = (colour) => parse(colour).length === 3 || parse(colour)[3] === 1;
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element) => {
    while (element && !isSolid(getComputedStyle(element).backgroundColor)) element = element.parentElement;
    return parse(getComputedStyle(element || document.documentElement).backgroundColor);
  };
  const poor = [];
  let count = 0;
  for (const element of document.body.querySelectorAll('*')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || element.closest('svg, .hidden, .long, .short, .skip')) continue;
    if (!element.checkVisibility() || element.disabled) continue;
    const style = getComputedStyle(element), ground = groundOf(element);
    let opacity = 1;
    for (let up = element; up; up = up.parentElement) opacity *= getComputedStyle(up).opacity;
    const colour = parse(style.color).slice(0, 3).map((part, place) => opacity * part + (1 - opacity) * ground[place]);
    const [high, low] = [luminance(colour), luminance(ground)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least || size < smallest) poor.push([contrast, size, element.outerHTML.slice(0, 100)]);
    count += 1;
  }
  return [count, poor];
}"""

OVERFLOWING = """(ignored) => {
  const width = document.documentElement.clientWidth;
  const outside = [...document.querySelectorAll('main *, header *, footer *')]
    .filter((element) => !element.closest(ignored) && element.getBoundingClientRect().right > width + 1);
  const scroll = document.documentElement.scrollWidth - width;
  return [...scroll > 0 ? [scroll] : [], ...outside.map((element) => element.outerHTML.slice(0, 120))];
}"""


class Browser:
    """A process, commands to which and events of which are JSON between zero bytes (Chrome DevTools Protocol)."""

    def __init__(self, binary, profile):
        reads, self._commands = os.pipe()
        self._answers, writes = os.pipe()
        script = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        options = (*QUIET, MOUSE, f"--user-data-dir={profile}", "--remote-debugging-pipe")
        command = ["bash", "-c", script, binary, *options]
        self.process = subprocess.Popen(
            command, pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(reads)
        os.close(writes)
        self._numbers, self._received, self.events = itertools.count(1), b"", []

    def send(self, method, session=None, **parameters):
        """What a command answers; events that come before it are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.events.append(message)

    def wait(self, event, session, since):
        """Until an event is among those after the first so and so many."""
        while not any(own["method"] == event and own.get("sessionId") == session for own in self.events[since:]):
            self.events.append(self._receive())

    def _receive(self):
        while b"\0" not in self._received:
            assert select([self._answers], [], [], PATIENCE)[0], "the browser says nothing"
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self._commands)
        os.close(self._answers)


class Visitor:
    """A person with storage and downloads of their own, who opens pages one after another."""

    def __init__(self, browser, folder):
        self.browser, self.folder, self.taken = browser, folder, 0
        self.context = browser.send("Target.createBrowserContext")["browserContextId"]
        options = {"behavior": "allow", "browserContextId": self.context, "downloadPath": str(folder / "saved")}
        browser.send("Browser.setDownloadBehavior", **options)

    def open(self, html, width=1200, height=900, *, touch=False, dark=False, before="", query=""):
        """A page from a file, in a tab of its own; ``before`` is JavaScript that runs before its own."""
        target = self.browser.send("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        session = self.browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.resize(width, height, touch=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.send("Emulation.setEmulatedMedia", features=[scheme])
        page.send("Page.addScriptToEvaluateOnNewDocument", source=before)
        path = self.folder / "page.html"
        path.write_text(html, encoding="utf-8")
        page.load("Page.navigate", url=path.as_uri() + query)
        return page

    def take_saved(self):
        """The file that was saved since the last one was taken."""
        for _ in range(10 * PATIENCE):
            for path in (self.folder / "saved").glob("*.jsonl"):
                self.taken += 1
                (self.folder / f"{self.taken}").mkdir()
                return path.rename(self.folder / f"{self.taken}" / path.name)
            time.sleep(0.1)
        pytest.fail("nothing was saved")

    def close(self):
        self.browser.send("Target.disposeBrowserContext", browserContextId=self.context)


class Page:
    """A tab."""

    def __init__(self, visitor, session):
        self.visitor, self.session = visitor, session

    def send(self, method, **parameters):
        return self.visitor.browser.send(method, self.session, **parameters)

    def resize(self, width, height=900, *, touch=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)

    def load(self, method="Page.reload", **parameters):
        """Go to an address or reload, and wait until all of the page is there."""
        since = len(self.visitor.browser.events)
        self.send(method, **parameters)
        self.visitor.browser.wait("Page.loadEventFired", self.session, since)

    def run(self, expression, *arguments):
        """The value of an expression, or of a function called with arguments."""
        if arguments:
            expression = f"({expression})({', '.join(map(json.dumps, arguments))})"
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        result = self.send("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression):
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)

    def text(self, selector):
        return self.run("(name) => document.querySelector(name).innerText", selector)

    def box(self, selector):
        """x, y, width and height on the screen."""
        found = self.run(
            "(name) => { const {x, y, width, height} = document.querySelector(name).getBoundingClientRect(); "
            "return [x, y, width, height]; }",
            selector,
        )
        assert found[2] * found[3], f"{selector} is not shown"
        return found

    def press(self, *keys):
        """Keys of the keyboard, or texts that are typed."""
        for key in keys:
            if len(key) > 1 and key not in KEY_CODES:
                self.send("Input.insertText", text=key)
                continue
            text = TEXTS.get(key, key if len(key) == 1 else "")
            code = KEY_CODES.get(key, ord(key[0].upper()))
            options = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **options)
            self.send("Input.dispatchKeyEvent", type="keyUp", **options)

    def click(self, selector, across=0.5, down=0.5):
        """The mouse at a share of an element's width and height."""
        self._scroll(selector, down)
        at = self._point(selector, across, down) | {"button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **at)

    def drag(self, selector, start, end):
        """The mouse from one share of an element's height to another, in steps."""
        places = [start + (end - start) * step / 9 for step in range(10)]
        points = [self._point(selector, 0.5, down) | {"button": "left", "buttons": 1} for down in places]
        self.send("Input.dispatchMouseEvent", type="mousePressed", clickCount=1, **points[0])
        for point in points[1:]:
            self.send("Input.dispatchMouseEvent", type="mouseMoved", **point)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", clickCount=1, **points[-1])

    def tap(self, selector, across=0.5, down=0.5, *, scroll=False):
        """A finger; without ``scroll`` only on what is in sight."""
        if scroll:
            self._scroll(selector, down)
        point = self._point(selector, across, down)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def _scroll(self, selector, down):
        _, y, _, height = self.box(selector)
        self.run("(distance) => scrollBy(0, distance - innerHeight / 2)", y + down * height)

    def _point(self, selector, across, down):
        x, y, width, height = self.box(selector)
        point = {"x": x + across * width, "y": y + down * height}
        is_on_top = "(name, x, y) => document.querySelector(name).contains(document.elementFromPoint(x, y))"
        assert self.run(is_on_top, selector, *point.values()), f"{selector} is covered, or out of sight"
        return point

    @property
    def requests(self):
        """Addresses other than the page's own."""
        sent = [own["params"]["request"]["url"] for own in self._events("Network.requestWillBeSent")]
        return [address for address in sent if not address.endswith("/page.html") and not address.startswith("data:")]

    @property
    def complaints(self):
        """What the browser wrote to its console, and dialogs that were opened."""
        kinds = (
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )
        return self._events(*kinds)

    def _events(self, *kinds):
        events = self.visitor.browser.events
        return [own for own in events if own.get("sessionId") == self.session and own["method"] in kinds]

    def open_folds(self):
        self.run("for (const folded of document.querySelectorAll('details')) folded.open = true")

    def assert_legible(self, least_texts, widths=(390, 1280)):
        """WCAG AA on what the browser computed, 4.5 to 1, and no text under 11 pixels."""
        self.open_folds()
        for width in widths:
            self.resize(width)
            count, poor = self.run(ILLEGIBLE, [4.5, 11])
            assert poor == []
            assert count > least_texts

    def assert_fitting(self, ignored=".hidden"):
        """Nothing but what is ignored is wider than the screen, at the widths that are returned."""
        self.open_folds()
        for width in WIDTHS:
            self.resize(width)
            assert self.run(OVERFLOWING, ignored) == []
        return WIDTHS


@pytest.fixture(scope="session")
def chromium():
    """The browser's binary; CXC_ECCV_CHROMIUM names one that is not on the path."""
    found = os.environ.get("CXC_ECCV_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine; install one, or name it in CXC_ECCV_CHROMIUM")
    return found


@pytest.fixture(scope="session")
def browser(chromium):
    # The browser still writes while it ends.
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser, tmp_path):
    visitor = Visitor(browser, tmp_path)
    yield visitor
    visitor.close()
