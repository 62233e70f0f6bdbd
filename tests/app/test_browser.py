"""The page in a real browser: whole rounds of annotation, hostile texts, and what goes wrong on the way."""

import contextlib
import http.client
import itertools
import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from textmover.annotation import open_project
from textmover.annotation.store import parse_marks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TABS = {"annotate": 0, "agreement": 1, "explore": 2}


class Page:
    """A window with the page, and what people do in it."""

    def __init__(self, window, wait):
        self.window, self.wait = window, wait

    def all(self, selector):
        return self.window.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.wait(lambda: self.all(selector))[0]

    def text(self, selector):
        return " ".join(one.text for one in self.all(selector))

    def until_text(self, selector, wanted):
        try:
            return self.wait(lambda: wanted in self.text(selector) and self.text(selector))
        except AssertionError as error:
            stands = {name: self.text(name) for name in (selector, "#tm-status", "#tm-bar", "#tm-lost")}
            raise AssertionError(f"Expected {wanted!r}, but got {stands} with {self.checked()} chosen.") from error

    def begin(self, name):
        self.one("#tm-name input, #tm-name textarea").send_keys(name)
        self.one("#tm-start").click()
        self.one(".tm-card")

    def press(self, keys):
        self.one("body").send_keys(keys)

    def key(self):
        return self.one(".tm-card").get_attribute("data-key")

    def rate(self, digits):
        """Rate by keys, and wait until it is saved."""
        self.press(digits)
        self.until_text("#tm-status", "all rated")

    def go(self, keys):
        """Go to another text by keys, and wait until it is there."""
        before = self.key()
        self.press(keys)
        self.wait(lambda: self.key() != before)

    def tab(self, name):
        self.wait(lambda: len(self.all("button[role=tab]")) >= 3)
        self.all("button[role=tab]")[TABS[name]].click()

    def checked(self):
        script = """return [...document.querySelectorAll('.tm-criterion')].map(
            (one) => [...one.querySelectorAll('input[type=radio]')].findIndex((box) => box.checked) + 1)"""
        return self.window.execute_script(script)

    def asked(self):
        """Addresses of everything that the browser has asked for."""
        entries = [json.loads(one["message"])["message"] for one in self.window.get_log("performance")]
        found = [one["params"]["request"]["url"] for one in entries if one["method"] == "Network.requestWillBeSent"]
        return [url for url in found if not url.startswith(("chrome", "data:", "blob:", "about:"))]

    def complaints(self):
        return [one["message"] for one in self.window.get_log("browser") if one["level"] == "SEVERE"]


@pytest.fixture
def visit(browse, wait):
    """Open the page of a server."""

    def opened(server, query="", **size):
        return Page(browse(server.url + query, **size), wait)

    return opened


