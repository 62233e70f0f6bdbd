from pathlib import Path

import pytest
import yaml

from textmover.data.generated.record_ratings import load_records
from textmover.data.generated.records import RecordBook
from textmover.types import InputError

OWN = {
    "domains": {
        "museum": {
            "kinds": ["museum"],
            "names": ["Old Mill", "House of Clocks"],
            "facts": {
                "ticket": {"values": [["free"], ["12 euros", "€12"]], "says": ["costs {}"], "adds": ["for {}"]},
                "day": {"asked": "day off", "values": ["Mondays"], "says": ["is closed on {}"]},
            },
        }
    }
}


def own(tmp_path: Path, **changes) -> RecordBook:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**OWN, **changes}))
    return load_records(path)


def test_a_book_of_ones_own_takes_acts_and_severities_from_the_project(tmp_path):
    book = own(tmp_path)
    assert list(book.domains) == ["museum"]
    assert book.domains["museum"].facts["day"].asked == "day off"
    assert book.domains["museum"].facts["ticket"].asked == "ticket"
    assert book.domains["museum"].facts["day"].values == (("Mondays",),)
    assert (book.acts, book.severities) == (load_records().acts, load_records().severities)
    assert set(own(tmp_path, acts={"state": {"weight": 1}}).acts) == {"state"}
    with_own = {**load_records().severities, "omitted": 0.1}
    assert own(tmp_path, severities=with_own).severities["omitted"] == 0.1


def without(key: str) -> dict:
    museum = {name: value for name, value in OWN["domains"]["museum"].items() if name != key}
    return {"domains": {"museum": museum}}


def with_fact(**changes) -> dict:
    museum = OWN["domains"]["museum"]
    facts = {**museum["facts"], "day": {**museum["facts"]["day"], **changes}}
    return {"domains": {"museum": {**museum, "facts": facts}}}


def with_way(act: str, way: str) -> dict:
    return {"acts": {act: {"weight": 1, "ways": [way]}}}


def with_severity(**changes) -> dict:
    return {"severities": {**load_records().severities, **changes}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"domains": {}}, "own.yaml to hold `domains`"),
        ({"domain": {}}, "own.yaml, to have acts, domains, severities, but got 'domain'"),
        ({"domains": {"museum": []}}, "domain museum, to have facts, kinds, .* but got "),
        ({"domains": {True: OWN["domains"]["museum"]}}, "domains, to be a text, but got True"),
        (without("kinds"), "domain museum, to have `kinds`, a list of texts, but got None"),
        (without("facts"), "domain museum, to have at least two `facts`"),
        (with_fact(values=[]), "fact day, to have `values`"),
        (with_fact(values=[[]]), "fact day, to have `values`, a list of texts, but got \\[\\]"),
        (with_fact(values=[None]), "fact day, values, to be a text, but got None"),
        (with_fact(values=[{"a": 1}]), "fact day, values, to be a text, but got"),
        (with_fact(values=["Mondays", ["Sundays", "Mondays"]]), "words of its own for each of `values`"),
        (with_fact(says=["is closed"]), r"fact day, to have \{\} once in each of .* but got 'is closed'"),
        (with_fact(says=["{} {}"]), r"but got '\{\} \{\}'"),
        (with_fact(says=[]), "fact day, to have `says`, a list of texts"),
        (with_fact(says=[" "]), "fact day, says, to be a text, but got ' '"),
        (with_fact(adds=0), "fact day, to have `adds`, a list of texts, but got 0"),
        (with_fact(add=["on {}"]), "fact day, to have adds, asked, says, values, but got 'add'"),
        (with_fact(asked=None), "fact day, asked, to be a text, but got None"),
        ({"acts": {"sing": {}}}, "`acts` of .*own.yaml to be some of state, confirm, none, count, ask"),
        ({"acts": {"state": {"weight": 0}}}, "act state, weight, to be above 0"),
        ({"acts": {"state": {"weight": 10**400}}}, "act state, weight, to be from 0 to 1e\\+06"),
        ({"acts": {"state": {"weight": True}}}, "act state, weight, to be from 0 to 1e\\+06, but got True"),
        ({"acts": {"none": {"weight": 1}}}, "act none, to have `ways`"),
        (with_way("none", "no {thing}"), r"act none, to use .* alone, but got 'no \{thing\}'"),
        (with_way("none", "no {one.x}"), r"alone, but got 'no \{one.x\}'"),
        (with_way("none", "no {one:{kind}}"), "alone, but got "),
        (with_way("none", "no {one"), "to have pairs of braces, but got "),
        (with_way("none", "nothing"), "to have {one}, or {kind} and {rest}, but got 'nothing'"),
        (with_way("count", "many of {one}"), "and {rest} and {count}, but got"),
        (with_way("ask", "what {asked} has {one}"), "to have {asked}, and neither {one} nor {rest}, but got"),
        ({"severities": {"omitted": 1}}, "`severities` of .*own.yaml to be of omitted, altered"),
        (with_severity(act=-1), "severities` of .*, act, to be from 0 to 2, but got -1"),
        (with_severity(most=1.5), "most, to be from 0 to 1, but got 1.5"),
    ],
)
def test_a_book_that_lacks_something_is_refused_with_its_place(tmp_path, changes, expected):
    with pytest.raises(InputError, match=expected):
        own(tmp_path, **changes)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a file at .*none\.yaml, but there is none"):
        load_records(tmp_path / "none.yaml")
    for text in ("domains: [", "domains: 2020-13-45"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(InputError, match=r"bad\.yaml to (be YAML|hold `domains`)[^\n]*$"):
            load_records(tmp_path / "bad.yaml")
