"""Common mistakes on the command line, and the way out that the error names."""

import pytest

FILES = {
    "outputs.txt": "a cat\n",
    "golds.txt": "a dog\n",
    "rated.csv": "hypothesis,reference,score\na,b,1\n",
    "open.csv": 'hypothesis,reference\na,"b\nc,d\n',
}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--verison", "Expected a command, but got --verison: did you mean --version?"),
        ("scroe -i outputs.txt golds.txt", "Expected a command, but got scroe: did you mean score?"),
        (
            "score outputs.txt golds.txt",
            "Expected texts, but got the names of files (outputs.txt, golds.txt): write -i before the names",
        ),
        ("score --model twmd outputs.txt", "but got 1 text: put each into quotation marks, or name files with -i"),
        ("score -r golds.txt", "Expected hypotheses with `--references`, but got none: add -t FILE."),
        ("score -s golds.txt", "Expected a hypothesis and a reference, but got no texts"),
        ("score --data golds.txt", "got golds.txt: give one, or set `--data-format` to csv, tsv, jsonl or parquet."),
        ("check golds.txt", "but got golds.txt: give one, or rename the file.\n"),
        ("score --cite --signature", "Expected --signature or --cite, but got both: leave one out"),
        ("perturb outputs.txt", "Expected -i before the names of files, but got outputs.txt without it"),
        ("score", "Expected a hypothesis and a reference, but got no texts: put each into quotation marks, or"),
        ("explain outputs.txt golds.txt", "got the names of files (outputs.txt, golds.txt): write -i before the names"),
        ("data", "Expected ACTION, but got none"),
        ("evaluate --data rated.csv --baselines chrF", "but got chrF: did you mean chrf?"),
        (
            "score -i outputs.txt golds.txt --output s.csv --format json",
            "to end in .json with --format json, but got s.csv",
        ),
        ("score -i outputs.txt golds.txt --output s.csv.gz --format tsv", "to end in .tsv with --format tsv"),
        ("score --data open.csv", "got a quotation mark that is never closed in the record that starts in line 2"),
        (
            "score -i outputs.txt golds.txt --layer 4",
            "got `--layer`: leave it out, or take a preset, such as `--model twmd`",
        ),
    ],
)
def test_the_error_names_the_mistake(run, tmp_path, monkeypatch, command, said):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert said in run(*command.split()).complaint()
    assert {one.name for one in tmp_path.iterdir()} == set(FILES)
