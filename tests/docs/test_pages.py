"""Links of the documents lead somewhere, and options that they name exist."""

import argparse
import ast
import os
import re
import shlex
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from blocks import ROOT, Block, all_blocks, blocks_of, pages, without_blocks

from textmover.cli import main as command_line
from textmover.presets import PRESETS

PAGES = {page.relative_to(ROOT).as_posix(): page for page in pages()}
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
HTML_LINK = re.compile(r"(?:src|srcset|href)=\"([^\"]+)\"")


def prose(page: Path) -> str:
    return without_blocks(page.read_text(encoding="utf-8"))


# --- links ------------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub and the site make it."""
    found: dict[str, int] = {}
    text = prose(page)
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        number = found.setdefault(name, -1) + 1
        found[name] = number
        if number:
            found[f"{name}-{number}"] = 0
    return set(found) | set(re.findall(r"(?:id|name)=\"([\w-]+)\"", text))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", prose(PAGES[page]))
    broken = []
    for target in LINK.findall(text) + HTML_LINK.findall(text):
        address, _, anchor = unquote(target.split(" ")[0]).partition("#")
        if re.match(r"[a-z]+:", address):
            continue
        path = (PAGES[page].parent / address) if address else PAGES[page]
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


TURNS = re.compile(
    r"\b(is told|told of|what is told|says of|as the page has it|(?<!\"run )anew|(?<!there )is no(?! longer)|to be had|"
    r"what there is to know|the others'|by themselves|for the worse|as people give them|a make|"
    r"values that are no numbers|ready scores|given texts)\b",
    re.IGNORECASE,
)
"""Turns that have to be read twice."""


def test_no_sentence_has_to_be_read_twice():
    places = ("src", "docs", "examples", "configs", "checkpoints", "benchmarks")
    texts = [path for place in places for path in (ROOT / place).rglob("*.*")] + [*ROOT.glob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}: {turn[0]}"
        for path in texts
        if path.suffix in (".py", ".md", ".txt", ".yaml", ".js", ".html", ".j2")
        for turn in TURNS.finditer(" ".join(path.read_text(encoding="utf-8").split()))
    ]
    assert found == []


OPENINGS = re.compile(r"(?:^|(?<=[.!:;] )|(?<=[*-] ))(?:What|Of) [a-z][^.?|]*[.|]", re.MULTILINE)
"""Statements that begin with their object."""


def test_no_statement_of_a_page_begins_with_what_or_of():
    texts = [*(one for place in ("docs", "checkpoints") for one in (ROOT / place).rglob("*.md")), *ROOT.glob("*.md")]
    texts += (ROOT / "configs").rglob("*.yaml")
    found = [
        f"{path.relative_to(ROOT)}: {one[0]}"
        for path in texts
        for one in OPENINGS.finditer(re.sub(r"(?<!\n)\n *(?![\n*|#-])", " ", path.read_text(encoding="utf-8")))
    ]
    assert found == []


MOST_WORDS = 45_000


def test_documents_are_short():
    """Words as ``wc -w`` counts them, bars of tables too."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS


def test_every_page_is_reached():
    """From the README or the page that the site begins with."""
    reached, waiting = set(), [ROOT / "README.md", ROOT / "docs" / "index.md", *(ROOT / "examples").rglob("README.md")]
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8") if (ROOT / "mkdocs.yml").exists() else ""
    waiting += [ROOT / "docs" / name for name in re.findall(r"[\w./-]+\.md", site)]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        text = page.read_text(encoding="utf-8")
        names = [unquote(one.partition("#")[0]) for one in LINK.findall(text)]
        names += [os.path.relpath(ROOT / one, page.parent) for one in re.findall(r"docs/[\w./-]+\.md", text)]
        waiting += [page.parent / name for name in names if name and ":" not in name]
    assert [name for name, page in PAGES.items() if page.resolve() not in reached] == []


# --- options ----------------------------------------------------------------------------------------------------------


@cache
def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command, of its own arguments."""
    whole = command_line._parser(command)
    (commands,) = (one for one in whole._actions if isinstance(one, argparse._SubParsersAction))
    return commands.choices[command]


@cache
def options_of(command: str) -> frozenset[str]:
    return frozenset(parser_of(command)._option_string_actions)


def commands_of(text: str) -> list[list[str]]:
    """Every call of ours in a shell script, beginning with the name of the command."""
    found = []
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split, lexer.commenters = True, "#"
        call: list[str] = []
        for word in [*lexer, ";"]:
            if word and set(word) <= set("|&;<>"):
                found += [call]
                call = []
            else:
                call.append(word)
    ours = []
    for call in found:
        words = [word for word in call if not re.fullmatch(r"[A-Z_]+=\S*", word)]
        for name, rest in (("textmover", 1), ("evaluate.py", 1), ("train.py", 1)):
            if name in words:
                words = words[words.index(name) + rest :]
                ours.append({"evaluate.py": ["evaluate"], "train.py": ["train"]}.get(name, []) + words)
                break
    return ours


