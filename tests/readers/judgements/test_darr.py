"""DARR: preferences and a folder of outputs, of the shape of WMT18 and WMT19, make rows and pairs of rows."""

from pathlib import Path

import numpy as np
import pytest
from tests.readers.shared import write_lines

from textmover.readers.judgements.darr import read_darr
from textmover.types import InputError

HEADER = "LP DATA SID BETTER WORSE"
LINES = (
    "de-en newstest2018 2 A.1 B.2",
    "de-en newstest2018 2 C.3 A.1",
    "de-en newstest2018 3 A.1 C.3",
    "en-zh newstest2018 1 D.4 A.1",
)
OUTPUTS = {
    "de-en": {"A.1": ["a1", "a2", "a3"], "B.2": ["b1", "b2", "b3"], "C.3": ["c1", "", "c3"]},
    "en-zh": {"D.4": ["d1", "d2"], "A.1": ["e1", "e2"]},
}


def folder(tmp_path: Path, *, test_set: str = "newstest2018", sources: bool = False, nested: bool = True) -> Path:
    root = tmp_path / "texts"
    for kind in ("references", "sources")[: 1 + sources]:
        (root / kind).mkdir(parents=True, exist_ok=True)
    for pair, systems in OUTPUTS.items():
        source, target = pair.split("-")
        place = root / "system-outputs" / (test_set if nested else "") / pair
        place.mkdir(parents=True, exist_ok=True)
        count = len(next(iter(systems.values())))
        for system, lines in systems.items():
            write_lines(place / f"{test_set}.{system}.{pair}", *lines)
        ends = {"references": f"ref.{target}", "sources": f"src.{source}"}
        for kind, end in list(ends.items())[: 1 + sources]:
            path = root / kind / f"{test_set}-{source}{target}-{end}"
            write_lines(path, *(f"{end[:3]} {pair} {number}" for number in range(1, count + 1)))
    return root