def test_a_whole_round(folder, serve, visit, tiny_encoder, programs):
    server = serve(folder)
    ada = visit(server)
    ada.begin("Ada")
    for number in range(5):
        assert ada.key() == f"i{number}"
        ada.rate("".join(str(1 + (number + step // 2) % 3) for step in range(3)))
        ada.go(Keys.ARROW_RIGHT)

    # The server is killed in the middle of a text: the page says so, and goes on by itself when it is back.
    ada.press("2")
    ada.until_text("#tm-status", "2 to go")
    server.end(signal.SIGKILL)
    ada.until_text("#tm-lost", "does not answer")
    ada.press("3")  # is not saved, and not shown as saved
    assert "Saved" not in ada.text("#tm-status")
    server = serve(folder, port=server.port)
    ada.wait(lambda: ada.all("#tm-lost") and not ada.all("#tm-lost")[0].is_displayed() and ada.checked() == [2, 0, 0])
    assert ada.key() == "i5"
    assert "5 of 10 rated, 1 begun" in ada.text("#tm-bar")
    ada.press(Keys.ARROW_DOWN)
    ada.press("31")
    ada.until_text("#tm-status", "all rated")
    for number in range(6, 10):
        ada.go("u")
        assert ada.key() == f"i{number}"
        ada.rate("".join(str(1 + (number + step) % 3) for step in range(3)))
    ada.until_text("#tm-bar", "10 of 10 rated")

    # The second annotator uses the mouse, in another window at the same time.
    bob = visit(server)
    bob.begin("Bob")
    for number in range(10):
        assert bob.key() == f"i{number}"
        assert bob.checked() == [0, 0, 0]
        for step in range(3):
            bob.all(f"#tm-criterion-{step} label")[(number + step + (number == 4)) % 3].click()
        bob.until_text("#tm-status", "all rated")
        if number < 9:
            bob.one("#tm-next").click()
            bob.wait(lambda number=number: bob.key() == f"i{number + 1}")

    project = open_project(folder)
    assert [project.progress(name).complete for name in ("Ada", "Bob")] == [10, 10]
    assert project.said("Ada")["i5"].ratings == {
        "fluency": 2, "semantic correctness": 3, "grammatical correctness": 1,
    }  # fmt: skip

    bob.tab("agreement")
    bob.until_text("#tm-agreement", "Cohen’s κ")
    assert "Ada" in bob.text("#tm-agreement")
    bob.one("#tm-export").click()
    bob.until_text("#tm-written", "10 texts, rated by 2 annotators")
    command = bob.text("#tm-written .tm-command").split()
    assert command[:3] == ["textmover", "train", "--config"]
    asked = {page: page.asked() for page in (ada, bob)}
    assert all(url.startswith(server.url) for urls in asked.values() for url in urls)
    assert not any("/queue/" in url for url in asked[ada]), "its answers may get lost"
    assert bob.complaints() == []
    assert server.end() == 0
    assert Path(server.errors.name).read_text() == ""

    options = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--model.init_args.overrides.freeze_layers=1"]
    options += ["--model.init_args.overrides.encoder", str(tiny_encoder)]
    how = {"cwd": folder, "capture_output": True, "text": True, "env": {**os.environ, "HF_HUB_OFFLINE": "1"}}
    fit = [programs / "python", ROOT / "train.py", "fit", *command[2:], *options]
    ran = subprocess.run(fit, check=False, **how)
    assert ran.returncode == 0, ran.stderr
    assert (project.place / "metric" / "model.safetensors").is_file()


def test_texts_are_texts(folder, serve, visit):
    attack = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>"
    judged, reference = f"{attack} ${{window.hit=1}} {{{{value}}}}", "**b** [l](http://x) $x^2$"
    other = {"hypothesis": "القطة جلست (cat).", "reference": "\u202eevil\u202c", "triples": [[attack, "a", "b"]]}
    rows = [{"id": "a", "hypothesis": judged, "reference": reference}, {"id": "b", **other}]
    (folder / "items.json").write_text(json.dumps(rows))
    server = serve(folder, "--criteria", f"style: {attack}")
    page = visit(server)
    page.begin(f"{attack[:40]}")
    assert page.text(".tm-judged .tm-words") == judged
    assert page.text(".tm-card .tm-text:nth-of-type(2) .tm-words") == reference
    page.one("#tm-comment textarea, #tm-comment input").send_keys(attack + Keys.TAB)
    page.until_text("#tm-status", "comment")
    page.go(Keys.ARROW_RIGHT)
    style = "return getComputedStyle(document.querySelector('.tm-judged .tm-words')).direction"
    assert page.window.execute_script(style) == "rtl"
    style = """return [...document.querySelectorAll('textarea, input[type=text]')].map(
        (one) => getComputedStyle(one)).map((one) => one.unicodeBidi + " " + one.textAlign)"""
    assert set(page.window.execute_script(style)) == {"plaintext start"}, "typed texts stand as their script does"
    page.tab("agreement")
    page.until_text("#tm-agreement", "<img src=x")
    found = page.window.execute_script("return [window.hit ?? null, document.querySelector('img[src=x]')]")
    assert found == [None, None]
    assert [url for url in page.asked() if not url.startswith(server.url)] == []
    assert page.complaints() == []


def test_keys_belong_to_whoever_types(folder, serve, visit):
    page = visit(serve(folder))
    page.begin("Ada")
    box = page.one("#tm-comment textarea, #tm-comment input")
    box.send_keys("1 2u" + Keys.ARROW_LEFT + "3")
    assert box.get_attribute("value") == "1 23u"
    page.until_text("#tm-status", "The comment is saved when you leave its field")
    box.send_keys(Keys.TAB)
    page.until_text("#tm-status", "comment")
    # Enter sends it, too; leaving the field then, or with the text that was there, sends nothing and waits for nothing.
    box.send_keys("x" + Keys.BACKSPACE + Keys.TAB)
    assert page.text("#tm-status") == ""
    box.send_keys("4" + Keys.ENTER)
    page.wait(lambda: open_project(folder).said("Ada")["i0"].comment == "1 23u4")
    page.until_text("#tm-status", "Saved")
    box.send_keys(Keys.TAB)
    assert "Saving" not in page.text("#tm-status")
    box.send_keys(Keys.BACKSPACE + Keys.TAB)
    page.until_text("#tm-status", "Saved")
    assert (page.key(), page.checked()) == ("i0", [0, 0, 0])
    assert open_project(folder).said("Ada")["i0"].comment == "1 23u"
    # Keys that are pressed before the next text is there are meant for it.
    page.window.execute_script("document.activeElement.blur()")
    page.press("123" + Keys.ARROW_RIGHT + "321" + Keys.ARROW_RIGHT + "2")
    page.wait(lambda: page.key() == "i2" and "2 to go" in page.text("#tm-status"))
    project = open_project(folder)
    said = [project.said("Ada")[f"i{number}"].ratings for number in range(3)]
    assert [[one.get(criterion.name) for criterion in project.criteria] for one in said] == [
        [1, 2, 3], [3, 2, 1], [2, None, None],
    ]  # fmt: skip
    page.one("#tm-number textarea, #tm-number input").send_keys("10" + Keys.ENTER)
    page.wait(lambda: page.key() == "i9")
    page.rate("123")  # a digit that is chosen already changes nothing
    page.go(Keys.ARROW_LEFT)
    page.go(Keys.ARROW_RIGHT)
    page.press("12")
    assert "Saving" not in page.text("#tm-status")
    page.press("1")
    page.until_text("#tm-status", "grammatical correctness 1; all rated")
    assert (page.key(), page.checked()) == ("i9", [1, 2, 1])


def test_a_slider_refuses_numbers_beyond_it(folder, serve, visit):
    server = serve(folder, "--scale", "0-100", "--criteria", "fluency", "style")
    page = visit(server)
    page.begin("Ada")
    assert len(page.all(".tm-open")) == 2

    def number():
        return page.one("#tm-criterion-0 input[type=number]").get_attribute("value")

    let_go = hold(page, [1, 2], "the request")  # Gradio sends it more than once
    # All digits in one event: a slow page would send and save the first ones before the last one.
    page.window.execute_script("arguments[0].select()", page.one("#tm-criterion-0 input[type=number]"))
    page.window.execute_cdp_cmd("Input.insertText", {"text": "999"})
    page.window.switch_to.active_element.send_keys(Keys.ENTER)
    page.until_text("#tm-status", "Expected a whole number from 0 to 100")
    assert open_project(folder).said("Ada").get("i0") is None
    page.wait(lambda: number() == "0")
    page.press(Keys.ARROW_UP)
    page.press("80")
    let_go()
    assert number() == "80"
    page.window.switch_to.active_element.send_keys(Keys.ENTER)
    page.until_text("#tm-status", "fluency 80; 1 to go")
    page.press("100")
    page.window.switch_to.active_element.send_keys(Keys.ENTER)
    page.until_text("#tm-status", "style 100; all rated")
    assert page.all(".tm-open") == []
    page.go(Keys.ARROW_RIGHT)
    assert len(page.all(".tm-open")) == 2
    page.one("#tm-criterion-1 input[type=range]").click()
    page.until_text("#tm-status", "style 50")
    page.go(Keys.ARROW_LEFT)
    values = [one.get_attribute("value") for one in page.all(".tm-criterion input[type=number]")]
    assert values == ["80", "100"]
    # Digits that are pressed before the next text is there are meant for its slider.
    page.window.execute_script("document.activeElement.blur()")
    page.press(Keys.ARROW_RIGHT + "75" + Keys.ENTER)
    page.until_text("#tm-status", "fluency 75; all rated")
    assert open_project(folder).said("Ada")["i1"].ratings == {"fluency": 75, "style": 50}
    assert server.said() == ""


def test_agreement_and_export_are_of_the_file_that_is_rated(folder, serve, visit):
    (folder / "another.json").write_text((folder / "items.json").read_text())
    page = visit(serve(folder), "?annotator=Ada&items=items.json")
    page.one(".tm-card")
    page.rate("123")
    page.tab("agreement")
    page.until_text("#tm-agreement", "Annotators of items.json")
    page.one("#tm-export").click()
    page.until_text("#tm-written", "1 text, rated by 1 annotator")
    assert (open_project(folder, "items.json").place / "ratings.csv").is_file()
    page.tab("annotate")
    page.one("#tm-leave").click()
    page.one("#tm-start")
    page.tab("agreement")
    page.until_text("#tm-agreement", "Nobody has rated anything of another.json")


def test_errors_are_marked_by_taps_mouse_and_keys(folder, serve, visit, checkpoint):
    rows = [
        {"id": f"i{number}", "hypothesis": "A 😀 cat sat there.", "reference": "The dog sat."} for number in range(3)
    ]
    (folder / "items.json").write_text(json.dumps(rows))
    server = serve(folder, "--errors", "also", "--criteria", "fluency")
    page = visit(server, width=390, height=844)
    page.begin("Ada")
    words = ["A", "😀", "cat", "sat", "there", "."]

    def saved(key="i0"):
        said = open_project(folder).said("Ada").get(key)  # None until the page has sent it
        return said and ([(one.start, one.end, one.severity) for one in said.marks.spans], said.marks.done)

    def tap(*names):
        for name in names:
            page.all(".tm-w")[words.index(name)].click()

    def act(name, said):
        page.one(f"[data-act={name}], [data-severity={name}]").click()
        page.until_text("#tm-status", said)
        page.wait(lambda: "Saving" not in page.text("#tm-status"))

    tap("sat", "cat")  # the last word first
    page.until_text("#tm-status", "Saved")
    assert saved() == ([(4, 11, "major")], False)
    act("critical", "1 error")
    act("before-less", "1 error")
    act("after-more", "1 error")
    page.wait(lambda: saved() == ([(8, 17, "critical")], False))
    page.all(".tm-g")[1].click()  # between "A" and the emoji
    page.until_text("#tm-status", "2 errors")
    act("later", "2 errors")
    act("minor", "2 errors")
    page.wait(lambda: saved() == ([(3, 3, "minor"), (8, 17, "critical")], False))
    tap("😀", "there")
    page.until_text(".tm-hint", "part of another error")
    assert len(page.all(".tm-w.tm-sure")) == 2
    tap("sat")
    act("delete", "1 error;")
    act("done", "1 error; 1 to go")
    page.rate("2")
    assert page.window.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    page.window.refresh()
    page.until_text(".tm-number", "Text 2 of 3")
    page.go(Keys.ARROW_LEFT)
    page.until_text(".tm-done", "Done: 1 error")
    assert len(page.all(".tm-g.tm-missing.tm-minor")) == 1

    page.go(Keys.ARROW_RIGHT)
    page.press("e" + Keys.ARROW_RIGHT + Keys.ARROW_RIGHT)  # from the first word to the second
    page.window.switch_to.active_element.send_keys(Keys.ENTER + Keys.ENTER + "3" + Keys.SHIFT + Keys.ARROW_RIGHT)
    page.wait(lambda: saved("i1") == ([(2, 7, "critical")], False))
    page.window.switch_to.active_element.send_keys("d" + Keys.ESCAPE)
    page.wait(lambda: saved("i1") == ([(2, 7, "critical")], True))
    page.rate("3")
    page.go(Keys.ARROW_RIGHT)
    drawn = ActionChains(page.window).click_and_hold(page.all(".tm-w")[0]).move_to_element(page.all(".tm-w")[2])
    drawn.release().perform()
    page.until_text("#tm-status", "1 error")
    page.wait(lambda: saved("i2") == ([(0, 7, "major")], False))
    assert page.complaints() == []
    assert server.end() == 0

    # Another annotator decides on the suggestions of a metric.
    page = visit(serve(folder, "--suggest", str(checkpoint)))
    page.begin("Bob")
    count = len({one.get_attribute("data-from") for one in page.all(".tm-dashed")})
    assert count
    assert not page.one(".tm-done").is_enabled()
    page.all(".tm-dashed")[0].click()
    page.one("[data-act=accept]").click()
    page.until_text("#tm-status", "1 error")
    while not page.one(".tm-done").is_enabled():
        page.all(".tm-dashed")[0].click()
        page.one("[data-act=reject]").click()
    page.one(".tm-done").click()
    page.wait(lambda: (said := open_project(folder).said("Bob").get("i0")) and said.marks.done)
    (mark,) = open_project(folder).said("Bob")["i0"].marks.errors
    assert mark.suggested == mark.span
    assert page.complaints() == []


def test_texts_that_change_or_vanish_while_they_are_shown(folder, serve, visit):
    server = serve(folder)
    page = visit(server)
    page.begin("Ada")
    path = folder / "items.json"
    path.write_text(path.read_text().replace("number 0 sat", "number 0 ran"))
    page.press("3")
    page.until_text("#tm-status", "has changed: load the page again")
    page.until_text(".tm-judged", "number 0 ran")
    assert page.checked() == [0, 0, 0]
    page.press(Keys.ARROW_UP + Keys.ARROW_UP)
    page.rate("333")
    path.rename(folder / "away")
    page.press(Keys.ARROW_RIGHT)
    page.until_text("#tm-status", "Put the file back")
    (folder / "away").rename(path)
    page.go(Keys.ARROW_RIGHT)
    assert page.key() == "i1"
    assert server.said() == ""


def comment_box(page):
    return page.one("#tm-comment textarea, #tm-comment input")


def test_a_comment_and_marks_outlast_a_restart_of_the_server(folder, serve, visit):
    options = ["--errors", "also", "--criteria", "fluency"]
    server = serve(folder, *options)
    page = visit(server)
    page.begin("Ada")

    def saved():
        said = open_project(folder).said("Ada").get("i0")
        marks = said and said.marks
        return said and (said.comment, marks and [(one.start, one.end, one.severity) for one in marks.spans])

    def down():
        server.end(signal.SIGKILL)
        page.until_text("#tm-lost", "does not answer")

    def back():
        again = serve(folder, *options, port=server.port)
        page.wait(lambda: page.all("#tm-lost") and not page.all("#tm-lost")[0].is_displayed() and page.all(".tm-card"))
        return again

    comment_box(page).send_keys("Why “cat”?" + Keys.SHIFT + Keys.ENTER)
    down()
    comment_box(page).send_keys("It is a dog." + Keys.TAB)
    for number in (1, 1, 2, 3):  # a word alone, and two words
        page.all(".tm-w")[number].click()
    server = back()
    page.wait(lambda: saved() == ("Why “cat”?\nIt is a dog.", [(4, 7, "major"), (8, 16, "major")]))
    page.until_text("#tm-status", "Saved")
    assert comment_box(page).get_attribute("value") == "Why “cat”?\nIt is a dog."
    assert len(page.all(".tm-w.tm-sure")) == 3
    assert page.window.execute_script("return sessionStorage.length") == 0

    # What has been saved meanwhile stays, and the page shows both.
    down()
    comment_box(page).send_keys(" No." + Keys.TAB)
    page.all(".tm-w")[1].click()
    page.one("[data-act=delete]").click()
    project = open_project(folder)
    project.comment("Ada", "i0", "Yes.")
    project.mark("Ada", "i0", parse_marks({"errors": [], "done": True}))
    server = back()
    page.until_text("#tm-kept", "another comment was saved meanwhile: your comment “Why “cat”?\nIt is a dog. No.”")
    page.until_text("#tm-kept", "other marks were saved meanwhile: your marks “\u2068number 0\u2069” (major)")
    page.window.refresh()
    page.until_text("#tm-kept", "No.")
    assert saved() == ("Yes.", [])
    assert comment_box(page).get_attribute("value") == "Yes."
    page.go(Keys.ARROW_RIGHT)
    assert not page.one("#tm-kept").is_displayed()
    page.go(Keys.ARROW_LEFT)
    page.until_text("#tm-kept", "No.")
    discard = page.one("#tm-kept button")
    time.sleep(1)
    discard.click()  # is still the same button: one that is drawn anew under the pointer gets no click
    page.window.refresh()
    page.one(".tm-card")
    page.wait(lambda: page.window.execute_script("return sessionStorage.length") == 0)
    assert not page.one("#tm-kept").is_displayed()


def test_marks_of_a_request_that_failed_are_saved_soon(folder, serve, visit):
    server = serve(folder, "--errors", "also", "--criteria", "fluency")
    page = visit(server)
    page.begin("Ada")
    page.window.execute_script("const now = Date.now(); Date.now = () => now")  # does not wait for a lost answer
    page.window.execute_cdp_cmd("Network.enable", {})
    way = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.window.execute_cdp_cmd("Network.emulateNetworkConditions", {**way, "offline": True})
    for _ in range(2):
        page.all(".tm-w")[1].click()
    page.until_text("#tm-lost", "does not answer")
    page.window.execute_cdp_cmd("Network.emulateNetworkConditions", {**way, "offline": False})
    page.wait(lambda: open_project(folder).said("Ada").get("i0"))
    page.until_text("#tm-status", "1 error;")


def test_the_browser_asks_before_unsaved_work_is_left(folder, serve, visit):
    server = serve(folder, "--errors", "also", "--criteria", "fluency")
    page = visit(server)
    page.begin("Ada")

    def leaves():
        script = "return dispatchEvent(new Event('beforeunload', {cancelable: true}))"
        return page.window.execute_script(script)

    actions = {
        "comment": lambda: comment_box(page).send_keys("Why?" + Keys.TAB),
        "1 error": lambda: [page.all(".tm-w")[1].click() for _ in range(2)],
        "fluency 2": lambda: page.press(Keys.ESCAPE + "2"),
    }
    for said, act in actions.items():
        assert leaves()
        let_go = hold(page, [0], "the request")
        page.window.execute_script("document.activeElement.blur()")
        act()
        page.until_text("#tm-status", "Saving")
        assert not leaves()
        let_go()
        page.until_text("#tm-status", f"{said};")
    page.wait(leaves)
    comment_box(page).send_keys("x")
    page.wait(lambda: not leaves())
    comment_box(page).send_keys(Keys.BACKSPACE)
    page.wait(leaves)


def test_a_full_disk_is_said_and_the_rating_is_taken_back(folder, serve, visit):
    server = serve(folder, own=True)
    page = visit(server)
    page.begin("Ada")
    page.press("1")
    page.until_text("#tm-status", "2 to go")
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
    page.press("3")
    page.until_text("#tm-status", "Not saved.")
    assert page.checked() == [1, 0, 0]
    assert open_project(folder).said("Ada")["i0"].ratings == {"fluency": 1}
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
    page.press(Keys.ARROW_DOWN)
    page.press("2")
    page.until_text("#tm-status", "Saved")


def test_two_windows_of_one_annotator(folder, serve, visit):
    server = serve(folder, "--annotator", "Ada")
    first, second = visit(server), visit(server)
    for page in (first, second):
        page.one(".tm-card")
    first.press("1")
    first.until_text("#tm-status", "2 to go")
    second.press(Keys.ARROW_DOWN)
    second.press("2")
    second.until_text("#tm-status", "1 to go")
    assert open_project(folder).said("Ada")["i0"].ratings == {"fluency": 1, "semantic correctness": 2}
    second.go(Keys.ARROW_RIGHT)
    second.go(Keys.ARROW_LEFT)
    assert second.checked() == [1, 2, 0]


def test_two_windows_do_not_overwrite_each_others_marks(folder, serve, visit):
    server = serve(folder, "--annotator", "Ada", "--errors", "also", "--criteria", "fluency")
    first, second = visit(server), visit(server)
    for page in (first, second):
        page.one(".tm-card")
    for number, (page, said) in enumerate([(first, "1 error;"), (second, "Not saved."), (second, "2 errors;")]):
        for _ in range(2):
            page.all(".tm-w")[min(number, 1)].click()
        page.until_text("#tm-status", said)
    assert len(open_project(folder).said("Ada")["i0"].marks.errors) == 2


def test_requests_wait_for_those_before_them(folder, serve, visit):
    page = visit(serve(folder))
    page.begin("Ada")
    page.press("123" + Keys.ARROW_RIGHT + "21" + Keys.ARROW_RIGHT + "3")
    page.wait(lambda: page.key() == "i2" and "fluency 3; 2 to go" in page.text("#tm-status"))
    times = """return performance.getEntriesByType("resource").filter((one) => one.name.includes("/run/predict"))
        .map((one) => [one.startTime, one.responseEnd])"""
    # The start, six ratings and two steps; the browser may be a moment late with the last one.
    found = page.wait(lambda: len(said := page.window.execute_script(times)) >= 9 and said)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(found))


WAYS = {
    "the request": "await held(); return plain(...asked);",
    "its answer": "const answer = await plain(...asked); await held(); return answer;",
}
"""Ways in which what is sent first can be heard of last."""


def hold(page, which, way):
    """Hold back some of what is sent from now on, by number; returns what lets go, and waits for what comes of it."""
    script = """const plain = window.fetch; let number = 0;
        window.letGo = false;
        window.pending = 0;
        const held = async () => {
            window.pending += 1;
            while (!window.letGo) await new Promise((done) => setTimeout(done, 20));
            setTimeout(() => { window.pending -= 1; }, 500);
        };
        window.fetch = async (...asked) => {
            const wanted = String(asked[0]).includes("/run/predict") && WHICH.includes(number++);
            if (!wanted) return plain(...asked);
            WAY
        };"""
    page.window.execute_script(script.replace("WHICH", json.dumps(which)).replace("WAY", WAYS[way]))

    def let_go():
        page.window.execute_script("window.letGo = true")
        page.wait(lambda: page.window.execute_script("return window.pending === 0"))

    return let_go


def test_a_rating_that_is_heard_of_after_the_next_text(folder, serve, visit):
    server = serve(folder)
    for name, way in zip(("Ada", "Bob"), WAYS, strict=True):
        page = visit(server)
        page.begin(name)
        let_go = hold(page, [0], way)
        page.press("1")
        page.go(Keys.ARROW_RIGHT)
        page.press("2")
        page.until_text("#tm-status", "fluency 2; 2 to go")
        let_go()
        assert (page.key(), page.checked()) == ("i1", [2, 0, 0])
        assert "fluency 2; 2 to go" in page.text("#tm-status")
        page.until_text("#tm-bar", "0 of 10 rated, 2 begun")
        page.go(Keys.ARROW_LEFT)
        assert (page.key(), page.checked()) == ("i0", [1, 0, 0])


def test_nothing_but_the_page_is_served(folder, serve, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    server = serve(folder)
    targets = [f"{tmp_path}/secret.txt", "../secret.txt", "link.txt", "items.json", "/etc/passwd", f"{folder}/link.txt"]
    routes = ["/gradio_api/file=", "/file=", "/gradio_api/file/", "/static/", "/assets/", "/svelte/", "/"]
    for route in routes:
        for target in targets:
            for written in (target, target.replace("/", "%2f").replace("..", "%2e%2e"), f"../../../../..{target}"):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
                with contextlib.closing(connection):
                    connection.request("GET", route + written)
                    answer = connection.getresponse()
                    body = answer.read()
                assert answer.status in (403, 404), (route, written, answer.status)
                assert b"secret" not in body
                assert b"root:" not in body
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="../../up.txt"\r\n\r\nhello\r\n--x--\r\n'
        connection.request("POST", "/gradio_api/upload", part, {"Content-Type": "multipart/form-data; boundary=x"})
        assert connection.getresponse().status == 404
    assert not list(tmp_path.rglob("*up.txt"))


def test_explore(folder, serve, visit, embedded):
    page = visit(serve(folder), width=390, height=844)
    page.tab("explore")
    page.one("#tm-score").click()
    page.wait(lambda: page.all("#tm-drawing iframe"), 120)
    assert len(page.all("#tm-table tbody tr")) == 3
    assert page.window.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    page.all("#tm-explained label")[1].click()
    page.wait(lambda: page.all("#tm-drawing iframe"), 60)
    long = "the cat sat on the red street " * 286
    script = """const box = document.querySelector(arguments[0] + ' textarea');
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, arguments[1]);
        box.dispatchEvent(new Event('input', {bubbles: true}));"""
    for name in ("#tm-hypothesis", "#tm-reference"):
        page.window.execute_script(script, name, long)
    page.one("#tm-score").click()
    page.wait(lambda: "at most 250 words" in page.text("#tm-drawing"), 120)
    assert "1.000" in page.text("#tm-table")
    assert page.complaints() == []
