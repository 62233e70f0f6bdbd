"""Splits: the same for everyone, and no reference on both sides."""

import hashlib
import random

import pytest

from textmover.data.split import hold_out_groups, is_held_back, normalise_reference, sample_by_hash, split_held_back
from textmover.types import InputError, Segment


def segments_of(*references: tuple[str, ...]) -> list[Segment]:
    return [Segment(f"hypothesis {number}", texts) for number, texts in enumerate(references)]


def with_two_references(rng: random.Random) -> list[Segment]:
    return segments_of(*(tuple(rng.choices([f"r{n}" for n in range(600)], k=2)) for _ in range(250)))


class TestHash:
    def test_definition(self):
        for number in range(200):
            reference = f"Sentence {number}."
            digest = hashlib.sha256(f"sentence {number}.".encode()).hexdigest()
            assert is_held_back(reference) == (int(digest[:16], 16) / 2**64 < 0.15)

    @pytest.mark.parametrize(
        ("one", "other"),
        [("The cat.", " the  CAT.\n"), ("caf\u00e9", "cafe\u0301"), ("a\u00a0b", "a b"), ("Straße", "STRASSE")],
    )
    def test_normalised(self, one, other):
        assert normalise_reference(one) == normalise_reference(other) != normalise_reference(f"{one}.")

    def test_share(self):
        references = [str(number) for number in range(5000)]
        chosen = {share: {text for text in references if is_held_back(text, share)} for share in (0, 0.1, 0.3, 1)}
        assert chosen[0] == set()
        assert chosen[0.1] < chosen[0.3] < chosen[1] == set(references)
        assert len(chosen[0.3]) == pytest.approx(1500, abs=100)

    @pytest.mark.parametrize("share", [-0.1, 1.1, 15, float("nan")])
    def test_share_out_of_range(self, share):
        with pytest.raises(InputError, match=f"share to be between 0 and 1, but got {share}"):
            is_held_back("a", share)


class TestSplitByColumns:
    def segments(self):
        return [
            Segment(
                f"h{n}", (f"r{n % 150}",), source=f"s{n % 150 // 3}", groups={"prompt": f"p{n % 50}", "by": f"a{n % 7}"}
            )
            for n in range(600)
        ]

    @pytest.mark.parametrize(
        ("by", "apart", "shared"),
        [
            (("reference",), ["reference"], ["prompt", "by"]),
            (("prompt",), ["prompt", "reference"], ["by"]),
            (("source",), ["source", "reference"], ["prompt", "by"]),
            (("reference", "prompt"), ["prompt", "reference"], ["by"]),
            (("by",), ["by"], ["reference", "prompt"]),
        ],
    )
    def test_no_value_stands_on_both_sides(self, by, apart, shared):
        values = {"reference": lambda one: one.references[0], "source": lambda one: one.source}
        parts = split_held_back(self.segments(), 0.3, by)
        assert all(parts)
        for name in (*apart, *shared):
            value = values.get(name, lambda one, name=name: one.groups[name])
            left, right = ({value(one) for one in part} for part in parts)
            assert bool(left & right) is (name in shared), name

    def test_empty_values_hold_nothing_together(self):
        segments = [Segment("h", (f"r{n}",), groups={"prompt": ""}) for n in range(200)]
        assert split_held_back(segments, 0.3, ("prompt",)) == split_held_back(segments, 0.3)


class TestSplit:
    def test_single_references_follow_their_hash(self):
        segments = segments_of(*((f"Sentence {number % 300}.",) for number in range(900)))
        train, held_back = split_held_back(segments)
        assert held_back == [segment for segment in segments if is_held_back(segment.references[0])]
        assert train == [segment for segment in segments if not is_held_back(segment.references[0])]

    def test_order_does_not_matter(self):
        rng = random.Random(1)
        segments = with_two_references(rng)
        _, expected = split_held_back(segments, 0.3)
        shuffled = rng.sample(segments, len(segments))
        _, held_back = split_held_back(shuffled, 0.3)
        assert sorted(map(repr, held_back)) == sorted(map(repr, expected))

    def test_share_is_kept_with_several_references(self):
        segments = segments_of(*(tuple(f"{item} {number}" for number in range(5)) for item in range(2000)))
        _, held_back = split_held_back(segments, 0.15)
        assert len(held_back) == pytest.approx(300, abs=50)

    def test_spelling_does_not_separate(self):
        for number in range(50):
            train, held_back = split_held_back(segments_of((f"Item {number}",), (f"ITEM  {number}",)), 0.5)
            assert not train or not held_back

    def test_empty(self):
        assert split_held_back([]) == ([], [])

    def test_without_reference(self):
        with pytest.raises(InputError, match="but got none for segment 1"):
            split_held_back(segments_of(("a",), ()))


class TestGroups:
    SEGMENTS = (
        Segment("h", ("r",), groups={"perturbation": "drop", "severity": "1"}),
        Segment("h", ("r",), groups={"perturbation": "swap", "severity": "1"}),
        Segment("h", ("r",), groups={"perturbation": "number", "severity": "2"}),
        Segment("h", ("r",), groups={"perturbation": "drop", "severity": "2"}),
        Segment("h", ("r",)),
    )

    @pytest.mark.parametrize(
        ("groups", "apart"),
        [
            ({"perturbation": ("swap", "number")}, [1, 2]),
            ({"perturbation": ("swap",), "severity": ("2",)}, [1, 2, 3]),  # any key holds out
            ({}, []),
        ],
    )
    def test_values(self, groups, apart):
        sides = ([one for row, one in enumerate(self.SEGMENTS) if (row in apart) is side] for side in (False, True))
        assert hold_out_groups(self.SEGMENTS, groups) == tuple(sides)

    @pytest.mark.parametrize(
        ("first", "groups", "got"),
        [
            (0, {"type": ("swap",)}, "group 'type', but got 'perturbation', 'severity': choose"),
            (4, {"type": ("swap",)}, "group 'type', but got segments without groups"),
            (0, {"perturbation": ("swap", "swop")}, "but got 'swop': choose among 'drop', 'number', 'swap'"),
        ],
    )
    def test_unknown(self, first, groups, got):
        with pytest.raises(InputError, match=got):
            hold_out_groups(self.SEGMENTS[first:], groups)


class TestTakenByHash:
    def test_the_choice_hangs_on_the_texts_alone_and_keeps_the_order(self):
        items = [(f"Sentence {number}.", "x") for number in range(300)]
        taken = sample_by_hash(items, 90, lambda item: item)
        assert taken == [item for item in items if item in taken]
        assert len(taken) == 90
        turned = [(first.upper() + " ", second) for first, second in reversed(items)]
        again = sample_by_hash(turned, 90, lambda item: item)
        assert [normalise_reference(first) for first, _ in reversed(again)] == [first.lower() for first, _ in taken]
        assert set(sample_by_hash(items, 30, lambda item: item)) < set(taken)

    def test_all_are_taken_where_there_are_no_more(self):
        for most in (None, 3, 4):
            assert sample_by_hash("abc", most, lambda item: [item]) == list("abc")

    def test_it_is_another_hash_than_that_of_the_held_back_part(self):
        items = [f"Sentence {number}." for number in range(2000)]
        taken = sample_by_hash(items, 1000, lambda item: [item])
        assert 0.4 < sum(map(is_held_back, taken)) / sum(map(is_held_back, items)) < 0.6
