"""Tab for rating texts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gradio as gr

from textmover.app.annotation_session import PageView, Session
from textmover.app.html import escape, notice
from textmover.safe_reading import load_json
from textmover.types import InputError

POINT_NAMES = {(1, 3): ("poor", "fair", "good")}  # names of points, shown after their numbers, by scale

UPDATED = ("welcome", "key", "seen", "who", "file", "bar", "card", "status", "comment", "shown")
"""Components that an action updates, besides the ratings."""

EVENT_OPTIONS: dict[str, Any] = {
    "show_progress": "hidden",
    "api_visibility": "private",
    "queue": False,
    "trigger_mode": "multiple",
    "preprocess": False,
}
"""Options of an annotator's actions.

No overlay covers the page while an action runs, and script.js sends the actions as separate requests, one after the
other. Gradio's queue is off: it answers by a stream that the server closes when idle, and a request sent at that moment
gets no answer. The values of a request are read when it is made, so that a waiting request does not use the next text.
There is no preprocessing: the session reports invalid values, for which Gradio answers 500."""

SEND_RATING = """(file, who, key, seen, order, given, value) =>
  [file, who, key, seen, window.textmoverOrder(key, NUMBER, value), JSON.stringify(value), IDLE]"""
"""Script that sends a rating with its sequence number, since concurrent requests may arrive out of order. The rating is
sent as text, so that the session sees numbers typed beyond the ends of a slider, which Gradio would keep."""

SEND_MARKS = """(file, who, key, given, order, seen) => {
  const [marks, number] = window.textmoverMarks(key);
  return [file, who, key, marks, number, seen];
}"""
"""Script that sends the marks of a text in the same way."""


class AnnotateTab:
    """Components of the tab, created in the current Gradio context.

    The page itself stores annotator, file and item, so that rating can continue after a restart of the server.
    """

    def __init__(self, session: Session, annotator: str = "") -> None:
        self.session, self._annotator = session, annotator
        self._files = session.files()
        self._action_lock = threading.Lock()  # for an action and its time stamp, by which pages order answers
        with gr.Column(elem_id="tm-begin"):  # style.css shows either this or the following column
            self._lay_out_begin()
        with gr.Column(elem_id="tm-work"):
            self.bar = gr.HTML(elem_id="tm-bar")
            with gr.Row(elem_id="tm-desk", equal_height=False):
                with gr.Column(scale=5, min_width=320):
                    self.card = gr.HTML(elem_id="tm-card")
                    gr.HTML(_key_help(session))
                with gr.Column(scale=4, min_width=320):
                    self._lay_out_ratings()
        with gr.Column(elem_id="tm-held"):
            self.key = gr.Textbox(elem_id="tm-key")
            self.who = gr.Textbox(elem_id="tm-annotator")
            self.file = gr.Textbox(elem_id="tm-items")
            self.seen, self.shown = gr.Textbox(elem_id="tm-seen"), gr.Textbox(elem_id="tm-shown", max_lines=6)
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
                f"There are no texts in {self.session.folder}: put a .json, .jsonl, .csv or .tsv file there, and start "
                "again.", "plain",
            ), elem_id="tm-welcome",
        )  # fmt: skip

    def _lay_out_ratings(self) -> None:
        self.ratings = [self._rating(number) for number in range(len(self.session.criteria))]
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
        criterion, scale = self.session.criteria[number], self.session.scale
        shared: dict[str, Any] = {
            "label": criterion.name[:1].upper() + criterion.name[1:],
            "info": criterion.hint or None,
            "elem_id": f"tm-criterion-{number}",
            "elem_classes": ["tm-criterion"],
            "interactive": True,
        }
        if scale.slider:
            return gr.Slider(scale.low, scale.high, step=1, value=scale.low, buttons=[], **shared)
        names = POINT_NAMES.get((scale.low, scale.high))
        labels = [f"{point} {names[place]}" if names else str(point) for place, point in enumerate(scale.points)]
        return gr.Radio(list(zip(labels, scale.points, strict=True)), value=None, **shared)

    # --- events -------------------------------------------------------------------------------------------------------

    def wire(self, page: gr.Blocks) -> None:
        """Connect the events of the components to their actions."""
        outputs = [*(getattr(self, name) for name in UPDATED), *self.ratings]
        place = [self.file, self.who, self.key]
        gr.on([self.start.click, self.name.submit], self._begin, [self.choice, self.name], outputs, **EVENT_OPTIONS)
        page.load(self._load, None, outputs, **EVENT_OPTIONS)
        self.previous.click(self._guarded(partial(self.session.move, step=-1)), place, outputs, **EVENT_OPTIONS)
        self.next.click(self._guarded(partial(self.session.move, step=1)), place, outputs, **EVENT_OPTIONS)
        self.unrated.click(self._guarded(self.session.next_unrated), place, outputs, **EVENT_OPTIONS)
        self.number.submit(self._guarded(self.session.go_to), [*place, self.number], outputs, **EVENT_OPTIONS)
        self.leave.click(lambda: [""] * 4, None, [self.key, self.file, self.bar, self.card], **EVENT_OPTIONS)
        idle = str(self.session.scale.low) if self.session.scale.slider else "null"
        inputs = [*place, self.seen, self.order, self.given]
        for number, component in enumerate(self.ratings):
            save = self._guarded(partial(_rate, self.session, number))
            script = SEND_RATING.replace("IDLE", idle).replace("NUMBER", str(number))
            component.input(save, [*inputs, component], outputs, js=script, **EVENT_OPTIONS)
        marked = [*place, self.given, self.order, self.seen]
        self.mark.click(self._guarded(self.session.mark), marked, outputs, js=SEND_MARKS, **EVENT_OPTIONS)
        save, inputs = self._guarded(self.session.comment), [*place, self.comment, self.seen, self.shown]
        gr.on([self.comment.blur, self.comment.submit], save, inputs, outputs, **EVENT_OPTIONS)

    def _begin(self, file: Any, name: Any, key: Any = None) -> list[Any]:
        try:
            with self._action_lock:
                contents = self.session.start(file, name, key)
        except InputError as error:
            return self._update(welcome=notice(str(error)))
        return self._show_all(contents, file, " ".join(str(name).split()))

    def _load(self, request: gr.Request) -> list[Any]:
        """Resume if the URL of the page names annotator and file."""
        query = request.query_params
        name = query.get("annotator", self._annotator)
        file = query.get("items", self._files[0] if len(self._files) == 1 else None)
        return self._begin(file, name, query.get("text")) if name and file else self._update()

    def _guarded(self, act: Callable[..., PageView | None]) -> Callable[..., list[Any]]:
        """Wrap an action to return updates of the components, with errors in the status line."""

        def run(file: Any, who: Any, key: Any, *given: Any) -> list[Any]:
            try:
                with self._action_lock:
                    contents = act(file, who, key, *given)
            except InputError as error:
                message = notice(f"Not done. {error}")  # replaces the confirmation and re-enables keys
                return self._update(status=f'<div class="tm-said" data-failed="{time.time_ns()}">{message}</div>')
            if contents is None:
                return self._update()
            if contents.key == key and given and not contents.refused:
                # Leave the rest unchanged: the annotator may have moved on when this arrives.
                kept = {} if contents.shown is None else {"shown": contents.shown}
                return self._update(bar=contents.bar, status=contents.status, **kept)
            return self._show_all(contents, file, who)

        return run

    def _show_all(self, contents: PageView, file: Any, who: Any) -> list[Any]:
        blank = self.session.scale.low if self.session.scale.slider else None
        values = {**vars(contents), "welcome": "", "who": who, "file": file}
        values["shown"] = contents.comment if contents.shown is None else contents.shown
        ratings = (gr.update(value=blank if one is None else one) for one in contents.ratings)
        return [*(values[name] for name in UPDATED), *ratings]

    def _update(self, **changed: Any) -> list[Any]:
        """Return updates of the given components that leave all others unchanged."""
        return [changed.get(name, gr.skip()) for name in UPDATED] + [gr.skip()] * len(self.ratings)


def _rate(
    session: Session, number: int, file: Any, who: Any, key: Any, seen: Any, order: Any, given: Any, _: Any = None
) -> PageView | None:
    try:
        value = load_json(given, "the rating")
    except (TypeError, ValueError):
        value = given  # the session reports invalid values
    return session.rate(file, who, key, number, value, order, seen)


def _key_help(session: Session) -> str:
    digits = "digits, then Enter" if session.scale.slider else f"{session.scale.low} – {session.scale.high}"
    rate = [(digits, "rate what is marked"), ("↑ ↓", "mark another criterion")]
    keys = [*(rate if session.criteria else ()), ("← →", "previous, next"), ("u", "next unrated")]
    within = [
        ("e", "go into the text, and there:"), ("← →", "word or gap"), ("Enter", "first, last word"),
        ("1 2 3", "severity"), ("Shift ← →", "shorter, longer"), ("a r", "accept, reject"),
        ("Delete", "delete"), ("d", "done"), ("Esc", "leave"),
    ]  # fmt: skip
    return _key_list(keys) + (_key_list(within) if session.errors else "")


def _key_list(keys: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f"<span><kbd>{escape(key)}</kbd> {escape(what)}</span>" for key, what in keys)
    return f'<p class="tm-keys">{listed}</p>'
