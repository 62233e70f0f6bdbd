"""Arguments that each command refuses: one sentence on standard error, exit code 2, and no file written.

Places that cannot be written stand in test_full_disk.py, pipes in test_read_once.py, missing packages in
test_optional_packages.py.
"""

import json
import shlex
import sys
import types

import pytest

from textmover.types import InputError

FILES = {
    "h.txt": ["a cat", "a dog"],
    "r.txt": ["the cat", "the dog"],
    "short.txt": ["a cat"],
    "one.txt": ["0.5", "1"],
    "two.txt": ["1", "0.5"],
    "three.txt": ["1", "2", "3"],
    "text.txt": ["a text", "b", "c"],
    "more.txt": ["a text", "b", "d"],
    "half.txt": ["0.5", "0.25"],
    "odd.txt": ["0.5", "0.5", "0.5", "good"],
    "empty.txt": [],
    "empty.tsv": [],
    "blank.txt": ["", " "],
    "same.txt": ["The same text.", "The same text. "],
    "numberless.txt": ["The dog ran home.", "They walk."],
    "texts.txt": ["We live in a beautiful house near Oslo.", "The lake was frozen.", "The dog chased the cat."],
    "samples.txt": list("abcdefghijkl"),
    "samples.jsonl": [json.dumps({"id": "s", "candidates": ["a", "b"]})],
    "breaks.jsonl": [json.dumps({"candidates": ["a", "b\nc"]})],
    "header.tsv": ["hypothesis\treference\tscore"],
    "capital.tsv": ["hypothesis\tReference", "a\tb"],
    "nameless.csv": ["A cat sat.,A cat was sitting.", "A dog ran.,A dog was running."],
    "table.tsv": ["id\ttext", "1\tThe lake was frozen.", "2\tThe dog ran home."],
    "ratings.tsv": ["lp\thypothesis\treference\tscore", *(f"de-en\ta {n}\tb\t{n}" for n in range(4))],
    "few.tsv": ["lp\tsystem\thypothesis\treference\tscore", "de\tA\ta dog\ta cat\t1", "de\tB\ta dog\tno\t2"],
    "flat.tsv": ["hypothesis\treference\tscore", *(f"text {n}\ta\t2" for n in range(4))],
    "wide.csv": ["a,b", "1,2", "3,4"],
    "commas.tsv": ["a,b", "1,2"],
    "twice.yaml": ["a: 1", "a: 2"],
    "list.yaml": ["[1]"],
    "of-list.yaml": ["data: list.yaml"],
    "of-twice.yaml": ["data: twice.yaml"],
    "long.csv": ["lp,system,seg,metric", *(f"{lp},{s},{n},{n}" for lp in ("x", "y") for s in "AB" for n in range(2))],
}
COLUMNS = "--system-column system --item-column seg --metric-column metric"

