"""The page: what :mod:`~textmover.app.annotation_session`, ``explorer`` and ``review`` know, in Gradio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from textmover.app.annotate_tab import AnnotateTab
from textmover.app.annotation_session import Desk
from textmover.app.explorer import Explorer, score_table
from textmover.app.html import notice
from textmover.app.review import agreement_view, export_view
from textmover.types import InputError, SourcedReferences

FILES = Path(__file__).parent

FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
MONO = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
"""Fonts of the system: others would have to be fetched from elsewhere."""

EXAMPLE = (
    "The bridge was shut for two weeks after cracks had been found.",
    "The bridge was closed for eleven days after inspectors found cracks in two of its cables.",
)

FURTHER = 20
"""Most references beside the first."""


def build_page(desk: Desk, explorer: Explorer, annotator: str = "") -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="textmover", analytics_enabled=False, fill_width=True) as page:
        gr.HTML('<header class="tm-head"><h1>textmover</h1></header><div id="tm-lost" role="alert" hidden></div>')
        with gr.Tabs(elem_id="tm-tabs", selected="annotate" if desk.files() else "explore"):
            with gr.Tab("Annotate", id="annotate"):
                annotate = AnnotateTab(desk, annotator)
                annotate.wire(page)
            with gr.Tab("Agreement", id="agreement") as tab:
                _agreement(desk, annotate, tab)
            with gr.Tab("Explore", id="explore"):
                _explore(explorer)
    return page


def page_options() -> dict[str, Any]:
    """Theme, style and script of the page, with nothing that comes from elsewhere."""
    script = "".join((FILES / name).read_text(encoding="utf-8") for name in ("marks.js", "script.js"))
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONTS, font_mono=MONO)
    theme.set(
        button_large_text_weight="550",
        button_large_text_size="15px",
        block_radius="10px",
        body_text_color_subdued="*neutral_500",
        block_info_text_color="*neutral_500",
    )
    return {
        "theme": theme,
        "css": (FILES / "style.css").read_text(encoding="utf-8"),
        "head": f'<meta name="referrer" content="no-referrer"><script>{script}</script>',
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "ssr_mode": False,
        "pwa": False,
        "mcp_server": False,
        "enable_monitoring": False,
    }


def _agreement(desk: Desk, annotate: AnnotateTab, tab: gr.Tab) -> None:
    """The tab of agreement and export: of the file that is rated, and before that of the one that is chosen."""
    with gr.Column(elem_classes="tm-page"):
        tables = gr.HTML(elem_id="tm-agreement")
        refresh = gr.Button("Refresh", elem_id="tm-refresh", size="md")
        gr.HTML('<h3 class="tm-title">Export</h3><p class="tm-note">A table, and a recipe to train on it, are '
                "written into the folder of the ratings.</p>")  # fmt: skip
        standardise = gr.Checkbox(
            label="Standardise each annotator’s ratings first",
            info="Mean 0 and deviation 1, where some rate more strictly than others",
            elem_id="tm-standardise",
            visible=bool(desk.criteria),
        )
        export = gr.Button("Export", variant="primary", elem_id="tm-export")
        written = gr.HTML(elem_id="tm-written")

    def agree(rated: Any, chosen: Any) -> str:
        try:
            return agreement_view(desk.project(rated or chosen))
        except InputError as error:
            return notice(str(error))

    def write(rated: Any, chosen: Any, standardised: Any) -> str:
        try:
            return export_view(desk.project(rated or chosen), standardise=bool(standardised))
        except InputError as error:
            return notice(str(error))

    shared: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal"}
    files = [annotate.file, annotate.choice]
    gr.on([tab.select, refresh.click, annotate.choice.change], agree, files, tables, **shared)
    export.click(write, [*files, standardise], written, **shared)


def _explore(explorer: Explorer) -> None:
    """The tab in which texts are typed and scored."""
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
        try:
            rows = explorer.scores(text, references(first, others, source), chosen or [])
        except InputError as error:
            return notice(str(error)), gr.update(visible=False), ""
        names = [row.name for row in rows if not row.failed]
        if not names:
            return score_table(rows), gr.update(visible=False), ""
        drawn = explorer.alignment(text, references(first, others, source), names[0])
        return score_table(rows), gr.update(choices=names, value=names[0], visible=True), drawn

    def draw(text: Any, first: Any, others: Any, source: Any, metric: Any) -> str:
        return explorer.alignment(text, references(first, others, source), metric)

    texts = [text, reference, further, source]
    shared: dict[str, Any] = {"api_visibility": "private", "show_progress": "full"}
    score.click(run, [*texts, metrics], [table, explained, drawing], **shared)
    explained.input(draw, [*texts, explained], drawing, **shared)
