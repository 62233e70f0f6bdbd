"""A project with items, and annotators at work on it."""

import json

import pytest

from textmover.annotation import open_project


@pytest.fixture
def folder(tmp_path):
    """A folder with ten items, two to a reference."""
    rows = [
        {
            "id": f"i{number}",
            "hypothesis": f"text {number}",
            "reference": f"reference {number // 2}",
            "system": "ab"[number % 2],
        }
        for number in range(10)
    ]
    place = tmp_path / "project"
    place.mkdir()
    (place / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    return place


@pytest.fixture
def project(folder):
    """The project of that folder."""
    return open_project(folder)


@pytest.fixture
def rate_all():
    """Rates every criterion of items: ratings by number of the item, one or one for each criterion."""

    def rate(project, annotator, ratings):
        for number, given in ratings.items():
            values = given if isinstance(given, tuple) else (given,) * len(project.criteria)
            for criterion, value in zip(project.criteria, values, strict=True):
                project.rate(annotator, project.items[number].key, criterion.name, value)

    return rate
