"""COCO: captions of each system carry what people thought of the system."""

import json
from pathlib import Path

import pytest

from textmover.readers.judgements.tac_and_coco import read_coco_captions
from textmover.types import InputError

RESULTS = "captions_val2014_best_results.json"
CAPTIONS = {
    "karpathy": [{"image_id": 7, "caption": "a dog"}, {"image_id": 9, "caption": "a cat"}],
    "Q.Wu": [{"image_id": 9, "caption": "two cats"}, {"image_id": 7, "caption": ""}],
}
ANNOTATIONS = [
    {"image_id": 7, "id": 1, "caption": "the dog"},
    {"image_id": 9, "id": 2, "caption": "the cat"},
    {"image_id": 7, "id": 3, "caption": "some dog"},
    {"image_id": 7, "id": 4, "caption": ""},
]


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    systems = tmp_path / "systems"
    for system, captions in CAPTIONS.items():
        (systems / system).mkdir(parents=True)
        (systems / system / RESULTS).write_text(json.dumps(captions))
        (systems / system / "captions_val2014_best_evalimgs.json").write_text("[]")
    (systems / "human").mkdir()
    references = tmp_path / "captions_val2014.json"
    references.write_text(json.dumps({"images": [], "annotations": ANNOTATIONS}))
    ratings = tmp_path / "leaderboard.csv"
    ratings.write_text("system,M1,M2,M3\nkarpathy,0.166,0.192,4\nQ.Wu,0.213,0.233,5\n")
    return {"captions": systems, "references": references, "ratings": ratings}


def test_rows(files):
    found = read_coco_captions(**files)
    assert found.name == "COCO captions"
    assert list(zip(found.systems, found.items, found.hypotheses, found.references, strict=True)) == [
        ("Q.Wu", "9", "two cats", ("the cat",)),
        ("Q.Wu", "7", "", ("the dog", "some dog")),
        ("karpathy", "7", "a dog", ("the dog", "some dog")),
        ("karpathy", "9", "a cat", ("the cat",)),
    ]
    assert {name: values.tolist() for name, values in found.ratings.items()} == {
        "M1": [0.213, 0.213, 0.166, 0.166],
        "M2": [0.233, 0.233, 0.192, 0.192],
    }
    assert (set(found.groups), found.left_out) == ({"all"}, {})


def test_images_and_dimensions(files):
    found = read_coco_captions(**files, dimensions=["M3"], images=[9], name="COCO")
    assert (found.name, found.items, list(found.ratings)) == ("COCO", ("9", "9"), ["M3"])
    assert found.left_out == {"image not asked for": 2}
    with pytest.raises(InputError, match="to hold a caption to read, but got none"):
        read_coco_captions(**files, images=[1])
    with pytest.raises(InputError, match="Expected `dimensions` to name columns"):
        read_coco_captions(**files, dimensions=[])


def test_system_that_nobody_rated(files):
    files["ratings"].write_text("name,M1,M2\nkarpathy,1,2\n")
    found = read_coco_captions(**files, system="name")
    assert set(found.systems) == {"karpathy"}
    assert found.left_out == {"system without a human rating": 2}


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ("M1,M2|karpathy,1,2|Google,1,2|", r"system of .*leaderboard\.csv, but got none for 'Google': .*'karpathy'"),
        ("M1,M2|karpathy,1,2|Q.Wu,1,2|karpathy,1,3|", r"one row for system 'karpathy' in .*, but got lines 2 and 4"),
        ("M1,M2|karpathy,1,2|Q.Wu,1,|", r"number.* in column 'M2' of .*leaderboard\.csv, line 3, but got ''"),
        ("M1|karpathy,1|", r"Expected a column 'M2' in .*set `dimensions`"),
    ],
)
def test_ratings_refused(files, ratings, message):
    files["ratings"].write_text("system," + ratings.replace("|", "\n"))
    with pytest.raises(InputError, match=message):
        read_coco_captions(**files)


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        ([{"image_id": 7, "caption": "a"}] * 2, r"caption of image 7 in .*results\.json, but got another in entry 2"),
        (
            [{"image_id": 8, "caption": "a"}],
            r"references of image 8 of .*results\.json in .*val2014\.json, but got none",
        ),
        ([{"image_id": "7", "caption": "a"}], r"`image_id` of entry 1 of .* to be a whole number, but got str"),
        ([{"image_id": True, "caption": "a"}], r"`image_id` of entry 1 of .* to be a whole number, but got bool"),
        ([{"image_id": 7}], r"`caption` of entry 1 of .* to be a text, but got nothing"),
        ({}, r"results\.json to be a list, but got dict"),
    ],
)
def test_captions_refused(files, captions, message):
    (files["captions"] / "karpathy" / RESULTS).write_text(json.dumps(captions))
    with pytest.raises(InputError, match=message):
        read_coco_captions(**files)


def test_folders_refused(files, tmp_path):
    (files["captions"] / "karpathy" / "captions_val2014_b_results.json").write_text("[]")
    with pytest.raises(InputError, match=r"Expected one captions_val2014\*_results\.json in .*karpathy, but got 'capt"):
        read_coco_captions(**files)
    with pytest.raises(InputError, match="Expected a folder of systems at"):
        read_coco_captions(**files | {"captions": tmp_path / "none"})
    files["references"].write_text('{"annotations": [{"image_id": 7}]}')
    (files["captions"] / "karpathy" / "captions_val2014_b_results.json").unlink()
    with pytest.raises(InputError, match=r"`caption` of annotation 1 of .*captions_val2014\.json to be a text"):
        read_coco_captions(**files)
