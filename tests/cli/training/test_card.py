"""What the card of an exported metric hands on of the cards that it was made from."""

from textmover.checkpoints.card import made_from
from textmover.checkpoints.loading import load_metric
from textmover.scoring import save_checkpoint

CARD = """---
library_name: textmover
---

# A metric

**These ratings are made up.**

A text with **bold words**.

## Data

* training files: mine.csv

## Agreement with the ratings on parts kept from training

| part | pearson |
|---|---|
| held-back | .5 |

## Adapter

Of rank 4.

## Recipe

```yaml
## not a heading
seed: 1 # **one**

**no notice**

```

## Configuration

layer: 1
"""


def test_data_agreement_recipe_and_notices_are_handed_on():
    found = made_from([("best.ckpt", CARD)])
    headings = [line for line in found.splitlines() if line.startswith("#")]
    assert headings == [
        "## Made from", "### Data", "### Agreement with the ratings on parts kept from training", "### Recipe",
        "## not a heading",
    ]  # fmt: skip
    assert "from the card of `best.ckpt`. Correlations are those of the source metrics" in found
    assert "\n\n**These ratings are made up.**\n\n### Data" in found
    for part in ("mine.csv", "| held-back | .5 |", "seed: 1"):
        assert part in found
    for part in ("rank 4", "layer: 1", "bold words"):
        assert part not in found
    assert found.count("**no notice**") == 1


def test_of_several_the_first_is_handed_on_with_the_notices_of_all():
    other = CARD.replace("mine.csv", "yours.csv").replace("made up", "secret")
    found = made_from([("a", CARD), ("b", other), ("c", CARD), ("d", "# d\n")])
    assert "the card of `a`, the first of `a`, `b`, `c`, `d`, with other data from the others' cards." in found
    assert found.count("**These ratings are made up.**") == found.count("**These ratings are secret.**") == 1
    assert found.count("mine.csv") == 1  # those of `c` are the same


def test_data_of_all_are_told_whatever_their_level():
    other = "# B\n\n## Configuration\n\nx\n" + made_from([("first", CARD.replace("mine.csv", "yours.csv"))])
    third = made_from([("b", other), ("c", CARD.replace("mine.csv", "theirs.csv"))])
    found = made_from([("a", CARD), ("b", other), ("third", third)])
    assert "### Data of `b`\n\n* training files: yours.csv" in found
    assert "### Data of `third`\n\n* training files: theirs.csv" in found
    assert (found.count("mine.csv"), found.count("yours.csv"), found.count("theirs.csv")) == (1, 1, 1)


def test_what_was_handed_on_is_handed_on_again():
    found = made_from([("second", "# B\n\n## Configuration\n\nx\n" + made_from([("first", CARD)]))])
    assert "### Made from" in found
    assert "#### Data\n\n* training files: mine.csv" in found
    assert found.count("**These ratings are made up.**") == 1


def test_nothing_told_is_nothing_handed_on_but_the_data_of_others():
    for card in ("", "# A title\n", "# A title\n\n## Configuration\n\nlayer: 1\n"):
        assert made_from([("a", card)]) == ""
    assert "### Data of `b`\n\n* training files: mine.csv" in made_from([("a", ""), ("b", CARD)])


def test_the_card_of_a_mixed_metric_keeps_what_its_sources_said(run, tmp_path, tiny_encoder):
    metric = load_metric("twmd", encoder=str(tiny_encoder), calibrate=True)
    for name in ("first", "second"):
        save_checkpoint(metric, tmp_path / name, card=CARD.replace("mine", name))
    assert run("export", "first", "out", "--average", "second", "--adapter", 2).code == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "### Data\n\n* training files: first.csv" in card
    assert "**These ratings are made up.**" in card
    assert "| held-back | .5 |" in card
    assert card.count("## Adapter") == 1
    assert card.count("rank 4") == 0
    assert card.index("## Made from") > card.index("## Configuration")
