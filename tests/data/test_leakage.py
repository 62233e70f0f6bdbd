"""Items that were kept from training share neither prompts nor near-duplicates with it, or that is said."""

import logging
import random

import pytest

from data_files import write_table
from textmover.data import Columns, PairFile, RatingsDataModule
from textmover.data.leakage import compared_text, near_duplicates, segment_pairs, shared_with_training, without_files
from textmover.data.split import split_held_back
from textmover.types import Segment

NOUNS = "river mountain letter candle window garden silver engine carpet bottle planet forest hammer ribbon"
WORDS = NOUNS.split(" ")


def sentences(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(f"{rng.choice(WORDS)}{rng.randrange(1000)}" for _ in range(8)) for _ in range(n)]


def chat(n: int = 60) -> list[Segment]:
    """Answers to ten prompts, each with a reference of its own."""
    return [
        Segment(
            text, (text,), score=float(row), source=f"Prompt {row % 10}", groups={"prompt": str(row % 10), "lp": "x"}
        )
        for row, text in enumerate(sentences(n))
    ]


def test_a_chatbot_table_shares_all_prompts_unless_it_is_split_by_them():
    segments = chat()
    training, kept = split_held_back(segments, 0.25)
    assert shared_with_training(training, kept) == dict.fromkeys(("their source", "their `prompt`"), (len(kept),) * 2)
    parts = [[one for one in segments if (one.groups["prompt"] < "7") is side] for side in (True, False)]
    assert shared_with_training(*parts) == {}


@pytest.mark.parametrize(("name", "shared"), [("prompt", True), ("doc_id", True), ("lp", False), ("domain", False)])
def test_groups_of_many_references_are_those_of_prompts_by_their_name(name, shared):
    """As in a table of ten prompts with a hundred answers each."""
    segments = [Segment(text, (text,), groups={name: str(row % 10)}) for row, text in enumerate(sentences(1000))]
    training, kept = split_held_back(segments, 0.15)
    assert shared_with_training(training, kept) == ({f"their `{name}`": (len(kept),) * 2} if shared else {})


@pytest.mark.parametrize("name", ["prompt", "sitting"])
def test_a_reference_under_two_values_hides_nothing(name):
    """As in a table of 100 prompts with four references each, of which one is that of another prompt too."""
    texts = sentences(400)
    segments = [Segment(text, (text,), groups={name: str(row % 100)}) for row, text in enumerate(texts)]
    segments.append(Segment(texts[0], (texts[0],), groups={name: "1"}))
    training, kept = split_held_back(segments, 0.25)
    ((said, (_, of)),) = shared_with_training(training, kept).items()
    assert (said, of) == (f"their `{name}`", len(kept))


@pytest.mark.parametrize(
    ("header", "cell", "compared", "seen"),
    [
        *((name, "Tell {}", "reference", True) for name in ("prompt", "system_prompt", "Question", "doc_id", "source")),
        ("doc", "{}", "source", True),  # of sources without references
        *(("source", cell, "reference", False) for cell in ("Satz {}{}", "")),  # of their own
    ],
)
def test_a_prompt_that_the_recipe_does_not_read_is_seen(header, cell, compared, seen, tmp_path, caplog):
    rows = (f"{cell.format(row % 10, row // 10)}\ta {row}\t{text}\t{row}" for row, text in enumerate(sentences(300)))
    path = write_table(tmp_path / "chat.tsv", f"{header}\thypothesis\t{compared}\tscore", rows)
    columns = Columns() if compared == "reference" else Columns(references=(), source="source")
    with caplog.at_level(logging.WARNING):
        RatingsDataModule([path], columns=columns).setup()
    said = [one.getMessage().partition(": ")[0] for one in caplog.records]
    assert len(said) == seen
    assert all(f"share their `{header}` with items to train on" in one for one in said)


