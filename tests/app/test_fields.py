"""Every field of every request that the page makes, with values that it never sends."""

import http.client
import json

import pytest

from textmover.annotation import open_project

NESTED = [f"{'[' * depth}{']' * depth}" for depth in (100, 900, 50_000)]
VALUES = [
    "null", "-1", "1e999", "NaN", "true", '""', '"x"', "[]", '["a", 1]', '{"path": "/etc/passwd"}',
    '{"__type__": "update", "value": 3}', '"\\ud800"', '"\\u0000"', "9" * 400, "9" * 5000, json.dumps("x" * 300_000),
    *NESTED, *map(json.dumps, NESTED),
]  # fmt: skip
GOOD = {
    "tm-items": "items.json", "tm-file": "items.json", "tm-annotator": "Ada", "tm-name": "Ada", "tm-key": "i0",
    "tm-number": "2", "tm-metrics": ["twmd"], "tm-standardise": False,
}  # fmt: skip
OF_A_RATING = ["", "", "1"]
"""What the page saw, its order, and the rating: they have no names."""


@pytest.mark.long
def test_no_field_of_a_request_fails(folder, serve):
    server = serve(folder, "--scale", "0-100", "--criteria", "fluency")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(path, body=None):
        kind = {"content-type": "application/json"}
        connection.request("GET" if body is None else "POST", path, body, {} if body is None else kind)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    config = json.loads(ask("/config")[1])
    names = {one["id"]: one["props"].get("elem_id") for one in config["components"]}
    answers = []
    for act in config["dependencies"]:
        fields = [names[one] for one in act["inputs"]]
        unnamed = iter(OF_A_RATING)
        good = [json.dumps(GOOD.get(one, "" if one else next(unnamed))) for one in fields]
        if fields and str(fields[-1]).startswith("tm-criterion"):
            good[-1] = "0"
        changed = [
            [*good[:place], bad, *good[place + 1 :]] for place in range(len(fields)) for bad in VALUES[place % 2 :: 2]
        ]
        for values in [good, *changed]:
            way = "queue/join" if act["queue"] else "run/predict"
            asked = f'{{"data": [{", ".join(values)}], "fn_index": {act["id"]}, "session_hash": "a"}}'
            answers.append((values is good, *ask(f"/gradio_api/{way}", asked)))
    connection.close()
    assert {status for good, status, _ in answers if good} == {200}
    assert {status for _, status, _ in answers} == {200, 400}
    assert all(text.startswith("Expected ") and len(text) < 400 for _, status, text in answers if status != 200)
    assert open_project(folder).damaged() == ()
