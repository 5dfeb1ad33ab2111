"""The chat page of `weft serve` in Debian's Chromium. Only a soak of CTest: it needs pip and `apt-get install chromium`.

    pip install playwright
    tests/apps/serve_page.py BIN_DIR [--pictures FOLDER]

Exit code 77: Playwright or Chromium is not installed.
"""
import argparse
import pathlib
import shutil
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
parser.add_argument("--pictures", type=pathlib.Path, metavar="FOLDER", help="write pictures of the page there")
arguments = parser.parse_args()

from serving import Server  # takes the folder from sys.argv

try:
    from playwright.sync_api import sync_playwright
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)
if not (chromium := shutil.which("chromium")):
    print("NOT RUN: chromium is not installed")
    sys.exit(77)


def picture(page, name):
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=arguments.pictures / f"{name}.png")


def until(page, script):
    """Playwright's own wait evaluates text in the page, which the page's policy forbids."""
    for _ in range(1000):
        if page.evaluate(script):
            return
        time.sleep(0.02)
    raise AssertionError(script)


def ask(page, text, wait=True):
    page.fill("#input", text)
    page.keyboard.press("Enter")
    if wait:
        page.wait_for_selector("#send:not([hidden])")


def setting(page, name, value):
    page.click("#options")
    page.fill("#" + name, value) if name != "head" else page.select_option("#head", value)
    page.keyboard.press("Tab")
    page.click("#options")


def check_desk(page):
    until(page, "document.getElementById('model').textContent === 'pocket'")
    text = "<b>hello</b> <img src=x onerror=alert(1)>"
    ask(page, text)
    assert page.locator(".message.user p").inner_text() == text
    assert page.locator("#log b, #log img").count() == 0
    for name, value in (("temperature", "0"), ("head", "certified"), ("system", "You are a robot.")):
        setting(page, name, value)
    ask(page, "tell me a story about a cat")
    assert "certified: " in page.locator(".figures").last.inner_text()
    picture(page, "light")
    page.click("#options")
    page.select_option("#logprobs", "5")
    page.click("#options")
    ask(page, "hello")
    words = page.locator(".message.assistant p").last
    assert words.locator("span").count() > 3
    assert words.locator("span").first.get_attribute("title").count(" %") in (5, 6)
    assert "".join(words.locator("span").all_text_contents()) == words.inner_text() != ""
    picture(page, "probabilities")
    page.click("#options")
    page.select_option("#logprobs", "")
    page.click("#options")
    # An answer that a schema makes long is stopped by the keyboard.
    setting(page, "schema", '{"type": "string", "minLength": 1500}')
    ask(page, "go on", wait=False)
    until(page, "[...document.querySelectorAll('.message.assistant p')].length === 4 && "
                "[...document.querySelectorAll('.message.assistant p')].at(-1).textContent.length > 3")
    page.keyboard.press("Escape")
    page.wait_for_selector("#send:not([hidden])")
    assert page.locator("#status").inner_text() == "Stopped."
    assert len(page.locator(".message p").last.inner_text()) < 1500
    count = page.locator(".message").count()
    page.reload()
    page.wait_for_selector(".message")
    assert page.locator(".message").count() == count and page.input_value("#head") == "certified"
    setting(page, "schema", "{")
    ask(page, "x")
    assert page.locator(".message.failed p").inner_text() == "The JSON schema of the settings is not JSON."
    setting(page, "schema", '{"type": "nonsense"}')
    ask(page, "x")
    assert "nonsense" in page.locator(".message.failed p").last.inner_text()
    setting(page, "schema", "")
    page.click("#new")
    ask(page, "hello")
    assert page.locator("#list li").count() == 2
    page.click("#theme")
    page.click("#theme")
    picture(page, "dark")
    unlabelled = "[...document.querySelectorAll('input, select, textarea')].filter((e) => !e.labels.length).length"
    assert page.evaluate(unlabelled) == 0


def check_phone(page):
    ask(page, "tell me a story about a very long cat")
    picture(page, "phone")
    page.click("#menu")
    picture(page, "phone-menu")
    page.keyboard.press("Escape")
    page.click("#options")
    picture(page, "phone-settings")
    assert page.evaluate("document.documentElement.scrollWidth") == 320


with Server() as server, sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for check, options in ((check_desk, {"viewport": {"width": 1000, "height": 700}}),
                           (check_phone, {"viewport": {"width": 320, "height": 568}, "color_scheme": "dark"})):
        page, problems = browser.new_context(**options).new_page(), []
        page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"http://127.0.0.1:{server.port}/")
        check(page)
        # The status of a request that is refused is no fault of the page.
        problems = [problem for problem in problems if "status of 400" not in problem]
        assert not problems, problems
        print("passed:", check.__name__)
    browser.close()