CASES = {
    "": """
        | Expected COMMAND, but got none (see … --help`
        --verison | Expected a command, but got --verison: did you mean --version?
        scor | Expected a command, but got scor: did you mean score? … --help`
        zzz | Expected a command, but got zzz (""",
    "score -i h.txt r.txt": """
        --layr 3 | but got --layr: did you mean --layer? (see `textmover score --help`)
        --modle twmd | but got --modle: did you mean --model or --mode? (see
        --metric twmd | got --metric: did you mean --model? (see `textmover score … --help
        --no | Expected known options, but got --no: did you mean --no … --help
        --precision best | Expected --precision to be one of exact, fast, int8, auto, but got best ( … --help
        --backend openvin | onnxruntime, but got openvin: did you mean openvino? ( … --help
        --layer [1 | Expected --layer to be a number, true, false or null, but got … --help
        --layer 4 | got `--layer`: leave it out, or take a preset, such as `--model twmd`
        --only-mean=3 | Expected --only-mean without a value, but got 3 ( … --help
        --data c | Expected -i/--input or --data, but got both: leave one out ( … --help
        short.txt | 2 in h.txt, 2 in r.txt, 1 in short.txt
        --reference-column ref | `--reference-column` together with --data
        --references r.txt | Expected hypotheses with `--references`, but got none: add -t FILE
        --data-format csv | `--data-format` together with --data
        --shard-size 0 | at least 1 pair, but got 0
        --resume | --resume together with --output
        --format parquet | --format parquet together with --output
        --output x.parquet.gz | leave .gz out
        --output s.xml.gz | but got s.xml.gz
        --output x.tsv --only-mean | text or json, but got tsv
        --output x/ --format tsv | Parquet in the folder
        --output . | got the folder
        --output r.txt | got the input r.txt
        --cache-limit 1 | Expected `--cache-limit` together with --cache, but got it alone: name the folder.
        --cache states --cache-limit 0 | a size in GiB above 0, but got 0
        --cache states --no-cache | Expected `--cache` or `--no-cache`, but got both
        --model twdm | 'twdm' … Did you mean 'twmd'? `textmover list` shows
        --model ./twmd-checkpoint | no such folder
        --encoder no-such-encoder | 'no-such-encoder' … no folder … Hugging Face cache … the hub … give a folder
        --temperature -1 | `--temperature`
        --matching softmax | 'softmax'
        --model wmd --metric-output distance --rescale true | `--rescale` to be false with `--metric-output distance`
        --encoder encoder --layer 9 | `--layer` to be between 0 and 3 (or from -1, the last, to -4)
        --encoder encoder --batch-tokens 0 | Expected --batch-tokens to be at least 1, but got 0
        --encoder encoder --device gpu | `--device`
        --encoder encoder --model twmd-b --rescale true | (mean, baseline) … `textmover fit-mean` and `textmover fit-
        --encoder encoder --model twmd-b | twmd-b … --fit-on FILE … `textmover fit-mean` wrote with --statistics FILE
        --model twmd-b --encoder encoder --statistics h.txt | damaged or of another kind
        --model twmd-b --encoder no-such-encoder --statistics gone.safetensors | there is no such file
        --model twmd-b --encoder no-such-encoder --statistics h.txt | damaged or of another kind
        --statistics h.txt --fit-on h.txt | but got both: leave one out""",
    "score": """
         | Expected a hypothesis and a reference, but got no texts: put each into quotation marks, or
        h.txt r.txt | Expected texts, but got the names of files (h.txt, r.txt): write -i before the names
        --model twmd h.txt | but got 1 text: put each into quotation marks, or name files with -i
        -i | Expected a value after -i/--input, but got none ( … --help
        -r r.txt | Expected hypotheses with `--references`, but got none: add -t FILE.
        -s r.txt | Expected a hypothesis and a reference, but got no texts
        --data r.txt | got r.txt: give one, or set `--data-format` to csv, tsv, jsonl or parquet.
        --cite --signature | Expected --signature or --cite, but got both: leave one out
        --cite --output refs.bib | Expected --cite without --output, but got both: redirect what is printed with > FILE
        --signature latex --output a.tex | Expected --signature without --output
        -i empty.txt r.txt | Expected empty.txt to hold text, but it is empty
        -i h.txt empty.txt | Expected empty.txt to hold text, but it is empty
        -i gone.txt r.txt | gone.txt, but there is none
        -i h.txt | add a second file
        -i capital.tsv | give a table with --data
        -i h.txt latin.txt | latin.txt to be UTF-8 … line 2
        -i capital.tsv r.txt | Expected one text a line, but capital.tsv is a table: give it with `--data`
        --data capital.tsv | Expected a column 'reference' in capital.tsv … did you mean 'Reference'?
        --data nameless.csv | but its first line is 'A cat sat.', 'A cat was sitting.': add a first line that names
        -i h.txt r.txt --num-candidates 4 | Expected known options, but got --num-candidates, an option of `mbr`
        -i h.txt r.txt --system-column x | an option of `rank`, `evaluate`
        --hypotheses h.txt short.txt | at least one file of references
        --hypotheses h.txt h.txt --references r.txt | each system once
        --signature html | but got html
        --model twmdd --cite | Did you mean 'twmd'""",
    "list": "twmdd | Did you mean 'twmd'",
    "cache": "nowhere | Expected a folder of cached texts at nowhere, but it does not exist",
    "compare": """
         | give --hypotheses, --data or --scores
        --hypotheses h.txt --references r.txt | Expected two systems to compare
        --hypotheses h.txt r.txt | file of references
        --hypotheses h.txt h.txt --references r.txt | once
        --hypotheses h.txt text.txt --references r.txt | 3
        --hypotheses h.txt empty.txt --references empty.txt | Expected
        --hypotheses h.txt r.txt --references gone.txt | gone.txt
        --hypotheses h.txt folder --references r.txt | folder
        --data h.txt --hypothesis-column a | Expected two systems to compare
        --data h.txt --references r.txt | leave one out
        --samples many | Expected --samples to be a whole number, but got many ( … --help
        --tie nan | Expected --tie to be a finite number, but got nan""",
    "compare --hypotheses h.txt short.txt --references r.txt": """
        --names A | 2 names, one for each system, but got 1
        --names A A | tell the systems apart
        --split x | that has splits, such as hub:owner/name, but got h.txt: leave it out
        --lower-is-better | together with --scores
        --score-columns a | together with --scores""",
    "compare --scores": """
        one.txt | Expected the scores of two systems, but got those of one.txt alone
        . | .
        wide.csv --split test | `--split` together with a data set that has splits … but got wide.csv
        wide.csv --score-columns a c | set `--score-columns` to the names of the right ones
        wide.csv --score-columns a | those of a alone
        commas.tsv --score-columns a b | but got 'a,b', separated by commas: rename it to end in .csv.
        wide.csv --model twmd | `--model` or `--scores`, but got both
        wide.csv --temperature 0.1 | `--temperature` or `--scores`
        wide.csv --references text.txt | together with --hypotheses
        wide.csv --output wide.csv --format json | new file
        wide.csv --output folder --format html | but got the folder
        wide.csv --tie -1 | to be 0 or above
        wide.csv --hypotheses text.txt more.txt --references text.txt | 3 scores, one for each segment, but got 2
        one.txt two.txt half.txt --hypotheses h.txt r.txt --references r.txt | scores of the 2 systems""",
    "rank": """
         | give --hypotheses, --data or --scores
        --seed -1 | Expected --seed to be at least 0, but got -1
        --scores long.csv --system-column system | together with --data alone
        --scores wide.csv --score-column a | together with --data and --system-column
        --scores wide.csv --group a | together with --data and --system-column
        --scores wide.csv --score-columns a | those of a alone
        --hypotheses empty.txt h.txt --references r.txt | empty.txt to hold text
        --hypotheses h.txt three.txt --references r.txt | the same number of lines""",
    "rank --data long.csv": f"""
        --system-column sys | set `--system-column` to the name of the right one
        --system-column system | hypothesis
        --system-column system --metric-column metric | `--item-column` together with
        --system-column system --lower-is-better | together with --metric-column
        {COLUMNS} --group lp --score-column lp | Expected a finite number in column 'lp'
        {COLUMNS} --group nothing | set `--group` to
        {COLUMNS} | got two of 'A' in line 2 of long.csv and line 6 of long.csv
        {COLUMNS} --group lp --group system | two systems to rank, but got 'A' alone
        {COLUMNS} --model twmd | `--model` or `--metric-column`, but got both
        {COLUMNS} --names x | leave it out
        {COLUMNS} --system-separator "" | `--system-separator` to be a text""",
    "explain": """
         | a hypothesis and a reference, but got no texts
        a | but got 1 text: put each into quotation marks
        h.txt r.txt | got the names of files (h.txt, r.txt): write -i before the names
        a b --mod twmd | got --mod: did you mean --model or --mode? (see `textmover explain … --help
        --line 111111111111111111111111111111 | Expected --line to be at most 1,000,000,000
        a b -i h.txt r.txt | either two texts or -i
        -i h.txt | h.txt alone
        -i h.txt short.txt | 2 in h.txt, 1 in short.txt
        -i h.txt short.txt --line 1 | 2 in h.txt, 1 in short.txt
        -t h.txt | at least one file of references
        -t h.txt r.txt -r r.txt | one file after --hypotheses, but got 2
        -r r.txt | Expected hypotheses with `--references`, but got none: add -t FILE
        -i h.txt gone.txt | gone.txt""",
    "explain a b": """
        --line 2 | `--line` together with -i
        --line 0 | `--line` together with -i
        --lines 1-2 | `--lines` together with -i
        --output a.bmp | .png, .svg, .pdf, .txt
        --output plan | rename it, or give --format
        --output . | got the folder
        --encoder encoder --output /dev/full --format html | No space left
        --model nope | a preset, but got 'nope'
        --temperature -1 | temperature
        --model twmd --centering batch | reads each text by itself
        --encoder encoder --model twmd --centering corpus | --fit-on FILE
        "c d" --encoder encoder --model twmd --multi-reference all | one reference to explain""",
    "explain -i h.txt r.txt": """
        --line 0 | lines are counted from 1
        --line 3 | Expected `--line` to be at most 2, the number of lines, but got 3: give a line from 1 to 2.
        --lines 1-3 | Expected `--lines` to be at most 2
        --lines 3- | at most 2, the number of lines, but got 3
        --lines 0-1 | lines are counted from 1
        --lines 2-1 | write 1-2
        --lines all | like 3, 1-20 or 5-, but got 'all'
        --lines 1-2 --output a.png | one line for a picture
        --output r.txt | got the input r.txt""",
    "errors": """
         | a hypothesis and a reference, but got no texts
        a | but got 1 text: put each into quotation marks
        a b -i h.txt r.txt | either two texts or files
        -i h.txt | h.txt alone
        -i h.txt short.txt | 2 in h.txt, 1 in short.txt
        -t h.txt r.txt -r r.txt | the texts of one system, but got 2
        -r r.txt | Expected hypotheses with `--references`, but got none: add -t FILE
        -i h.txt gone.txt | gone.txt
        -i h.txt r.txt --output r.txt | got the input r.txt
        -i h.txt r.txt --keep-columns id | `--keep-columns` together with --data
        --data ratings.tsv --keep-columns lp | together with jsonl or tsv, but got text
        --data ratings.tsv --keep-columns text --format jsonl | without text, a column of the output""",
    "errors a b": """
        --split x | `--split` together with --data
        --fail-on bad | Expected --fail-on to be one of minor, major, critical, but got bad
        --least-confidence 2 | `--least-confidence` to be from 0 to 1, but got 2
        --least-confidence nan | --least-confidence to be a finite number
        --output . | got the folder
        --encoder encoder --output /dev/full --format html | No space left
        --encoder encoder --model twmd --sources c | sources
        --encoder encoder --model twmd --centering batch | reads them together
        --model nope | a preset, but got 'nope'""",
    "mbr": """
         | Expected one of -i/-t/--input, --data, but got none (see … --help
        -i samples.txt | Expected `--num-candidates` where all candidates are in one file
        -i samples.txt --num-candidates 5 | a multiple of `--num-candidates` (5), but got 12
        -i samples.txt samples.txt --num-candidates 4 | together with a single file
        -i samples.txt short.txt | the same number of lines in each file
        -i samples.txt samples.jsonl | Expected one text a line, but samples.jsonl is a table
        -i samples.txt --num-candidates 4 --weights-column p | `--weights-column` together
        -i samples.txt --num-candidates 4 --split x | splits, such as hub:owner/name, but got samples.txt
        --data gone.jsonl | gone.jsonl, but there is none: correct
        --data breaks.jsonl | texts without line breaks for --format text, but got one in breaks.jsonl, line 1
        --data breaks.jsonl --format tsv | without tabs and line breaks""",
    "mbr --data samples.jsonl": """
        --num-candidates 4 | `--num-candidates` together with -i
        --candidates-column texts | set `--candidates-column` to the name
        --candidates-column id | a list of texts in column 'id' of samples.jsonl, line 1
        --weights-column id | a list of numbers in column 'id'
        --references-column candidates --include-self | `--include-self` only where
        --include-self --no-include-self | Expected `--include-self` or `--no-include-self`, but got both: leave one out
        --output samples.jsonl | to be a new file
        --output . | but got the folder
        --output choices.csv | end in .txt, .jsonl, .tsv, .ndjson, but got choices.csv: rename it.""",
    "evaluate": """
         | Expected `--data` to name a file of judged texts
        --dat=x --model twmd | Expected known options, but got --dat: did you mean --data … --help
        --samples 111111111111111111111111111111 | Expected --samples to be at most 1,000,000
        --pair-rate inf | Expected --pair-rate to be a finite number, but got inf
        --experiment papers/none.yaml --data ratings.tsv | papers/none.yaml, but there is none: correct the path.
        --data gone.tsv | gone.tsv, but there is none
        --data empty.tsv | empty.tsv … is empty
        --data header.tsv | header.tsv … got none
        --data few.tsv --group lp --group system | few · score: … de / A: fewer than 3 segments … de / B: fewer
        --data few.tsv | ; nothing was scored.
        --data ratings.tsv flat.tsv --scores three:m=one.txt | Expected a set of ratings, flat before the colon
        --data ratings.tsv flat.tsv --scores flat:m=one.txt | Expected 4 scores in one.txt, one for each text of flat
        --data few.tsv flat.tsv --model never-loaded --against chrff | `--against` to be one of never-loaded for few""",
    "evaluate --data ratings.tsv": """
        --split test | `--split` together with a data set that has splits … but got ratings.tsv: leave it out
        --baselines chrF | but got chrF: did you mean chrf?
        --score-column rating | in ratings.tsv … 'lp', 'hypothesis', 'reference', 'score' … 'rating' … `--score-
        --hypothesis-column hypothesys | 'hypothesys' … did you mean 'hypothesis'?
        --reference-column ref | 'ref' … set `--reference-column`
        --group language | 'language' … set `--group`
        --metric-column lp other | one value after --metric-column, but also got other: repeat --metric-column before
        --group lp other --samples 20 | one value after --group, but also got other: repeat --group before each value
        --model twmd --against=m m | Expected nothing more, but got m
        --samples 20 30 | Expected nothing more, but got 30
        --baselines chrf --item-column gone | set `--item-column` to the name
        --baselines chrf --system-column gone | set `--system-column` to the name
        --baselines chrf --metric-column gone | set `--metric-column` to the name
        --model trmwd | Did you mean 'trwmd'?
        --model . | config.json
        --encoder no-such-encoder | no folder
        --output ratings.tsv | got the input ratings.tsv
        --encoder encoder --model twmd --model twmd | Expected each metric once, but got 'twmd' twice
        --model twmd --model sbert --precision auto | exact, fast or int8 for several models
        --model twmd --against chrf | Expected `--against` to be one of twmd for ratings, but got 'chrf'
        --dimension fluency | Expected `--dimension` to be one of score in ratings, but got 'fluency'
        --set wmt-da --group lp | by --set or by flags, but got --set wmt-da and --group
        --set wmt | did you mean 'wmt-da'?
        --level per-item | Expected `ratings` to have items for pearson per-item
        --statistic darr | Expected ratings to hold preferences for darr, but got ratings alone: derive
        --statistic accuracy --level pooled | Expected the level of accuracy to be systems
        --pair-rate 0.5 | Expected `--pair-rate` to be 1 for pearson
        --scores gone.txt | gone.txt, but there is none: correct
        --scores one.txt | Expected 4 scores in
        --scores odd.txt | in line 4 of odd.txt, but got 'good'
        --model twmd --lower-is-better twmd | to name scores of --scores or --metric-column, but got twmd""",
    "sweep": """
        --data ratings.tsv --field layer=1 temperature=.1 | after --field, but also got temperature: repeat --field
         | Expected --data, --field, but got none
        --seed -1 | Expected --seed to be at least 0, but got -1
        --data empty.tsv --field temperature=0.1 | is empty
        --data header.tsv --field temperature=0.1 | got none
        --data gone.tsv --field temperature=0.1 | there is none
        --data flat.tsv --field temperature=0.1 | a group of at least 3 segments whose ratings differ
        --data few.tsv --field temperature=0.1 | a group of at least 3 segments whose ratings differ""",
    "sweep --data ratings.tsv --encoder encoder": """
        --field temperatur=1,2 | but got `temperatur`: did you mean `temperature`?
        --field model=a,b | Expected a field of the metric's configuration, but got `model`
        --field kind=a | Expected `kind` to be one of 'transport', but got 'a'.
        --field temperature=0.1,-1 | Expected `temperature` to be a finite number above 0, but got -1.
        --field temperature=warm | Expected `temperature` to be a finite number above 0, but got 'warm'.
        --field temperature=[1 | expected a number, true, false or null, but got '[1'
        --field layer=1,9 | Expected `layer` to be between 0 and 3
        --field centering=none,median | Expected `centering` to be one of
        --field hypothesis_penalty=0.1,inf | matching='twmd' reads, but got `hypothesis_penalty`, which lazy-emd reads
        --field matching=twmd,bertscore --field temperature=0.1 | matching='bertscore' reads, but got `temperature`
        --field temperature | --field NAME=VALUE,VALUE, such as temperature=0.02,0.05, but got 'temperature'.
        --field temperature=0.1,,0.2 | but got 'temperature=0.1,,0.2'
        --field =0.1 | but got '=0.1'
        --field alpha=0.1 --field alpha=0.2 | Expected each --field once, but got `alpha` twice
        --field iterations=1,2 --iterations 3 | Expected `iterations` to be fixed or swept, but got --iterations
        --field alpha=0,1 --precision auto | Expected `--precision` to be exact, fast or int8, but got auto
        --field alpha=0,1 --score-column rating | set `--score-column`
        --field alpha=0,1 --output ratings.tsv | got the input ratings.tsv
        --field alpha=0,1 --centering corpus | --fit-on FILE
        --field alpha=0,1 --centering corpus --fit-on gone.txt | gone.txt""",
    "search": "--seeds 1 4294967296 | Expected --seeds to be at most 4,294,967,295, but got 4294967296",
    "check": """
         | Expected TABLE, but got none ( … --help
        a.csv b.csv | Expected nothing more, but got b.csv ( … --help
        none.csv | none.csv, but there is none: correct the path
        r.txt | but got r.txt: give one, or rename the file.""",
    "check ratings.tsv": """
        --score-column scor | did you mean 'score'? Otherwise set `--score-column`
        --output ratings.tsv | to be a new file, but got the input ratings.tsv
        --annotator-column rat | set `--annotator-column` to the name
        --annotator-column score | but `--annotator-column` takes 'score', which leaves """,
    "train": """
         | Expected a recipe, as in `textmover train --config FILE`, but got none
        fit mine.yaml | Expected a recipe after --config, but got mine.yaml without it
        fit --config | Expected a value after -c/--config, but got none
        fit --config none.yaml | none.yaml
        --config empty.txt | Expected empty.txt to be a recipe, a mapping of keys to values, but got none
        --config twice.yaml | Expected twice.yaml to hold each key once, but got 'a' again in line 2
        -c twice.yaml | Expected twice.yaml to hold each key once, but got 'a' again in line 2
        --conf twice.yaml | Expected known options, but got --conf twice.yaml: did you mean --config?
        fit --config of-list.yaml | list.yaml … the part `data` of a recipe, a mapping
        fit --config of-twice.yaml | Expected twice.yaml to hold each key once, but got 'a' again
        --trainer.callbacks "[&a [*a]]" | Expected an option to hold no value that contains itself
        --trainer.max_epochs 1 --trainer.max_epochs=2 | Expected --trainer.max_epochs once
        --trainer.max_epoch 1 | Expected known options, but got --trainer.max_epoch 1
        fit --export a --export b | Expected --export once, but got it twice: remove one""",
    "data": """
         | Expected ACTION, but got none
        gett | Expected ACTION to be one of list, get, but got gett: did you mean get? ( … --help
        get | Expected `data list` alone or `data get` with names
        list stsb | Expected `data list` alone or `data get` with names
        get stbs | did you mean stsb?
        get rte --folder /dev/null/sets | Expected to be able to write into /dev/null/sets, but got: Not a directory""",
    "sweep --data ratings.tsv --model checkpoint": """
        --field layer=1,2 | Expected a trained metric to keep the layer of its training, but got `--layer`""",
    "perturb": """
         | Expected `--input FILE` with texts
        h.txt | Expected -i before the names of files, but got h.txt without it
        --kinds drop | got --kinds: did you mean --types? (see `textmover perturb … --help
        --versions 10000000 | Expected --versions to be at most 1,000
        -i none.txt | none.txt, but there is none: correct
        -i table.tsv | name it with `--column`
        -i table.tsv --column txt | Expected a column 'txt'""",
    "perturb -i texts.txt": """
        --types shout | Expected `--types` to be among identity, repeat
        --types , | Expected `--types` to name something
        --types drop --degrees 3 | `--degrees` to hold one of 1, 2, 4, 6 for drop
        --degrees 3000 | `--degrees` to hold one that some type has
        --degrees much | `--degrees` to be whole numbers from 1 on, or 'all'
        --types passive | Expected --parser NAME for type passive
        --types substitute | Expected --neighbours ENCODER for type substitute
        --split test | Expected `--split` together with a data set that has splits … but got texts.txt: leave it out
        -o texts.txt --format tsv | but got the input texts.txt
        --parser none | Expected a parser, but got none: train one.
        --neighbours no/where | Expected `--neighbours` to be a folder or the name""",
    "robustness --baselines chrf": """
         | Expected -i/--input, but got none
        -i none.txt | none.txt, but there is none: correct
        -i empty.txt | Expected empty.txt to hold text, but it is empty
        -i blank.txt | Expected at least two different texts in blank.txt, but got 0
        -i same.txt | Expected at least two different texts in same.txt, but got 1
        -i numberless.txt --types number | Expected texts that allow number, but got none
        -i table.tsv | name it with `--column`
        -i table.tsv --column txt | Expected a column 'txt'
        -i table.tsv --column text --reference-column ref | Expected a column 'ref'
        -i table.tsv --set no-set | no-set""",
    "robustness -i texts.txt": """
        --split test | `--split` together with a data set that has splits … but got texts.txt
        --model no-model | no-model
        --models twmd twmd | Expected each metric once, but got 'twmd' twice
        --baselines best | Expected --baselines to be one of
        --mode source | Expected no `--mode source`, since versions of a text have no sources: leave it out.
        --mode both | Expected no `--mode both`
        --types shout | Expected `--types` to be among identity, repeat
        --types identity | Expected `--types` that change a text, but got identity
        --types passive | Expected --perturbation-parser NAME for type passive
        --types substitute | Expected --neighbours ENCODER for type substitute
        --degrees much | `--degrees` to be whole numbers from 1 on, or 'all'
        --keep texts.txt | but got the input texts.txt
        --keep s.csv | Expected `--keep` to end in .tsv
        --output x.html | to name a folder or table and figure, but got x.html: leave the ending out
        --output x.json --format json | but got x.json: leave the ending out
        --perturbation-parser none | Expected a parser, but got none: train one.
        --reference-column ref --set sfhotel | by --set or by --column""",
    "analyse-layers": """
         | Expected --data, but got none
        --pairs 1000000000000 | Expected --pairs to be at most 10,000,000, but got 1000000000000
        --data gone.txt | gone.txt
        --data empty.txt | is empty
        --data same.txt --encoder encoder | at least two different texts with words, but got fewer
        --data texts.txt --centering batch | but got batch
        --data texts.txt --encoder no-such-encoder | no folder
        --data texts.txt --device teapot | 'teapot'""",
    "export": """
        gone.ckpt | Expected FOLDER, but got none
        gone.ckpt out | gone.ckpt to be the checkpoint of a training run, but there is no such file
        folder out | to be a checkpoint, but it holds no config.json
        runs/gone.ckpt out | or a name (see `textmover list`)
        textmover-gone out | Expected textmover-gone to be
        checkpoint h.txt/metric | h.txt/metric … give a place that can be written""",
    "export checkpoint out": """
        --precision int8 | name what is to be written
        --backend openvino | pip install "textmover[openvino]"
        --backend torch | but got torch
        --untrained 1.5 | `--untrained` to be between 0 (as trained) and 1 (untrained), but got 1.5
        --untrained nan | --untrained to be a finite number, but got nan
        --score-column z | `--ratings FILE` beside `--score-column`
        --ratings gone.csv | gone.csv
        --ratings ratings.tsv | corpus statistics or calibration to fit on --ratings, but got one with neither
        --average gone.ckpt | gone.ckpt to be the checkpoint of a training run, but there is no such file
        --average checkpoint --weights 1 | `--weights` to hold 2 numbers, one for each metric, but got 1
        --average checkpoint --weights 1 -1 | `--weights` to be finite, at least 0 and not all 0, but got
        --weights 1 2 | --average RUN …` beside `--weights`, but got none
        --adapter 0 | Expected --adapter to be at least 1, but got 0
        --adapter 65537 | Expected --adapter to be at most 65,536, but got 65537
        --adapter-dtype float16 | `--adapter RANK` beside `--adapter-dtype`
        --adapter 4 --backend openvino | `--backend` without `--adapter`
        --private | `--push OWNER/NAME` beside `--private`
        --push name | to be a repository such as owner/name, but got 'name'""",
    "fit-mean --output x.safetensors": """
        --data table.tsv | name it with `--column`
        --data table.tsv --column texts | set `--column` to the name
        --data table.tsv --column text --split test | `--split` together with a data set … but got table.tsv
        --data - --column text | standard input (-): leave `--column` out
        --data h.txt --fit-on h.txt | Expected known options, but got --fit-on, an option of `score`
        --data h.txt --encoder encoder --centering sentence | leave it out, or give corpus
        --data blank.txt --encoder encoder | Expected texts to fit on in blank.txt, but all of them are empty.""",
    "fit-mean --data h.txt": """
         | Expected --output, but got none
        --output h.txt | got the input""",
    "fit-idf --data a": "| Expected --output, but got none: give it, as in --output idf.safetensors ( … --help",
    "fit-idf --encoder encoder --output x.safetensors": """
        --data h.txt --weights uniform | `--weights uniform`: leave it out, or give idf""",
    "fit-baseline --encoder encoder --output x.safetensors": """
        --data h.txt --rescale false | leave it out, or give true
        --data same.txt | two different texts""",
}
"""The beginning of a command, and the ends that it is refused with; ``…`` separates parts of the sentence."""

