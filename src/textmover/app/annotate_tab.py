"""The tab in which texts are rated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gradio as gr

from textmover.app.annotation_session import Desk, Shown
from textmover.app.html import notice, shown
from textmover.safe_reading import load_json
from textmover.types import InputError

POINTS = {(1, 3): ("poor", "fair", "good")}  # names of a scale's points, beside their numbers

QUICK: dict[str, Any] = {
    "show_progress": "hidden",
    "api_visibility": "private",
    "queue": False,
    "trigger_mode": "multiple",
    "preprocess": False,
}
"""Options of an annotator's acts: nothing covers the page meanwhile, and each is a request of its own, one
after the other (script.js). Answers from Gradio's queue come by a stream that the server closes once it has nothing
more to tell, and what is sent at that moment is never answered. What a request says is read at once: one that waits is
sent with what the page showed when it was made, and not with the next text. Values come as they were sent, since the
desk says what is wrong with them, where Gradio answers 500."""

SENT = """(file, who, key, seen, order, given, value) =>
  [file, who, key, seen, window.textmoverOrder(key, NUMBER, value), JSON.stringify(value), IDLE]"""
"""Sends a rating with its place in all that is sent, since two that are sent at once may arrive in either order; and as
text, so that the desk hears of numbers beyond the ends of a slider, which people can type and Gradio would keep."""

MARKED = """(file, who, key, given, order, seen) => {
  const marks = window.textmoverMarks();
  return [file, who, key, marks, window.textmoverOrder(key, "marks", marks), seen];
}"""
"""Sends the marks of a text, likewise."""


class AnnotateTab:
    """The components of the tab, laid out where this is called.

    All that is needed to go on (who rates, which file, which item) stands in the page, so that it goes on after the
    server has been started again.
    """

    def __init__(self, desk: Desk, annotator: str = "") -> None:
        self.desk, self._annotator = desk, annotator
        self._files = desk.files()
        self._one_by_one = threading.Lock()  # what is done, and the time by which pages tell it from what is older
        with gr.Column(elem_id="tm-begin"):  # style.css shows this or what follows, as there is a text to rate or none
            self._lay_out_begin()
        with gr.Column(elem_id="tm-work"):
            self.bar = gr.HTML(elem_id="tm-bar")
            with gr.Row(elem_id="tm-desk", equal_height=False):
                with gr.Column(scale=5, min_width=320):
                    self.card = gr.HTML(elem_id="tm-card")
                    gr.HTML(_keys(desk))
                with gr.Column(scale=4, min_width=320):
                    self._lay_out_ratings()
        with gr.Column(elem_id="tm-held"):
            self.key = gr.Textbox(elem_id="tm-key")
            self.who = gr.Textbox(elem_id="tm-annotator")
            self.file = gr.Textbox(elem_id="tm-items")
            self.seen = gr.Textbox()
            self.order, self.given = gr.Textbox(), gr.Textbox()
            self.mark = gr.Button("Mark", elem_id="tm-mark")  # pressed by marks.js

    def _lay_out_begin(self) -> None:
        gr.HTML('<p class="tm-lead">Rate texts. Each rating is saved at once; stop and go on whenever you like.</p>')
        self.name = gr.Textbox(label="Your name", value=self._annotator, max_length=80, max_lines=1, elem_id="tm-name")
        self.choice = gr.Dropdown(
            self._files,
            value=self._files[0] if self._files else None,
            label="Texts",
            visible=len(self._files) > 1,
            elem_id="tm-file",
        )
        self.start = gr.Button("Start", variant="primary", elem_id="tm-start")
        self.welcome = gr.HTML(
            "" if self._files else notice(
                f"There are no texts in {self.desk.folder}: put a .json, .jsonl, .csv or .tsv file there, and start "
                "again.", "plain",
            ), elem_id="tm-welcome",
        )  # fmt: skip

    def _lay_out_ratings(self) -> None:
        self.ratings = [self._rating(number) for number in range(len(self.desk.criteria))]
        self.status = gr.HTML(elem_id="tm-status")
        with gr.Row(elem_id="tm-steps"):
            self.previous = gr.Button("← Previous", elem_id="tm-previous", min_width=80)
            self.next = gr.Button("Next →", elem_id="tm-next", min_width=80, variant="primary")
            self.unrated = gr.Button("Next unrated", elem_id="tm-unrated", min_width=100)
        self.comment = gr.Textbox(
            label="Comment (optional)", lines=1, max_lines=6, max_length=2000, elem_id="tm-comment"
        )
        with gr.Row(elem_id="tm-jump", equal_height=True):
            self.number = gr.Textbox(
                label="Go to text number", max_length=9, max_lines=1, elem_id="tm-number", min_width=120
            )
            self.leave = gr.Button("Change annotator", elem_id="tm-leave", min_width=120)

    def _rating(self, number: int) -> Any:
        criterion, scale = self.desk.criteria[number], self.desk.scale
        shared: dict[str, Any] = {
            "label": criterion.name[:1].upper() + criterion.name[1:],
            "info": criterion.hint or None,
            "elem_id": f"tm-criterion-{number}",
            "elem_classes": ["tm-criterion"],
            "interactive": True,
        }
        if scale.slider:
            return gr.Slider(scale.low, scale.high, step=1, value=scale.low, buttons=[], **shared)
        names = POINTS.get((scale.low, scale.high))
        labels = [f"{point} {names[place]}" if names else str(point) for place, point in enumerate(scale.points)]
        return gr.Radio(list(zip(labels, scale.points, strict=True)), value=None, **shared)

    # --- what happens -------------------------------------------------------------------------------------------------

    def wire(self, page: gr.Blocks) -> None:
        """Let the components do what they are for."""
        everything = [
            self.welcome, self.key, self.seen, self.who, self.file, self.bar, self.card, self.status,
            self.comment, *self.ratings,
        ]  # fmt: skip
        place = [self.file, self.who, self.key]
        gr.on([self.start.click, self.name.submit], self._begin, [self.choice, self.name], everything, **QUICK)
        page.load(self._load, None, everything, **QUICK)
        self.previous.click(self._safely(partial(self.desk.move, step=-1)), place, everything, **QUICK)
        self.next.click(self._safely(partial(self.desk.move, step=1)), place, everything, **QUICK)
        self.unrated.click(self._safely(self.desk.next_unrated), place, everything, **QUICK)
        self.number.submit(self._safely(self.desk.go_to), [*place, self.number], everything, **QUICK)
        self.leave.click(lambda: [""] * 4, None, [self.key, self.file, self.bar, self.card], **QUICK)
        idle = str(self.desk.scale.low) if self.desk.scale.slider else "null"
        told = [*place, self.seen, self.order, self.given]
        for number, component in enumerate(self.ratings):
            save = self._safely(partial(_rated, self.desk, number))
            sent = SENT.replace("IDLE", idle).replace("NUMBER", str(number))
            component.input(save, [*told, component], everything, js=sent, **QUICK)
        marked = [*place, self.given, self.order, self.seen]
        self.mark.click(self._safely(self.desk.mark), marked, everything, js=MARKED, **QUICK)
        save, told = self._safely(self.desk.comment), [*place, self.comment, self.seen]
        gr.on([self.comment.blur, self.comment.submit], save, told, everything, **QUICK)

    def _begin(self, file: Any, name: Any, key: Any = None) -> list[Any]:
        try:
            with self._one_by_one:
                found = self.desk.start(file, name, key)
        except InputError as error:
            return self._only(welcome=notice(str(error)))
        return self._all(found, file, " ".join(str(name).split()))

    def _load(self, request: gr.Request) -> list[Any]:
        """Go on where the page's address says who rates what."""
        asked = request.query_params
        name = asked.get("annotator", self._annotator)
        file = asked.get("items", self._files[0] if len(self._files) == 1 else None)
        return self._begin(file, name, asked.get("text")) if name and file else self._only()

    def _safely(self, act: Callable[..., Shown | None]) -> Callable[..., list[Any]]:
        """Return what an act shows, or its error in the place for errors."""

        def run(file: Any, who: Any, key: Any, *given: Any) -> list[Any]:
            try:
                with self._one_by_one:
                    found = act(file, who, key, *given)
            except InputError as error:
                said = notice(f"Not done. {error}")  # in place of the confirmation; the page then takes keys again
                return self._only(status=f'<div class="tm-said" data-failed="{time.time_ns()}">{said}</div>')
            if found is None:
                return self._only()
            if found.key == key and given and not found.refused:
                # The rest stays as it is: the annotator may be elsewhere by the time that this arrives.
                return self._only(bar=found.bar, status=found.status)
            return self._all(found, file, who)

        return run

    def _all(self, found: Shown, file: Any, who: Any) -> list[Any]:
        blank = self.desk.scale.low if self.desk.scale.slider else None
        return [
            "", found.key, found.seen, who, file, found.bar, found.card, found.status, found.comment,
            *(gr.update(value=blank if one is None else one) for one in found.ratings),
        ]  # fmt: skip

    def _only(self, **changed: Any) -> list[Any]:
        """Change some of the components and leave the others."""
        names = ["welcome", "key", "seen", "who", "file", "bar", "card", "status", "comment"]
        return [changed.get(name, gr.skip()) for name in names] + [gr.skip()] * len(self.ratings)


