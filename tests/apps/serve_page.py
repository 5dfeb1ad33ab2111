"""The chat page of `weft serve` in Debian's Chromium. Only a soak of CTest: it needs pip and `apt-get install chromium`.

    pip install playwright axe-core-python
    tests/apps/serve_page.py BIN_DIR [--pictures FOLDER] [--only NAME]

Exit code 77: Playwright, axe-core or Chromium is not installed.
"""
import argparse
import base64
import importlib.util
import json
import pathlib
import shutil
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER", help="write pictures of the page there")
parser.add_argument("--only", metavar="NAME", help="run the checks whose names have this")
arguments = parser.parse_args()

from serving import Server  # takes the folder from sys.argv

try:
    from playwright.sync_api import sync_playwright
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)
if not (chromium := shutil.which("chromium")) or not importlib.util.find_spec("axe_core_python"):
    print("NOT RUN: chromium or axe-core-python is not installed")
    sys.exit(77)
AXE = (pathlib.Path(importlib.util.find_spec("axe_core_python").origin).parent / "axe.min.js").read_text()
ROOT = pathlib.Path(__file__).resolve().parents[2]
POCKET, WHISPER = ROOT / "apps/pocket/pocket.gguf", ROOT / "tests/model/golden_whisper/speech"
DESK, PHONE = {"width": 1000, "height": 700}, {"width": 320, "height": 568}
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")