def rankings(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    return write_lines(tmp_path / "RR-seglevel.csv", header, *lines)


def pairs_of_texts(judgements) -> list[tuple[str, str]]:
    return [(judgements.hypotheses[better], judgements.hypotheses[worse]) for better, worse in judgements.preferences]


class TestRows:
    # The header of WMT18 lacks the name of one column.
    @pytest.mark.parametrize("header", [HEADER, "LP SID BETTER WORSE"])
    @pytest.mark.parametrize("nested", [True, False])
    def test_each_translation_once(self, tmp_path, header, nested):
        found = read_darr(rankings(tmp_path, *LINES, header=header), folder(tmp_path, nested=nested))
        assert found.name == "newstest2018"
        assert list(zip(found.groups, found.items, found.systems, found.hypotheses, strict=True)) == [
            ("de-en", "2", "A.1", "a2"),
            ("de-en", "2", "B.2", "b2"),
            ("de-en", "2", "C.3", ""),
            ("de-en", "3", "A.1", "a3"),
            ("de-en", "3", "C.3", "c3"),
            ("en-zh", "1", "D.4", "d1"),
            ("en-zh", "1", "A.1", "e1"),
        ]
        assert found.references[0] == ("ref de-en 2",)
        assert found.references[-1] == ("ref en-zh 1",)
        assert pairs_of_texts(found) == [("a2", "b2"), ("", "a2"), ("a3", "c3"), ("d1", "e1")]
        assert found.preferences.dtype == np.int64
        assert (dict(found.ratings), found.sources, found.left_out) == ({}, None, {})

    def test_language_pairs(self, tmp_path):
        path = rankings(tmp_path, *LINES)
        found = read_darr(path, folder(tmp_path), language_pairs=["en-zh"], name="WMT18")
        assert (found.name, set(found.groups), pairs_of_texts(found)) == ("WMT18", {"en-zh"}, [("d1", "e1")])
        assert found.left_out == {"language pair not asked for": 3}
        with pytest.raises(InputError, match=r"among 'de-en', 'en-zh' of .*RR-seglevel\.csv, but got 'fr-en': choose"):
            read_darr(path, tmp_path / "texts", language_pairs={"en-zh", "fr-en"})

    def test_the_same_preference_again(self, tmp_path):
        contrary = "de-en newstest2018 2 B.2 A.1"
        found = read_darr(rankings(tmp_path, LINES[0], LINES[0], contrary, LINES[0]), folder(tmp_path))
        assert found.left_out == {"the same preference again": 2}
        assert pairs_of_texts(found) == [("a2", "b2"), ("b2", "a2")]

    def test_sources(self, tmp_path):
        found = read_darr(rankings(tmp_path, *LINES), folder(tmp_path, sources=True))
        assert found.sources[:2] == ("src de-en 2",) * 2
        assert found.sources[-1] == "src en-zh 1"

    def test_pair_in_the_name_of_the_system(self, tmp_path):
        root = folder(tmp_path, test_set="newstest2019")
        path = rankings(tmp_path, "de-en newstest2019 1 A.1.de-en B.2.de-en")
        found = read_darr(path, root)
        assert (found.systems, found.hypotheses) == (("A.1", "B.2"), ("a1", "b1"))

    def test_two_test_sets(self, tmp_path):
        folder(tmp_path)
        root = folder(tmp_path, test_set="newstest2019")
        path = rankings(tmp_path, LINES[0], LINES[0].replace("2018", "2019"))
        found = read_darr(path, root)
        assert found.name == "newstest2018 newstest2019"
        assert found.items == ("newstest2018 / 2",) * 2 + ("newstest2019 / 2",) * 2


class TestRefused:
    @pytest.mark.parametrize(
        ("header", "line", "message"),
        [
            *(
                (HEADER, line, r"sentence number from 1 in line 2 of .*RR-seglevel\.csv, but got '")
                for line in ("2 A.1", "2 A.1 B.2 30", "0 A.1 B.2", "x A.1 B.2")
            ),
            (HEADER, "2 A.1 A.1", "Expected two systems in line 2"),
            (LINES[0], "2 A.1 B.2", r"header LP DATA SID BETTER WORSE in line 1 of .*, but got 'de-en"),
        ],
    )
    def test_lines(self, tmp_path, header, line, message):
        with pytest.raises(InputError, match=message):
            read_darr(rankings(tmp_path, f"de-en newstest2018 {line}", LINES[0], header=header), folder(tmp_path))

    def test_other_lines(self, tmp_path):
        texts = folder(tmp_path)
        for lines, message in (
            (("", LINES[0]), "sentence number from 1 in line 2"),
            (("deen newstest2018 2 A.1 B.2",), "Expected a language pair such as de-en in line 2"),
            ((), "to hold a preference, but got none"),
        ):
            with pytest.raises(InputError, match=message):
                read_darr(rankings(tmp_path, *lines), texts)
        assert len(read_darr(rankings(tmp_path, LINES[0], "", ""), texts)) == 2

    def test_missing_output(self, tmp_path):
        path = rankings(tmp_path, LINES[0], "de-en newstest2018 1 A.1 E.5")
        message = r"output of 'E\.5' \(line 3 of .*RR-seglevel\.csv\) at .*newstest2018\.E\.5\.de-en, but there is none"
        with pytest.raises(InputError, match=message):
            read_darr(path, folder(tmp_path))

    def test_missing_references(self, tmp_path):
        root = folder(tmp_path)
        reference = root / "references" / "newstest2018-deen-ref.en"
        reference.write_text("one\n\nthree\n")
        with pytest.raises(InputError, match=r"reference in line 2 of .*newstest2018-deen-ref\.en, but got an empty"):
            read_darr(rankings(tmp_path, *LINES), root)
        reference.unlink()
        with pytest.raises(InputError, match=r"Expected a file at .*newstest2018-deen-ref\.en"):
            read_darr(rankings(tmp_path, *LINES), root)

    def test_numbers_of_lines(self, tmp_path):
        root = folder(tmp_path, sources=True)
        path = rankings(tmp_path, *LINES)
        with pytest.raises(InputError, match=r"sentence 4 of line 2 of .* in .*A\.1\.de-en, but got 3 lines"):
            read_darr(rankings(tmp_path, "de-en newstest2018 4 A.1 B.2"), root)
        path = rankings(tmp_path, *LINES)
        (root / "sources" / "newstest2018-deen-src.de").write_text("one\n")
        with pytest.raises(InputError, match=r"same number of lines in each file, but got 3 .*, 1 in .*deen-src\.de"):
            read_darr(path, root)
        (root / "references" / "newstest2018-deen-ref.en").write_text("one\ntwo\n")
        with pytest.raises(InputError, match=r"but got 3 in .*A\.1\.de-en, 2 in .*deen-ref\.en"):
            read_darr(path, root)
