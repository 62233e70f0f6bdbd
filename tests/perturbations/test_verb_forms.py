import pytest

from textmover.perturbations.passive_voice import (
    IRREGULAR,
    OBJECT_CASE,
    SUBJECT_CASE,
    be,
    have,
    participle,
    past,
    present,
    third_person,
)


@pytest.mark.parametrize(
    "forms",
    """
    ask asks asked asked asking; stop stops stopped stopped stopping; carry carries carried carried carrying
    play plays played played playing; chase chases chased chased chasing; visit visits visited visited visiting
    refer refers referred referred referring; offer offers offered offered offering; fix fixes fixed fixed fixing
    watch watches watched watched watching; fry fries fried fried frying; free frees freed freed freeing
    die dies died died dying; panic panics panicked panicked panicking; quiz quizzes quizzed quizzed quizzing
    write writes wrote written writing; see sees saw seen seeing; go goes went gone going; have has had had having
    begin begins began begun beginning; choose chooses chose chosen choosing; put puts put put putting
    understand understands understood understood understanding; dye dyes dyed dyed dyeing; wake wakes woke woken waking
    overrun overruns overran overrun overrunning; undercut undercuts undercut undercut undercutting
    misunderstand misunderstands misunderstood misunderstood misunderstanding; offset offsets offset offset offsetting
    """.strip()
    .replace("\n", ";")
    .split(";"),
)
def test_forms(forms):
    verb, *expected = forms.split()
    assert [third_person(verb), past(verb), participle(verb), present(verb)] == expected


def test_be_and_have():
    persons = [(1, False), (2, False), (3, False), (3, True)]
    assert [be("present", person=p, plural=n) for p, n in persons] == ["am", "are", "is", "are"]
    assert [be("past", person=p, plural=n) for p, n in persons] == ["was", "were", "was", "were"]
    assert [have("present", person=p, plural=n) for p, n in persons] == ["have", "have", "has", "have"]
    assert have("past", person=3, plural=False) == "had"


def test_cases_are_inverse():
    assert {SUBJECT_CASE[OBJECT_CASE[word]].lower() for word in OBJECT_CASE} == set(OBJECT_CASE)


def test_every_irregular_verb_has_its_forms():
    assert len(IRREGULAR) > 150
    assert all(one.isalpha() and one.islower() for verb, forms in IRREGULAR.items() for one in (verb, *forms))
