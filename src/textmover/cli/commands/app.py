"""``textmover app``: score, explain and rate texts in the browser."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import webbrowser
from pathlib import Path

from textmover.annotation import ItemColumns, Scale, clean_name, parse_criteria
from textmover.app.annotation_session import Session, Suggestions
from textmover.types import InputError, needs_extra


def run(options: argparse.Namespace) -> None:
    """Serve the page until it is interrupted."""
    session = _open_session(options)
    with needs_extra("app", "Gradio for the page"):
        import gradio  # noqa: F401
    from textmover.app import server
    from textmover.app.interface import build_page, page_options
    from textmover.app.score_tab import Explorer

    session.suggestions.load()
    explorer = Explorer(options.model, options.device)
    with server.listen(options.host, options.port) as listening, server.private_temporary_folder():
        explorer.load()  # report errors before opening the browser
        loopback = server.is_loopback(options.host)
        named = not loopback or options.allow_host
        names = server.names_of_this_computer(options.host, options.allow_host) if named else None
        logging.getLogger("httpx").setLevel(logging.WARNING)
        page = build_page(session, explorer, options.annotator)
        application = server.make_application(page, page_options(), names=names)
        if not loopback:
            sys.stderr.write(
                f"Warning: everyone who reaches {options.host} over the network can read these texts and rate them "
                "under any name. Leave out --host to keep it to this computer.\n"
            )
        url = server.url_of(listening)
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the usual end
            server.serve(application, listening, lambda: _announce(url, session, options))
    if not options.quiet:
        sys.stderr.write("Stopped; all ratings are saved.\n")


def _open_session(options: argparse.Namespace) -> Session:
    if options.errors == "only" and options.criteria:
        raise InputError("Expected `--errors only` or `--criteria`, but got both: `--errors also` asks for both.")
    criteria = None if options.criteria is None else parse_criteria(options.criteria)
    folder = Path(options.folder)
    if not folder.is_dir():
        raise InputError(f"Expected a folder, but got {folder}: make it, and put the texts to rate into it.")
    if options.annotator:
        options.annotator = clean_name(options.annotator)
    session = Session(
        folder,
        None if options.items is None else _path_in_folder(folder, options.items),
        criteria=() if options.errors == "only" else criteria,
        scale=None if options.scale is None else Scale.parse(options.scale),
        columns=ItemColumns(options.hypothesis_column or "hypothesis", tuple(options.reference_column or ())),
        errors=True if options.errors else None,
        suggestions=Suggestions(options.suggest, options.device),
    )
    if options.suggest and not session.errors:
        raise InputError("Expected `--errors also` or `--errors only` with `--suggest`, but got neither: add one.")
    if len(session.files()) == 1:
        session.project(session.files()[0])  # report errors before opening the browser
    return session


def _path_in_folder(folder: Path, items: str) -> str:
    """Return a file, given relative to the folder or the working directory, as a path relative to the folder."""
    for path in (folder / items, Path(items)):
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            return path.resolve().relative_to(folder.resolve()).as_posix()
    if Path(items).is_file():
        raise InputError(
            f"Expected `--items` to lie in {folder}, outside of which nothing is read, but got {items}: name its "
            "folder in place of this one, or copy it there."
        )
    raise InputError(f"Expected a file of texts at {items}, but there is none in {folder}: correct the name.")


def _announce(url: str, session: Session, options: argparse.Namespace) -> None:
    if options.quiet:
        sys.stdout.write(f"{url}\n")
    else:
        texts = ", ".join(session.files()) or "none yet"
        sys.stdout.write(f"{url}\nTexts to rate in {session.folder}: {texts}. Stop with Ctrl-C.\n")
    sys.stdout.flush()
    if not options.no_browser:
        webbrowser.open(url)