def shell_text(block: Block) -> str:
    """A shell script, or the lines of a text that are commands."""
    if block.language in ("bash", "sh"):
        return block.text
    return "\n".join(re.findall(r"^(?:textmover|python evaluate\.py) .*", block.text, re.MULTILINE))


def parsed(command: str, arguments: list[str]) -> argparse.Namespace | object:
    """The options of a command, or the code that it exits with."""
    try:
        return command_line._parser(command).parse_args([command, *arguments])
    except SystemExit as stop:
        return stop.code


@pytest.mark.parametrize("page", all_blocks())
def test_commands_of_blocks_are_understood(page, capsys):
    """Also those that are not run, such as the ones that results were made with."""
    for block in all_blocks()[page]:
        for command, *arguments in commands_of(shell_text(block)):
            if command == "train":
                recipes = [value for option, value in pairwise(arguments) if option == "--config"]
                ours = [one for one in recipes if one.startswith(("configs/", "examples/"))]
                assert [one for one in ours if not (ROOT / one).is_file()] == []
            elif not command.startswith("-"):
                assert command in command_line.COMMANDS
                options = parsed(command, arguments)
                assert isinstance(options, argparse.Namespace) or options == 0, f"{block}: {capsys.readouterr().err}"
                experiment = getattr(options, "experiment", None)
                assert experiment is None or (ROOT / experiment).is_file()


SCRIPT = r"python ((?:benchmarks|examples)/[\w/]+\.py)((?:[^\n#\\]|\\\n)*)"


def options_of_script(source):
    """Options that are written as such, and those that benchmarks declare as arguments or keys (harness.parser)."""
    found = set(re.findall(r'"(--[\w-]+)"', source))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("parser", "add_options")):
            found |= {f"--{one.arg.replace('_', '-')}" for one in node.keywords if one.arg}
        if isinstance(node, ast.Dict):
            names = (one.value for one in node.keys if isinstance(one, ast.Constant))
            found |= {f"--{name.replace('_', '-')}" for name in names if isinstance(name, str)}
    return found


def test_options_of_scripts_are_in_them():
    wrong = []
    for blocks in all_blocks().values():
        for block in blocks:
            for script, rest in re.findall(SCRIPT, block.text):
                known = options_of_script((ROOT / script).read_text(encoding="utf-8"))
                wrong += [f"{block}: {one}" for one in re.findall(r"--[\w-]+", rest) if one not in known]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_options_in_the_prose_exist(page):
    """In code spans: those behind `textmover COMMAND`, and for a span with options alone, those of any command."""
    text, wrong = prose(PAGES[page]), []
    for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        words = span.replace("…", " ").split()
        command = words[1] if len(words) > 1 and words[0] == "textmover" else None
        if command in ("train", None) and not span.startswith("--"):
            continue
        if command is not None and not command.startswith("-") and command not in command_line.COMMANDS:
            if re.fullmatch(r"[a-z-]+", command) and command not in PRESETS:
                wrong.append(span)
            continue
        known = options_of(command) if command in command_line.COMMANDS else options_of_all()
        given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        known |= OTHERS | options_of_scripts()
        wrong += [f"{one} in {span}" for one in given if "." not in one and one not in known]
    assert wrong == []


@cache
def options_of_all() -> frozenset[str]:
    """Options of any command but the one whose options Lightning makes."""
    return frozenset().union(*(options_of(name) for name in command_line.COMMANDS if name != "train"))


@cache
def options_of_scripts() -> frozenset[str]:
    sources = [one.read_text(encoding="utf-8") for one in (ROOT / "benchmarks").glob("*.py")]
    return frozenset().union(*map(options_of_script, sources))


OTHERS = {"--config", "--seed_everything", "--ckpt_path", "--print_config", "--adapter", "--help", "--version"}
"""Of Lightning's command line, and of all."""


def test_the_checks_see_what_is_wrong(tmp_path):
    text = "# A b\n[x](no.md) `textmover score --none`\n\n```bash\na | textmover score -i x \\\n  y --z  # --w\n```\n"
    assert blocks_of(text, "x")[0].language == "bash"
    assert commands_of(blocks_of(text, "x")[0].text) == [["score", "-i", "x", "y", "--z"]]
    assert "textmover score -i" not in without_blocks(text)
    page = tmp_path / "page.md"
    page.write_text(text)
    assert anchors(page) == {"a-b"}
    with pytest.raises(ValueError, match="the end of the block"):
        blocks_of("```bash\nls\n", "x")
    with pytest.raises(ValueError, match="'no run'"):
        blocks_of("<!-- no run: why -->\n```bash\nls\n```\n", "x")
    assert "--z" not in options_of("score")
