"""Gradio page for :mod:`~textmover.app.annotation_session` and ``explorer``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from textmover import annotation
from textmover.annotation.agreement import ErrorPair
from textmover.app.annotate_tab import AnnotateTab
from textmover.app.annotation_session import Session
from textmover.app.html import escape, notice
from textmover.app.score_tab import Explorer, score_table
from textmover.meta_evaluation.agreement.annotators import Level
from textmover.types import InputError, SourcedReferences, fixed, isolated, plural

FEW_ITEMS = 30  # with fewer common texts, statistics are unreliable
FEW_RATINGS = 100  # with fewer rated texts, training gains little, see docs/own-ratings.md

ERRORS_NOTE = (
    "F1 of marked characters, MCC of words. 1 is perfect agreement; a character with two severities counts half."
)


def agreement_view(project: annotation.Project) -> str:
    """Return tables of the progress of annotators and their agreement as HTML."""
    names = project.annotators()
    parts = [_damaged_files(project)]
    if not names:
        return parts[0] + notice(f"Nobody has rated anything of {project.name} yet.", "plain")
    progress = {name: project.progress(name) for name in names}
    rows = [(name, one.complete, one.begun, one.items - one.complete - one.begun) for name, one in progress.items()]
    parts.append(f'<h3 dir="auto">Annotators of {escape(project.name)}</h3>')
    parts.append(_table(["annotator", "rated", "begun", "to do"], rows))
    agreements = annotation.criterion_agreement(project)
    if any(one.statistics.items for one in agreements):
        parts += ["<h3>Agreement</h3>", _agreement_table(agreements, slider=project.scale.slider)]
        common_texts = min(one.statistics.items for one in agreements)
        if common_texts < FEW_ITEMS:
            parts.append(notice(f"With {plural(common_texts, 'common text')}, these numbers are rough.", "plain"))
        if len(names) > 2:
            head = ["annotators", "criterion", "common texts", "Krippendorff’s α"]
            pairs = [(_both(pair), one.criterion, pair.items, pair.alpha) for one in agreements for pair in one.pairs]
            parts += ["<h3>Each two of them</h3>", _table(head, pairs, texts=2)]
    elif project.criteria:
        parts.append(notice("No text has been rated by two annotators yet, so there is no agreement to show.", "plain"))
    if project.errors:
        marked = [(_both(one), one.items, one.span_f1, one.mcc_words) for one in annotation.error_agreement(project)]
        table = _table(["annotators", "texts", "F1", "MCC"], marked, note=ERRORS_NOTE)
        none = notice("No text has been marked to the end by two annotators yet.", "plain")
        parts += ["<h3>Agreement on errors</h3>", table if marked else none]
    outdated = project.outdated()
    if outdated:
        parts.append(notice(f"Left out: {plural(outdated, 'rating')} of texts that changed or left the file.", "plain"))
    return f'<div class="tm-review">{"".join(parts)}</div>'


def export_view(project: annotation.Project, standardise: bool) -> str:
    """Write the export; return its paths and the command that trains on it as HTML."""
    parts = []
    try:
        if project.criteria:
            rated = annotation.export_ratings(project, standardise=standardise)
            parts += [notice(_ratings_message(rated), "good"), _training(rated.command, rated.reason, rated.rows)]
    except InputError as error:
        parts.append(notice(str(error)))
    try:
        if project.errors:
            marked = annotation.export_errors(project)
            parts += [notice(_errors_message(marked), "good"), _training(marked.command, marked.reason, marked.rows)]
    except InputError as error:
        parts.append(notice(str(error)))
    return f'<div class="tm-review">{_damaged_files(project)}{"".join(parts)}</div>'


def _damaged_files(project: annotation.Project) -> str:
    message = "is not a valid file of ratings and is ignored. Restore it, or move it away."
    return "".join(notice(isolated(f"{name} {message}", [name])) for name in project.damaged())


def _ratings_message(exported: annotation.Exported) -> str:
    sentences = [
        f"Written: {plural(exported.rows, 'text')}, rated by {plural(len(exported.annotators), 'annotator')}, to "
        f"{exported.table}; single ratings and comments to {exported.single.name} beside it."
    ]
    if exported.incomplete:
        sentences.append(f"{exported.incomplete} left out that nobody rated for every criterion.")
    if exported.without_reference:
        sentences.append(f"{exported.without_reference} left out that have no reference.")
    return " ".join(sentences)


def _errors_message(exported: annotation.ExportedErrors) -> str:
    accepted = f", {exported.suggested} of them accepted suggestions" if exported.suggested else ""
    left = f" {plural(exported.unfinished, 'unfinished text')} of an annotator left out." if exported.unfinished else ""
    marked = f"{plural(exported.errors, 'error')} in {plural(exported.rows, 'marked text')}"
    return f"Written: {marked}{accepted}, to {exported.table}.{left}"


def _training(command: str, reason: str, rows: int) -> str:
    if not command:
        return notice(f"Training is not possible: {reason}.", "plain")
    few = f"With fewer than {FEW_RATINGS} rated texts, expect only a small gain from training."
    return (
        '<h3>Train on it</h3><p class="tm-note">In a terminal. In a clone, <code>python train.py fit</code> does '
        f'the same as <code>textmover train</code>.</p><pre class="tm-command"><code>{escape(command)}</code>'
        f"</pre>{notice(few, 'plain') if rows < FEW_RATINGS else ''}"
    )


def _agreement_table(agreements: Sequence[annotation.CriterionAgreement], *, slider: bool) -> str:
    level: Level = "interval" if slider else "ordinal"
    two_annotators = all(one.statistics.annotators <= 2 for one in agreements)
    kappas = {"Cohen’s κ": "cohen", "κ, quadratic weights": "weighted"} if two_annotators else {"Fleiss’ κ": "fleiss"}
    rows = []
    for criterion, one, _ in agreements:
        numbers = [one.same, *([] if slider else (getattr(one, name) for name in kappas.values())), one.alpha[level]]
        numbers += [] if slider else [one.alpha["nominal"]]
        rows.append((criterion, one.annotators, one.items, *numbers))
    head = ["criterion", "annotators", "common texts", "same rating", *([] if slider else kappas)]
    head += [f"Krippendorff’s α, {level}", *([] if slider else ["α, nominal"])]
    note = "1 is perfect agreement, 0 what chance gives. "
    if slider:
        note += "κ compares categories and is left out on a slider. "
    elif not two_annotators:
        note += "Fleiss’ κ is over the texts that all have rated; α takes all that two have rated. "
    note += "A dash: not defined, as where all ratings are the same."
    return _table(head, rows, note=note)


def _both(pair: annotation.Pair | ErrorPair) -> str:
    return f"{pair.first} – {pair.second}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], *, texts: int = 1, note: str = "") -> str:
    """Return an HTML table with a note; its first ``texts`` columns are texts, the others numbers."""

    def line(cells: Sequence[object], tag: str) -> str:
        kinds = ["" if place < texts else ' class="tm-n"' for place in range(len(cells))]
        shown = (_number(one) if isinstance(one, float) else one for one in cells)
        return "".join(f'<{tag}{kind} dir="auto">{escape(one)}</{tag}>' for one, kind in zip(shown, kinds, strict=True))

    head_line, body = line(head, "th"), "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    table = f'<div class="tm-scroll"><table><thead><tr>{head_line}</tr></thead><tbody>{body}</tbody></table></div>'
    return table + (f'<p class="tm-note">{escape(note)}</p>' if note else "")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else fixed(value, 2).replace("-", "−")


FILES = Path(__file__).parent

FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
MONO = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
"""System fonts; others would have to be downloaded."""

EXAMPLE = (
    "The bridge was shut for two weeks after cracks had been found.",
    "The bridge was closed for eleven days after inspectors found cracks in two of its cables.",
)

FURTHER = 20  # most references in addition to the first


def build_page(session: Session, explorer: Explorer, annotator: str = "") -> gr.Blocks:
    """Build the page with all tabs."""
    with gr.Blocks(title="textmover", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(
            '<header class="tm-head"><h1>textmover</h1></header><div id="tm-lost" role="alert" hidden></div>'
            '<div id="tm-kept" role="alert" hidden></div>'
        )
        with gr.Tabs(elem_id="tm-tabs", selected="annotate" if session.files() else "explore"):
            with gr.Tab("Annotate", id="annotate"):
                annotate = AnnotateTab(session, annotator)
                annotate.wire(page)
            with gr.Tab("Agreement", id="agreement") as tab:
                _agreement(session, annotate, tab)
            with gr.Tab("Explore", id="explore"):
                _explore(explorer)
    return page


def page_options() -> dict[str, Any]:
    """Return theme, style and script of the page, without external resources."""
    script = "".join((FILES / name).read_text(encoding="utf-8") for name in ("marks.js", "script.js"))
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONTS, font_mono=MONO)
    theme.set(
        button_large_text_weight="550",
        button_large_text_size="15px",
        block_radius="10px",
        body_text_color_subdued="*neutral_500",
        block_info_text_color="*neutral_500",
    )
    head = f'<meta name="referrer" content="no-referrer"><script>{script}</script>'
    off = ("run_history", "show_error", "ssr_mode", "pwa", "mcp_server", "enable_monitoring")
    style = (FILES / "style.css").read_text(encoding="utf-8")
    return {"theme": theme, "css": style, "head": head, "footer_links": [], **dict.fromkeys(off, False)}


def _agreement(session: Session, annotate: AnnotateTab, tab: gr.Tab) -> None:
    """Lay out agreement and export, for the file being rated, or the chosen file before rating starts."""
    with gr.Column(elem_classes="tm-page"):
        tables = gr.HTML(elem_id="tm-agreement")
        refresh = gr.Button("Refresh", elem_id="tm-refresh", size="md")
        gr.HTML(
            '<h3 class="tm-title">Export</h3><p class="tm-note">A table, and a recipe to train on it, are '
            "written into the folder of the ratings.</p>"
        )
        standardise = gr.Checkbox(
            label="Standardise each annotator’s ratings first",
            info="Mean 0 and deviation 1, where some rate more strictly than others",
            elem_id="tm-standardise",
            visible=bool(session.criteria),
        )
        export = gr.Button("Export", variant="primary", elem_id="tm-export")
        written = gr.HTML(elem_id="tm-written")

    def shown(view: Callable[..., str]) -> Callable[..., str]:
        def run(rated: Any, chosen: Any, *given: Any) -> str:
            try:
                return view(session.project(rated or chosen), *given)
            except InputError as error:
                return notice(str(error))

        return run

    shared: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal"}
    files = [annotate.file, annotate.choice]
    gr.on([tab.select, refresh.click, annotate.choice.change], shown(agreement_view), files, tables, **shared)
    export.click(shown(export_view), [*files, standardise], written, **shared)


def _explore(explorer: Explorer) -> None:
    with gr.Row(elem_classes="tm-page", equal_height=False):
        with gr.Column(scale=2, min_width=320):
            text = gr.Textbox(label="Text", value=EXAMPLE[0], lines=3, max_lines=12, elem_id="tm-hypothesis")
            reference = gr.Textbox(label="Reference", value=EXAMPLE[1], lines=3, max_lines=12, elem_id="tm-reference")
            further = gr.Textbox(label="Further references, one a line", lines=1, max_lines=8, elem_id="tm-further")
            source = gr.Textbox(label="Source, for metrics that read it", lines=1, max_lines=12, elem_id="tm-source")
            metrics = gr.Dropdown(
                explorer.names, value=explorer.first, multiselect=True, label="Metrics", elem_id="tm-metrics"
            )
            score = gr.Button("Score", variant="primary", elem_id="tm-score")
        with gr.Column(scale=3, min_width=320):
            table = gr.HTML(
                '<p class="tm-note">Type two texts, choose metrics, and press Score.</p>', elem_id="tm-table"
            )
            explained = gr.Radio([], label="Alignment", visible=False, elem_id="tm-explained")
            drawing = gr.HTML(elem_id="tm-drawing")

    def references(first: Any, others: Any, source: Any) -> SourcedReferences:
        return SourcedReferences([first or "", *str(others or "").splitlines()[:FURTHER]], source)

    def run(text: Any, first: Any, others: Any, source: Any, chosen: Any) -> tuple[Any, Any, Any]:
        compared = references(first, others, source)
        try:
            rows = explorer.scores(text, compared, chosen or [])
        except InputError as error:
            return notice(str(error)), gr.update(visible=False), ""
        names = [row.name for row in rows if not row.failed]
        if not names:
            return score_table(rows), gr.update(visible=False), ""
        drawing_html = explorer.alignment(text, compared, names[0])
        return score_table(rows), gr.update(choices=names, value=names[0], visible=True), drawing_html

    def draw(text: Any, first: Any, others: Any, source: Any, metric: Any) -> str:
        return explorer.alignment(text, references(first, others, source), metric)

    texts = [text, reference, further, source]
    shared: dict[str, Any] = {"api_visibility": "private", "show_progress": "full"}
    score.click(run, [*texts, metrics], [table, explained, drawing], **shared)
    explained.input(draw, [*texts, explained], drawing, **shared)