def test_systems_and_language_pairs_are_meant_to_be_shared():
    """A reference has texts of several systems, and a language pair has many references."""
    segments = [
        Segment(f"{text} {system}", (text,), groups={"system": system, "lp": "de-en"})
        for text in sentences(40)
        for system in ("a", "b")
    ]
    assert shared_with_training(*split_held_back(segments, 0.25)) == {}


@pytest.mark.parametrize(
    ("known", "text", "alike"),
    [
        ("The cat sat on the old mat.", "the cat sat  on the old mat", True),
        ("The cat sat on the old red mat at noon.", "The cat sat on the old red mat at night.", True),
        ("The cat sat on the old mat.", "The dog sat under the old table.", False),
        ("今天天气很好我们去公园散步吧。", "今天天气很好我们去公园散步。", True),
        ("今天天气很好我们去公园散步吧。", "他昨天买了一本关于历史的书。", False),
        ("", "", False),
        ("a b", "", False),
    ],
)
def test_near_duplicates(known, text, alike):
    assert near_duplicates([*sentences(50), known], [text]) == [alike]


def test_rare_words_find_what_every_pair_would():
    rng = random.Random(1)
    known = sentences(300, 2)
    texts = [" ".join([*rng.choice(known).split()[: rng.randint(3, 8)], "more"]) for _ in range(100)]
    sets = [set(one.split()) for one in known]

    def alike(text: str) -> bool:
        own = set(text.split())
        return any(len(own & one) >= 0.8 * len(own | one) for one in sets)

    texts = list(dict.fromkeys(texts))
    assert near_duplicates(known, texts) == [alike(text) for text in texts]
    assert 0 < sum(map(alike, texts)) < len(texts)


def test_training_warns_and_the_card_says_so(tmp_path, caplog):
    rows = [
        f"{one.source}\t{one.groups['prompt']}\t{one.hypothesis}\t{one.references[0]}\t{one.score}" for one in chat()
    ]
    path = write_table(tmp_path / "chat.tsv", "question\tprompt\thypothesis\treference\tscore", rows)
    data = RatingsDataModule([path], columns=Columns(source="question", groups=("prompt",)), held_back=0.25)
    with caplog.at_level(logging.WARNING):
        data.setup()
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith("In the held-back part, ")
    assert "share their source" in said
    assert "share their `prompt` with items to train on" in said
    assert "share their `prompt`" in data.describe()["held-back, not apart"]
    assert said.endswith("name its parts as `train` and `validation`.")
    data = RatingsDataModule([path], [path], columns=Columns(source="question", groups=("prompt",)))
    caplog.clear()
    data.setup()
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.endswith("remove them from one of the files, or leave `validation` out."), "they are split already"


# --- pairs across files that write them differently -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A man is singing.", "a man  is singing"),
        ("They don't.", "they do n't ."),
        ("“Yes,” he said", "'Yes', he said."),
        ("ﬁne – 5 €", "fine 5"),
    ],
)
def test_what_other_files_write_differently_is_the_same(one: str, other: str) -> None:
    assert compared_text(one) == compared_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("The cat", "The cats"), ("It is 5", "It is 6"), ("?", "!"), ("...", ""), ("की", "का")],
)
def test_what_differs_in_letters_marks_or_numbers_does_not_meet(one: str, other: str) -> None:
    assert compared_text(one) != compared_text(other)


def test_a_pair_is_left_out_in_either_order_and_with_other_punctuation(tmp_path) -> None:
    rows = [
        Segment("The dog is walking.", ("A dog is running, through the grass.",)),
        Segment("The dog is walking.", ("A dog is running.",)),
    ]
    for place, pair in enumerate(
        ("A dog is running through the grass\tThe dog is walking", "A dog is running.\tThe dog is walking.")
    ):
        file = PairFile(write_table(tmp_path / f"{place}.tsv", "hypothesis\treference", [pair]))
        kept, note = without_files([rows], [file], segment_pairs)
        assert (kept, "(1 segment left out)" in note["without the pairs of"]) == ([[rows[1 - place]]], True)