class Page:
    """A tab. A tab of the same context shares its storage."""

    def __init__(self, context, server, url=None):
        self.page, self.problems = context.new_page(), []
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.asked = []
        self.page.goto(url or f"http://127.0.0.1:{server.port}/")
        self.until("document.getElementById('model').textContent !== '' || !document.getElementById('banner').hidden")

    def until(self, script, seconds=30):
        """Playwright's own wait evaluates text in the page, which the page's policy forbids."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.page.evaluate(script):
                return
            time.sleep(0.02)
        raise AssertionError(script)

    def idle(self):
        self.until("!document.getElementById('send').hidden")

    def ask(self, text, wait=True):
        self.page.fill("#input", text)
        self.page.press("#input", "Enter")
        if wait:
            self.idle()

    def texts(self, selector):
        return self.page.locator(selector).all_inner_texts()

    def answers(self):
        return self.texts(".message.assistant:not(.failed) > .body")

    def act(self, message, name):
        self.page.locator(".message").nth(message).get_by_role("button", name=name, exact=True).click()

    def toast(self, text):
        self.until(f"!document.getElementById('toast').hidden && document.getElementById('toast-text').textContent.includes({json.dumps(text)})")

    def setting(self, name, value):
        if self.page.locator("#settings").is_hidden():
            self.page.click("#options")
        self.page.evaluate("document.getElementById('advanced').open = true")
        field = self.page.locator("#" + name)
        field.select_option(value) if field.evaluate("e => e.tagName") == "SELECT" else field.fill(value)
        field.blur()
        self.page.click("#options")

    def says(self, *texts, finish="stop", usage=None, end=True, path="**/v1/chat/completions", deltas=()):
        """Later answers are these texts, an event each."""
        events = [{"choices": [{"delta": delta, "text": delta.get("content", "")}]} for delta in [*deltas, *({"content": text} for text in texts)]]
        events.append({"choices": [{"delta": {}, "finish_reason": finish}], "usage": usage or {"prompt_tokens": 10, "completion_tokens": 5}})
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + ("data: [DONE]\n\n" if end else "")
        self.page.unroute(path)
        self.page.route(path, lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body))

    def picture(self, name):
        if arguments.pictures:
            arguments.pictures.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=arguments.pictures / f"{name}.png")

    def done(self, *expected):
        problems = [problem for problem in self.problems if not any(text in problem for text in expected)]
        assert not problems, problems


def check_real_answers(open_page):
    """With the server itself: settings, a stop, what is kept, regenerating, editing, undo."""
    tab = open_page()
    assert tab.page.evaluate("document.activeElement.id") == "input"
    assert tab.page.evaluate("getComputedStyle(document.getElementById('input')).fontSize") == "16px"
    text = "<b>hello</b> <img src=x onerror=alert(1)>"
    tab.ask(text)
    assert tab.texts(".message.user > .body") == [text]
    assert tab.page.locator("#log b, #log img").count() == 0
    tab.page.click("#new")
    for name, value in (("temperature", "0"), ("head", "certified")):
        tab.setting(name, value)
    tab.ask("hello")
    assert tab.answers() == ["Hello! What can I do for you?"]
    assert "MiB" not in tab.page.inner_text("#log")
    tab.page.locator(".actions details summary").last.click()
    assert "certified" in tab.page.locator(".actions details").last.inner_text()
    assert tab.page.inner_text("#meter-text").endswith(" of 512")
    tab.ask("set a timer for 10 minutes")
    assert tab.answers()[1].startswith("Timer set for 10 minutes.")
    tab.act(3, "Regenerate")
    tab.idle()
    assert len(tab.answers()) == 2 and tab.answers()[1].startswith("Timer set for 10 minutes.")
    tab.act(2, "Edit")
    tab.page.fill(".editor", "set a timer for 20 minutes")
    tab.page.get_by_role("button", name="Send").first.click()
    tab.until("document.querySelectorAll('.message').length === 4 && !document.getElementById('send').hidden")
    assert "20 minutes" in tab.answers()[1], tab.answers()
    tab.act(2, "Delete")
    tab.until("document.querySelectorAll('.message').length === 2")
    tab.page.click("#toast-act")
    tab.until("document.querySelectorAll('.message').length === 4")
    # A new question ends the undo of a deletion.
    tab.act(2, "Delete")
    tab.until("document.querySelectorAll('.message').length === 2")
    tab.ask("set a timer for 20 minutes")
    assert tab.page.locator("#toast").is_hidden() and len(tab.answers()) == 2
    # An answer that a schema makes long is stopped by the keyboard, and continued.
    tab.setting("schema", '{"type": "string", "minLength": 1500}')
    tab.ask("go on", wait=False)
    tab.until("[...document.querySelectorAll('.message.assistant > .body')].at(-1).textContent.length > 3 && document.querySelectorAll('.message').length === 6")
    tab.page.keyboard.press("Escape")
    tab.idle()
    tab.toast("Stopped.")
    assert "Stopped." in tab.texts(".cut")[0]
    begun = tab.answers()[-1]
    assert len(begun) < 1500
    tab.setting("max_tokens", "4")
    tab.page.get_by_role("button", name="Continue").click()
    tab.until("document.querySelector('.cut')?.textContent.includes('longest answer')")
    assert tab.answers()[-1].startswith(begun[:5]) and len(tab.answers()) == 3
    tab.page.reload()
    tab.until("document.querySelectorAll('.message').length === 6")
    assert tab.page.input_value("#head") == "certified"
    tab.setting("schema", "{")
    tab.ask("x")
    assert tab.texts(".message.failed > .body") == ["The JSON schema of the settings is not JSON."]
    tab.setting("schema", '{"type": "nonsense"}')
    tab.ask("x")
    assert "nonsense" in tab.texts(".message.failed > .body")[-1]
    tab.done("status of 400")


def check_probabilities(open_page):
    tab = open_page()
    tab.setting("logprobs", "5")
    tab.ask("hello")
    words = tab.page.locator(".message.assistant .body p").last
    assert words.locator("span").count() > 3
    assert words.locator("span").first.get_attribute("title").count(" %") in (5, 6)
    assert "".join(words.locator("span").all_text_contents()).strip() == words.inner_text().strip() != ""
    tab.done()


def check_markdown(open_page):
    tab = open_page()
    tab.says("<think>Let me", " see.</think>\n", "# Title\n\nA **bold** `word`, $a^2+b^2=c^2$, not $5 and $6, \\(x\\).\n\n$$\\frac12$$\n\n",
             "| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\ndef f():\n    return 'x'\n```\n\n- one\n- two\n")
    tab.ask("show me")
    body = tab.page.locator(".message.assistant > .body")
    for selector, count in (("h1", 1), ("strong", 1), ("math", 3), ("table td", 2), ("pre .hljs-keyword", 2), ("li", 2), ("details.thinking", 1)):
        assert body.locator(selector).count() == count, (selector, body.inner_html())
    assert "$5 and $6" in body.inner_text() and "\\frac" not in body.inner_text()
    assert not body.locator(".thinking").evaluate("e => e.open") and "Let me see." in body.locator(".thinking div").text_content()
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    body.get_by_role("button", name="Copy").click()
    assert tab.page.evaluate("navigator.clipboard.readText()") == "def f():\n    return 'x'\n"
    tab.picture("markdown-light")
    tab.setting("theme", "dark")
    tab.picture("markdown-dark")
    # The thoughts are not sent again.
    sent = []
    tab.page.on("request", lambda request: sent.append(request.post_data) if request.url.endswith("completions") else None)
    tab.ask("more")
    assert "see" not in sent[0] and "bold" in sent[0]
    tab.says(deltas=[{"reasoning_content": "Hmm."}, {"content": "Yes."}, {"tool_calls": [{"index": 0, "function": {"name": "timer", "arguments": '{"min'}}]},
                     {"tool_calls": [{"index": 0, "function": {"arguments": 'utes":3}'}}]}], finish="tool_calls")
    tab.ask("call")
    last = tab.page.locator(".message.assistant > .body").last
    assert "Hmm." in last.locator(".thinking").text_content()
    assert "Calls timer" in last.inner_text() and '"minutes": 3' in last.inner_text()
    tab.done()


def check_hostile_answers(open_page):
    tab = open_page()
    evil = ("<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)><iframe src='javascript:alert(1)'></iframe>"
            "<form action='http://evil'><button id=send name=input>x</button></form>\n\n[a](javascript:alert(1)) [b](data:text/html,x) [c](https://example.com/ 'title') "
            "![d](http://evil.example/x.png) ![e](data:image/png;base64,AAAA) <style>*{display:none}</style> <a href='//evil'>f</a>\n\n"
            "```html\n<script>alert(1)</script>\n```\n\n$\\href{javascript:alert(1)}{x}$ $\\includegraphics{http://evil/x}$ $\\def\\a{\\a\\a}\\a$\n\n"
            "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">\n")
    tab.says(evil)
    tab.page.on("dialog", lambda dialog: tab.problems.append("a dialog: " + dialog.message))
    tab.ask("x")
    body = tab.page.locator(".message.assistant > .body")
    assert body.locator("script, img, iframe, svg, form, style, object, embed, [onerror], [onload], [id], [name]").count() == 0, body.inner_html()
    assert body.locator("a").evaluate_all("all => all.map(a => [a.getAttribute('href'), a.rel, a.target])") == [["https://example.com/", "noopener noreferrer nofollow", "_blank"]]
    assert "<script>" in body.inner_text() and tab.page.title() != "owned"
    assert not [url for url in tab.asked if "evil" in url]
    # Size: a megabyte in one line, ten thousand cells, deep nesting, long formulas and code.
    for name, text, limit in (("line", "x" * 1000000, 10), ("words", "*a _b " * 30000, 10), ("cells", "|a|b|\n|-|-|\n" + "|1|2|\n" * 5000, 20), ("quotes", ">" * 5000 + "x", 10),
                              ("lists", "".join("  " * i + "- x\n" for i in range(300)), 20), ("stars", "*" * 50000, 10), ("formula", "$" + "{" * 20000 + "$", 10),
                              ("brackets", "[" * 20000, 10), ("code", "```js\n" + "a(b,c);" * 20000 + "\n```", 10)):
        tab.page.click("#new")
        tab.says(*(text[i:i + 50000] for i in range(0, len(text), 50000)))
        begun = time.monotonic()
        tab.ask("x", wait=False)
        tab.until("document.querySelectorAll('.message.assistant .actions').length === 1", 90)
        took = time.monotonic() - begun
        print(f"  {name}: {took:.2f} s")
        assert took < limit, (name, took)
        shown = tab.page.evaluate("document.querySelector('.message.assistant > .body').textContent.length")
        assert shown >= min(len(text), 5000) * 0.9 or name in ("cells", "quotes", "lists", "stars"), (name, shown)
        if name == "cells":
            assert tab.page.locator("td").count() == 10000
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= DESK["width"]
    tab.done()


def check_conversations(open_page):
    tab = open_page()
    tab.says("An answer about elephants.")
    tab.ask("first question")
    tab.page.click("#new")
    tab.says("Another one.")
    tab.ask("second question")
    assert tab.texts("#list .open") == ["second question", "first question"]
    tab.page.fill("#search", "elephants")
    tab.until("document.querySelectorAll('#list .open').length === 1")
    tab.page.fill("#search", "")
    tab.until("document.querySelectorAll('#list .open').length === 2")
    tab.page.get_by_label("Rename first question").click()
    tab.page.get_by_label("Title").fill("Animals")
    tab.page.keyboard.press("Enter")
    tab.until("[...document.querySelectorAll('#list .open')].some(e => e.textContent === 'Animals')")
    with tab.page.expect_download() as download:
        tab.page.click("#export")
    saved = pathlib.Path(download.value.path()).read_text()
    assert {chat["title"] for chat in json.loads(saved)["chats"]} == {"Animals", "second question"}
    tab.page.get_by_label("Delete Animals").click()
    tab.until("document.querySelectorAll('#list .open').length === 1")
    tab.page.click("#toast-act")
    tab.until("document.querySelectorAll('#list .open').length === 2")
    tab.page.get_by_label("Delete Animals").click()
    tab.until("document.querySelectorAll('#list .open').length === 1")
    tab.page.set_input_files("#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": saved.encode()})
    tab.toast("1 conversation imported.")
    assert set(tab.texts("#list .open")) == {"Animals", "second question"}
    for wrong in (b"no JSON", b"[]", b'{"chats": [{"messages": 3}]}'):
        tab.page.set_input_files("#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": wrong})
        tab.toast("no conversations of Weft")
        tab.page.evaluate("document.getElementById('toast').hidden = true")
    evil = {"chats": [{"id": "e", "title": "<img src=x onerror=alert(1)>", "messages": [{"role": "assistant", "content": "x", "pictures": ["http://evil.example/x.png"]}]}]}
    tab.page.set_input_files("#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": json.dumps(evil).encode()})
    tab.toast("1 conversation imported.")
    assert "<img src=x onerror=alert(1)>" in tab.texts("#list .open")
    # Conversations of the page before this one are taken over.
    tab.page.evaluate("localStorage.setItem('weft.chats', JSON.stringify([{title: 'Old', messages: [{role: 'user', content: 'of old'}]}]))")
    tab.page.reload()
    tab.until("[...document.querySelectorAll('#list .open')].some(e => e.textContent === 'Old')")
    assert tab.page.evaluate("localStorage.getItem('weft.chats')") is None
    tab.done()


def check_two_tabs(open_page):
    one = open_page()
    one.says("From one.")
    one.ask("shared")
    two = open_page(beside=one)
    assert two.texts(".message.user > .body") == ["shared"]
    # One adds while two looks: two sees it.
    one.ask("more of one")
    two.until("document.querySelectorAll('.message').length === 4")
    # Both add at the same time: nothing is lost.
    held = []
    two.page.unroute("**/v1/chat/completions")
    two.page.route("**/v1/chat/completions", lambda route: held.append(route))
    two.ask("only two knows", wait=False)
    two.until("running !== null")
    one.ask("only one knows")
    while not held:
        two.page.wait_for_timeout(20)
    held[0].fulfill(status=200, content_type="text/event-stream", body='data: {"choices": [{"delta": {"content": "From two."}}]}\n\ndata: [DONE]\n\n')
    two.idle()
    two.toast("both are kept")
    two.page.reload()
    two.until("document.querySelectorAll('#list .open').length === 2")
    titles = two.texts("#list .open")
    assert sorted(titles) == ["shared", "shared (this tab)"], titles
    stored = two.page.evaluate("readChats().then(all => all.map(chat => chat.messages.filter(m => m.role === 'user').map(m => m.content)))")
    assert sorted(stored) == [["shared", "more of one", "only one knows"], ["shared", "more of one", "only two knows"]], stored
    one.done()
    two.done()


def check_full_context(open_page):
    """Old turns give way, and the page says so; the server has a context of 512 tokens."""
    tab = open_page()
    tab.setting("max_tokens", "8")
    for i in range(8):
        tab.ask(f"{i} " + "a long story about a cat and a dog " * 6)
    assert not tab.texts(".message.failed"), tab.texts(".message.failed")
    assert tab.texts(".note") == ["The context is full: what is above is no longer sent."]
    tab.setting("max_tokens", "")
    tab.says("Half of", finish="length", usage={"prompt_tokens": 500, "completion_tokens": 12})
    tab.ask("and now")
    assert "the context is full" in tab.texts(".cut")[-1]
    tab.says(" it.", path="**/v1/completions")
    tab.page.get_by_role("button", name="Continue").click()
    tab.until("[...document.querySelectorAll('.message.assistant > .body')].at(-1).innerText === 'Half of it.'")
    # A message that alone is too long is refused in words.
    tab.page.unroute("**/v1/chat/completions")
    tab.page.click("#new")
    tab.ask("word " * 2000)
    tab.until("document.querySelector('.message.failed > .body').innerText.includes('at most 511 fit')")  # once it is in view
    tab.done("status of 400")


def check_server_gone(open_page):
    tab = open_page()
    tab.says("So far", end=False)
    tab.page.route("**/v1/models", lambda route: route.abort())
    tab.ask("hello")
    assert tab.answers() == ["So far"]
    assert "connection broke off" in tab.texts(".cut")[0]
    assert tab.page.inner_text("#banner-act") == "Reconnect"
    tab.page.route("**/v1/chat/completions", lambda route: route.abort())
    tab.page.route("**/apply-template", lambda route: route.abort())
    tab.ask("again")
    assert "does not answer" in tab.page.inner_text("#banner-text")
    assert tab.texts(".message.user > .body") == ["hello", "again"]
    for path in ("**/v1/models", "**/v1/chat/completions", "**/apply-template"):
        tab.page.unroute(path)
    tab.page.click("#banner-act")
    tab.until("document.querySelectorAll('.message.assistant .actions').length === 2")
    assert tab.page.locator("#banner").is_hidden()
    tab.done("ERR_FAILED")


def check_key(open_page, server):
    with Server("--api-key", "secret-word") as guarded:
        tab = open_page(url=f"http://127.0.0.1:{guarded.port}/")
        tab.until("!document.getElementById('settings').hidden")
        assert tab.page.evaluate("document.activeElement.id") == "key"
        assert "needs a key" in tab.page.inner_text("#banner-text")
        tab.page.fill("#key", "secret-word")
        tab.page.locator("#key").blur()
        tab.until("document.getElementById('model').textContent === 'pocket'")
        tab.page.click("#banner-act")
        tab.ask("hello")
        assert len(tab.answers()) == 1
        assert "secret" not in tab.page.evaluate("JSON.stringify(localStorage)")
        tab.done("status of 401")


def check_pictures(open_page):
    tab = open_page()
    tab.says("A dot.")
    sent = []
    tab.page.on("request", lambda request: sent.append(request.post_data_json) if request.url.endswith("chat/completions") else None)
    tab.page.set_input_files("#attach-file", {"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL})
    tab.until("document.querySelectorAll('#pictures img').length === 1")
    put = """(kind) => {
      const data = new DataTransfer(), bytes = Uint8Array.from(atob('%s'), c => c.charCodeAt(0));
      data.items.add(new File([bytes], 'b.png', {type: 'image/png'}));
      const made = kind === 'paste' ? new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}) : new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true});
      document.getElementById('input').dispatchEvent(made);
    }""" % base64.b64encode(PIXEL).decode()
    for i, kind in enumerate(("paste", "drop")):
        tab.page.evaluate(put, kind)
        tab.until(f"document.querySelectorAll('#pictures img').length === {i + 2}")
    tab.page.get_by_label("Remove the picture").first.click()
    tab.ask("what is this?")
    parts = sent[0]["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["image_url", "image_url", "text"] and parts[0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert tab.page.locator(".message.user img").count() == 2 and tab.page.locator("#pictures img").count() == 0
    tab.done("status of 400")  # pocket's template takes no pictures


def check_accessible(open_page):
    """axe-core finds nothing, light and dark, on a desk and on a phone; the page never scrolls sideways."""
    for size, name in ((DESK, "desk"), (PHONE, "phone")):
        for theme in ("light", "dark"):
            tab = open_page(viewport=size, color_scheme=theme, bypass_csp=True)
            assert tab.page.evaluate("document.documentElement.dataset.theme") == theme
            tab.says("<think>Hm</think># A title\n\nSome `code` and [a link](https://example.com)\n\n```js\nlet a = 'b'; // c\n```\n\n|a|b|\n|-|-|\n|1|2|\n", finish="length")
            tab.ask("a rather long question that does not fit on one line of a phone's narrow screen")
            tab.page.evaluate("document.getElementById('toast').hidden = true")

            def judge(what):
                tab.picture(f"{name}-{theme}-{what}")
                assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], (name, theme, what)
                found = tab.page.evaluate("async () => (await axe.run()).violations.map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 120)).join(' | '))")
                assert not found, (name, theme, what, found)
            tab.page.evaluate(AXE)
            judge("chat")
            tab.page.click("#options")
            tab.page.evaluate("document.getElementById('advanced').open = true")
            judge("settings")
            tab.page.click("#options")
            if size is PHONE:
                tab.page.click("#menu")
                judge("menu")
                tab.page.keyboard.press("Escape")
                assert tab.page.locator("#chats").is_hidden()
            tab.done()


def check_long_conversation(open_page):
    """200 turns: frames while scrolling, as the browser counts them."""
    tab = open_page()
    text = "# Part\n\nSome **words** of an answer.\n\n```python\nprint('hello')\n```\n\n" + "A sentence that goes on for a while. " * 8
    tab.page.evaluate("""async (text) => {
      const chat = newChat();
      chat.title = 'Long';
      for (let i = 0; i < 200; ++i) chat.messages.push({role: 'user', content: 'question ' + i}, {role: 'assistant', content: text});
      await saveChat(chat);
    }""", text)
    tab.page.reload()
    tab.until("document.querySelectorAll('.message').length === 400")
    frames = tab.page.evaluate("""() => new Promise((done) => {
      const log = document.getElementById('log'), times = [];
      log.scrollTop = 0;
      const step = (now) => {
        times.push(now);
        log.scrollTop += 60;
        if (times.length < 120) requestAnimationFrame(step);
        else done(times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b));
      };
      requestAnimationFrame(step);
    })""")
    print(f"  scrolling 200 turns: median frame {frames[len(frames) // 2]:.1f} ms, 95% {frames[len(frames) * 95 // 100]:.1f} ms")
    assert frames[len(frames) // 2] < 34
    tab.says("Short.")
    tab.ask("one more")
    tab.done()


def check_speech(open_page):
    """The microphone's button is there if a model hears; what it heard comes into the field."""
    tab = open_page()
    assert tab.page.locator("#speak").is_hidden()
    tab.done()
    with Server("-m", POCKET, "-m", WHISPER) as server:
        tab = open_page(url=f"http://127.0.0.1:{server.port}/", permissions=["microphone"])
        tab.until("!document.getElementById('speak').hidden")
        tab.page.evaluate("document.getElementById('input').value = 'so:'")
        tab.page.click("#speak")
        tab.until("document.getElementById('speak').getAttribute('aria-pressed') === 'true'")
        tab.page.wait_for_timeout(1500)  # the browser's own microphone beeps
        tab.page.click("#speak")
        tab.until("document.getElementById('speak').disabled || document.getElementById('input').value.length > 3")
        tab.until("!document.getElementById('speak').disabled", seconds=120)
        heard = tab.page.evaluate("document.getElementById('input').value")
        assert heard.startswith("so: ") and len(heard) > 5, heard
        print(f"  heard {heard[:60]!r}")
        tab.picture("speech")
        tab.done()


with Server() as server, sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--use-fake-device-for-media-stream"])
    for name, check in [(name, check) for name, check in list(globals().items()) if name.startswith("check_") and (arguments.only or "") in name]:
        contexts = []

        def open_page(beside=None, url=None, **options):
            context = beside.page.context if beside else browser.new_context(**{"viewport": DESK, **options})
            contexts.append(context)
            return Page(context, server, url)
        check(open_page, server) if name == "check_key" else check(open_page)
        for context in set(contexts):
            context.close()
        print("passed:", name)
    browser.close()
