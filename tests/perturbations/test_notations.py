import pytest

from textmover.perturbations.kinds import all_perturbations
from textmover.perturbations.perturbations import perturb


def rewritten(text: str, degree: int = 1, seed: int = 0) -> str | None:
    made = perturb(text, "notation", degree, seed=seed, perturbations=all_perturbations())
    return None if made is None else made.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It opened on 3 October 2014.", "It opened on October 3, 2014."),
        ("It opened on 3 May.", "It opened on May 3."),
        ("Sales fell by 4.5%.", "Sales fell by 4.5 percent."),
        ("They sold 12,500 cars.", "They sold 12500 cars."),
        ("They sold 1,234,567 cars.", "They sold 1234567 cars."),
        ("We met two men.", "We met 2 men."),
        ("We met 12 men.", "We met twelve men."),
    ],
)
def test_another_notation_and_back(one, other):
    assert (rewritten(one), rewritten(other)) == (other, one)


@pytest.mark.parametrize(
    "text",
    [
        "He was born in 1984.",  # a year
        "At 5 pm it was over 3-1.",
        "The 3rd of 5.5 or $6 or 7% of",
        "Twenty-two goats slept.",
        "Version 4.10.2 of one thing",
        "",
    ],
)
def test_what_is_no_count_stays(text):
    assert rewritten(text) in (None, "The 3rd of 5.5 or $6 or 7 percent of")


@pytest.mark.parametrize("seed", range(8))
def test_as_many_change_as_asked_for(seed):
    text = "On 3 May 2014 two men sold 12,500 cars."
    parts = [("3 May 2014", "May 3, 2014"), ("two", "2"), ("12,500", "12500")]
    for degree in (1, 2):
        changed = rewritten(text, degree, seed)
        assert sum(new in changed and old not in changed for old, new in parts) == degree