OTHER_FORMATS = {
    "score -i h.txt r.txt": "x.csv json; x.html jsonl; x.json text; x.csv.gz tsv",
    "mbr -i samples.txt --num-candidates 4": "x.csv jsonl; x.tsv text; x.json.gz jsonl; x.jsonl tsv",
    "compare --scores wide.csv": "x.csv json; x.html latex; x.txt html; x.json.gz json",
    "rank --scores wide.csv": "x.csv json; x.png html; x.json csv; x.md latex",
    "perturb -i texts.txt": "x.csv tsv; x.json jsonl; x.jsonl tsv",
    "explain a b": "x.csv json; x.png html; x.json text; x.pdf jsonl",
    "errors a b": "x.csv jsonl; x.html tsv; x.tsv text; x.json jsonl",
}
"""Outputs whose ending is that of another format than the one beside them."""

FILES_ONLY = (
    *OTHER_FORMATS,
    *("fit-idf --data texts.txt --model yisi-1", "check ratings.tsv", "evaluate --data ratings.tsv"),
)
"""Commands that write one file."""

LINES = [f"{begin} {line}" for begin, lines in CASES.items() for line in lines.strip("\n ").splitlines()]
LINES += [
    f"{begin} --output {name} --format {form} | Expected `--output` to end in . … with --format {form}, but got {name}"
    for begin, pairs in OTHER_FORMATS.items()
    for name, form in map(str.split, pairs.split(";"))
]
LINES += [
    f"{begin} --output x.xyz | Expected `--output` to end in . … but got x.xyz: rename it" for begin in FILES_ONLY
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_encoder, checkpoint):
    """The files, an encoder, a checkpoint and an empty folder."""
    folder = tmp_path_factory.mktemp("refusals")
    for name, lines in FILES.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "latin.txt").write_bytes(b"a dog\n\xff\n")
    (folder / "folder").mkdir()
    (folder / "encoder").symlink_to(tiny_encoder)
    (folder / "checkpoint").symlink_to(checkpoint)
    return folder


@pytest.mark.parametrize("line", [" ".join(line.split()) for line in LINES])
def test_what_cannot_be_used_is_refused_in_one_sentence(refused, folder, monkeypatch, line):
    def load_parser(name: str) -> None:
        raise InputError("Expected a parser, but got none: train one.")

    monkeypatch.setitem(sys.modules, "textmover.rome.parsers.pipelines", types.SimpleNamespace(load_parser=load_parser))
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    arguments, _, sentence = line.partition("| ")
    said = refused(*shlex.split(arguments))
    assert [part for part in sentence.split(" … ") if part not in said] == [], said
    assert sorted(folder.iterdir()) == before