def _rated(
    desk: Desk, number: int, file: Any, who: Any, key: Any, seen: Any, order: Any, given: Any, _: Any = None
) -> Shown | None:
    try:
        value = load_json(given, "the rating")
    except (TypeError, ValueError):
        value = given  # the desk says what it wants
    return desk.rate(file, who, key, number, value, order, seen)


def _keys(desk: Desk) -> str:
    digits = "digits, then Enter" if desk.scale.slider else f"{desk.scale.low} – {desk.scale.high}"
    rate = [(digits, "rate what is marked"), ("↑ ↓", "mark another criterion")]
    keys = [*(rate if desk.criteria else ()), ("← →", "previous, next"), ("u", "next unrated")]
    within = [
        ("e", "go into the text, and there:"), ("← →", "word or gap"), ("Enter", "first, last word"),
        ("1 2 3", "severity"), ("Shift ← →", "shorter, longer"), ("a r", "accept, reject"),
        ("Delete", "delete"), ("d", "done"), ("Esc", "leave"),
    ]  # fmt: skip
    return _listed(keys) + (_listed(within) if desk.errors else "")


def _listed(keys: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f"<span><kbd>{shown(key)}</kbd> {shown(what)}</span>" for key, what in keys)
    return f'<p class="tm-keys">{listed}</p>'
