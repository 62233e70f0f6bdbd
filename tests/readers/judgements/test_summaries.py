"""TAC: a JSON document of topics, as MoverScore's authors had it, gives one row per summary."""

import gzip
import json
from pathlib import Path

import pytest

from textmover.readers.judgements.tac_and_coco import read_tac
from textmover.types import InputError


def summary(system: str, *sentences: str, pyramid: object = 0.5, responsiveness: object = 3.0) -> dict:
    return {
        "text": list(sentences),
        "pyr_score": pyramid,
        "pyr_mod_score": 0.4,
        "responsiveness": responsiveness,
        "topic_id": "D1-A",
        "summ_id": system,
    }


def topics() -> dict:
    references = [{"text": ["One.", "Two."], "id": "D1.H"}, {"text": [], "id": "D1.I"}, {"text": ["Three."], "id": "J"}]
    return {
        "D1": {
            "references": references,
            "annotations": [summary("0", "A.", "B.", pyramid=0.25), summary("1", "A."), summary("2", "C.", "")],
        },
        "D2": {"references": references[:1], "annotations": [summary("0", "D.", "E.", responsiveness=1)]},
    }


def write(tmp_path: Path, content: object, name: str = "tac.08.mds.gen.resp-pyr") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(content))
    return path


def test_rows(tmp_path):
    found = read_tac(write(tmp_path, topics()))
    assert (found.name, len(found)) == ("tac.08.mds.gen.resp-pyr", 3)
    assert found.hypotheses == ("A. B.", "C. ", "D. E.")
    assert found.references == (("One. Two.", "Three."),) * 2 + (("One. Two.",),)
    assert found.groups == found.items == ("D1", "D1", "D2")
    assert found.systems == ("0", "2", "0")
    assert found.ratings["pyramid"].tolist() == [0.25, 0.5, 0.5]
    assert found.ratings["responsiveness"].tolist() == [3.0, 3.0, 1.0]
    assert found.left_out == {"fewer than 2 sentences": 1}


def test_short_summaries_can_stay(tmp_path):
    found = read_tac(write(tmp_path, topics()), minimum_sentences=0, name="TAC-2008")
    assert (found.name, len(found), found.left_out) == ("TAC-2008", 4, {})
    with pytest.raises(InputError, match="a summary of at least 9 sentences, but got none among 4"):
        read_tac(tmp_path / "tac.08.mds.gen.resp-pyr", minimum_sentences=9)


def test_compressed(tmp_path):
    path = tmp_path / "tac.json.gz"
    path.write_bytes(gzip.compress(json.dumps(topics()).encode()))
    assert len(read_tac(path)) == 3
    path.write_bytes(gzip.compress(json.dumps(topics()).encode())[:-20])
    with pytest.raises(InputError, match=r"able to read .*tac\.json\.gz"):
        read_tac(path)


GONE = object()
REFUSED = [
    ("D1 references", GONE, r"`references` of topic D1 of .*resp-pyr to be a list, but got nothing"),
    ("D1 annotations", {}, "`annotations` of topic D1 of .* to be a list, but got dict"),
    ("D2", [], "Expected topic D2 of .* to be an object, but got list"),
    ("D2 references", [{"text": []}], "a reference in topic D2 of .*, but got none"),
    ("D2 references", [], "Expected a reference in topic D2 of .*, but got none"),
    ("D2 annotations 0", "x", "annotation 1 of topic D2 of .* to be an object, but got str"),
    ("D2 annotations 0 text", "x", "`text` of annotation 1 of topic D2 .* to be a list"),
    ("D2 annotations 0 text", [1, 2], "sentence 1 of annotation 1 .* text, but got int"),
    ("D2 annotations 0 pyr_score", GONE, "`pyr_score` of annotation 1 of topic D2 .* got None"),
    (
        "D1 annotations 0 responsiveness",
        float("nan"),
        "`responsiveness` of annotation 1 of topic D1 of .* to be a finite number.*, but got nan",
    ),
    (
        "D1 annotations 2",
        summary("0", "X.", "Y."),
        "item 'D1', system '0', but got one in annotation 1 of topic D1 of .* and another in annotation 3 of",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_refused(tmp_path, path, value, message):
    content = place = topics()
    *way, last = (int(key) if key.isdigit() else key for key in path.split())
    for key in way:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(InputError, match=message):
        read_tac(write(tmp_path, content))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "to hold text, but it is empty"),
        ("{", r"to be JSON, but got '.*' in line 1: correct it"),
        ("[]", "to be an object, but got list"),
        ("{}", "to hold a summary of at least 2 sentences, but got none among 0"),
    ],
)
def test_other_documents(tmp_path, text, message):
    path = tmp_path / "tac"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_tac(path)
    with pytest.raises(InputError, match="Expected a file at"):
        read_tac(tmp_path / "none")
