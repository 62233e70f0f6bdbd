from pathlib import Path

import pytest
import yaml

from textmover.data.generated.records import RecordDomains
from textmover.data.generated.records_datamodule import load_records
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


def own(tmp_path: Path, **changes) -> RecordDomains:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**OWN, **changes}))
    return load_records(path)


def test_a_book_of_ones_own_takes_acts_and_severities_from_the_project(tmp_path):
    book = own(tmp_path)
    assert list(book.domains) == ["museum"]
    assert book.domains["museum"].facts["day"].asked == "day off"
    assert book.domains["museum"].facts["ticket"].asked == ""  # by its name
    assert book.domains["museum"].facts["day"].values == (("Mondays",),)
    assert (book.acts, book.severities) == (load_records().acts, load_records().severities)
    assert set(own(tmp_path, acts={"state": {"weight": 1}}).acts) == {"state"}
    with_own = {**load_records().severities, "omitted": 0.1}
    assert own(tmp_path, severities=with_own).severities["omitted"] == 0.1


def test_numbers_without_quotation_marks_are_texts(tmp_path):
    book = own(tmp_path, **with_fact(values=[1987, [2.5, "two and a half"]], asked=7))
    assert book.domains["museum"].facts["day"].values == (("1987",), ("2.5", "two and a half"))
    assert book.domains["museum"].facts["day"].asked == "7"


def without(key: str) -> dict:
    museum = {name: value for name, value in OWN["domains"]["museum"].items() if name != key}
    return {"domains": {"museum": museum}}


def with_museum(**changes) -> dict:
    return {"domains": {"museum": {**OWN["domains"]["museum"], **changes}}}


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
        ({"domains": {}}, "`domains` of .*own.yaml to hold something, but got none"),
        ({"domains": []}, "`domains` of .*own.yaml to be names with values, but got a list"),
        ({"domain": {}}, "keys of .*own.yaml to be among domains, acts, severities, but got 'domain': did you mean"),
        ({"domains": {"museum": []}}, "`domains.museum` of .* to be keys with values, but got a list"),
        (
            {"domains": {True: OWN["domains"]["museum"]}},
            "`domains` of .* to be text, but got true: put it in quotation",
        ),
        (without("kinds"), "`domains.museum` of .* to have the key 'kinds'"),
        (without("facts"), "`domains.museum` of .* to have the key 'facts'"),
        (with_museum(kinds=[]), "`domains.museum.kinds` of .* to hold something"),
        (with_museum(names=[]), "`domains.museum.names` of .* to hold something"),
        (with_museum(facts={}), "`domains.museum.facts` of .* to hold at least two, but got 0: add one"),
        (with_museum(relative=None), "`domains.museum.relative` of .* to be text, but got null"),
        (with_fact(values=[]), "facts.day.values` of .* to hold something"),
        (with_fact(values=[[]]), "facts.day.values.0` of .* to hold something"),
        (with_fact(values=[None]), "facts.day.values.0.0` of .* to be text, but got null"),
        (with_fact(values=[True]), "facts.day.values.0.0` of .* to be text, but got true: put it in quotation marks"),
        (with_fact(values=[float("inf")]), "facts.day.values.0.0` of .* to be a finite number, but got inf"),
        (with_fact(values=[{"a": 1}]), "facts.day.values.0.0` of .* to be text, but got keys with values"),
        (with_fact(values=["Mondays", ["Sundays", "Mondays"]]), "day.values` of .* to differ, but got 'Mondays' twice"),
        (with_fact(says=["is closed"]), r"\{\} once in `says` and `adds` of `.*facts.day` of .*, but got 'is closed'"),
        (with_fact(says=["{} {}"]), r"but got '\{\} \{\}'"),
        (with_fact(says=[]), "facts.day.says` of .* to hold something"),
        (with_fact(says=[" "]), "facts.day.says.0` of .* to be text, but got ' '"),
        (with_fact(adds=0), r"\{\} once in .*, but got '0'"),
        (with_fact(adds=None), "facts.day.adds.0` of .* to be text, but got null"),
        (with_fact(add=["on {}"]), "facts.day` of .* to be among values, says, adds, asked, but got 'add': did you"),
        (with_fact(asked=None), "facts.day.asked` of .* to be text, but got null"),
        ({"acts": {}}, "`acts` of .* to hold something"),
        ({"acts": {"sing": {}}}, "`acts` of .*own.yaml to be among state, confirm, none, count, ask, but got 'sing'"),
        ({"acts": {"state": {"weight": 0}}}, "`acts.state.weight` of .* to be above 0 and at most 1e\\+06, but got 0"),
        ({"acts": {"state": {"weight": 1e7}}}, "to be above 0 and at most 1e\\+06, but got 1e\\+07"),
        ({"acts": {"state": {"weight": 10**400}}}, "`acts.state.weight` of .* to be a finite number"),
        ({"acts": {"state": {"weight": True}}}, "`acts.state.weight` of .* to be a number, but got true"),
        ({"acts": {"none": {"weight": 1}}}, "`acts.none.ways` of .* to hold something"),
        (with_way("none", "no {thing}"), r"`acts.none.ways` of .* to use .* alone, but got 'no \{thing\}'"),
        (with_way("none", "no {one.x}"), r"alone, but got 'no \{one.x\}'"),
        (with_way("none", "no {one:{kind}}"), "alone, but got "),
        (with_way("none", "no {one"), "to have pairs of braces, but got "),
        (with_way("none", "nothing"), "to have {one}, or {kind} and {rest}, but got 'nothing'"),
        (with_way("count", "many of {one}"), "and {rest} and {count}, but got"),
        (with_way("ask", "what {asked} has {one}"), "to have {asked}, and neither {one} nor {rest}, but got"),
        ({"severities": {"omitted": 1}}, "`severities` of .*own.yaml to have the key 'altered'"),
        (with_severity(other=1), "`severities` of .*own.yaml to be among omitted, altered, .*, but got 'other'"),
        (with_severity(act=-1), "severities.act` of .* to be from 0 to 2, but got -1"),
        (with_severity(most=1.5), "severities.most` of .* to be from 0 to 1, but got 1.5"),
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
        with pytest.raises(InputError, match=r"bad\.yaml to (be YAML|be names)[^\n]*$"):
            load_records(tmp_path / "bad.yaml")
