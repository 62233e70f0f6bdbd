"""What publishers offer, made small: files of each set in their published layout, and rows that come out of them."""

import functools
import io
import json
import pickle
import tarfile
import zipfile

A, B = "The cat sat .", "A dog ran ."


def lines(*texts):
    return "".join(f"{text}\n" for text in texts).encode()


def tsv(*rows):
    return lines(*("\t".join(row) for row in rows))


def zipped(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return stream.getvalue()


def das(year, prefix, pairs):
    folder = f"DAseg-wmt-newstest{year}/{prefix}newstest{year}"
    texts = {
        "source": ("Kočka", "Pes"),
        "reference": (A, B),
        "mt-system": ("The cat sit .", " A dog . "),
        "human": ("0.5", "-1"),
    }
    return {f"{folder}.{kind}.{lp}": lines(*two) for kind, two in texts.items() for lp in pairs}


def wmt17():
    from textmover.readers.public_sets.catalogue import named_sets

    files = {
        "WMT17/DA-seglevel.csv": lines(
            "LP DATA SYSTEM SID HUMAN",
            "cs-en newstest2017 online-A.0+PJATK.4760 2 0.25",
            "zh-en newstest2017 CASICT-cons.5144 1 -0.5",
            "zh-en newstest2017 ROCMT.5167 1 0",
        )
    }
    for one in named_sets()["wmt17-da"].parts[""].each:
        lp, joined, language = one["lp"], one["joined"], one["language"]
        files[f"WMT17/sources/newstest2017-{joined}-src.{language}"] = lines("eins", "zwei")
        files[f"WMT17/references/newstest2017-{joined}-ref.en"] = lines(A, B)
        files[f"WMT17/system-outputs/newstest2017/{lp}/newstest2017.{one['system']}.{lp}"] = lines(
            f"first of {one['system']}", f"second of {one['system']}"
        )
    return files


HUB = (
    b"lp,src,mt,ref,score,raw,annotators,domain,year\n"
    + "".join(
        f'de-en,Hund,"A dog, {year}",A dog.,0.5,80,2,news,{year}\nen-de,Dog,Hund,Hund,1,90,1,news,{year}\n'
        for year in range(2017, 2023)
    ).encode()
)


def mlqe(*pairs):
    files = {}
    for lp in pairs:
        for part in ("train", "dev"):
            folder = f"{lp}-{part}"
            header = ("index", "original", "translation", "scores", "mean", "z_scores", "z_mean", "model_scores")
            rated = ("0", "Kass", 'The "cat"', "[90]", "90.0", "[1]", "1.0", "-0.1")
            files[f"direct-assessments/{part}/{folder}.tar.gz"] = tarred(
                {f"{folder}/{part}.{lp.replace('-', '')}.df.short.tsv": tsv(header, rated)}
            )
            beside = {"mt": 'The " cat "', "pe": 'The man \'s " cat " .', "hter": "0.400000", "tags": "OK OK OK"}
            files[f"post-editing/{part}/{folder}.tar.gz"] = tarred(
                {f"{folder}/{part}.{kind}": lines(text) for kind, text in beside.items()}
            )
    return files


def sts():
    from textmover.readers.public_sets.catalogue import named_sets

    rated = tsv(("4.500", A, B), ("", A, A))
    return {"{year}/{task}.{split}.tsv".format(**one): rated for one in named_sets()["sts12-16"].parts[""].each}


def glue(name, folder, header, *rows, files=("train", "dev")):
    return {name: zipped(**{f"{folder}/{one}.tsv": tsv(header, *rows) for one in files})}


MEDIANS = "jeknov/EMNLP_17_submission/ed7b6678135001519006365cb36855ccc17aa54e/emnlp_data_medians.csv"
TEXTS = "neulab/BARTScore/40c658fb5c8686cfef852bb73777439beb7d44ef/D2T/{}/data.pkl"


def d2t():
    item = {
        "src": "inform(a)",
        "sys_summ": A,
        "ref_summs": [B, A, B],
        "scores": {"informativeness": 6.0, "naturalness": 4.0, "quality": 5.0},
    }
    table = b"".join(
        f'"{name}","LOLS","inform","inform(a)","a, b",6,4,5\n'.encode() for name in ("BAGEL", "SFHOT", "SFRES")
    )
    return {
        **{TEXTS.format(name): pickle.dumps({0: item}) for name in ("BAGEL", "SFHOT", "SFRES")},
        MEDIANS: b"dataset,system,mr_type,mr,sys_ref,informativeness,naturalness,quality\n" + table,
    }


def webnlg():
    files = {
        "triples.txt": lines("a | b | c", "d | e | f"),
        **{f"reference{n}": lines(f"r{n}", f"s{n}") for n in range(3)},
    }
    systems = "adapt baseline melbourne pkuwriter tilburg-nmt tilburg-pipe tilburg-smt upf-forge vietnam"
    for system in systems.split():
        files[f"teams-generations/{system}.txt"] = b"first\n\n" if system == "tilburg-pipe" else b"first\nnull"
        for kind in ("fluency", "grammar", "semantics"):
            files[f"human-annotations/{kind}/{system}.txt"] = lines("3.0", "1.0")
    return files


SUMMARY = {
    "id": "dm-test-1",
    "decoded": A,
    "expert_annotations": [{"coherence": 4}],
    "turker_annotations": [],
    "references": [B],
    "model_id": "M8",
    "filepath": "cnndm/1.story",
}
TREE = lines("# sent_id = 1", "# text = The cat sat.", "1\tThe\tthe", "")
WMT15 = ("cs-en", "de-en", "fi-en", "ru-en")
WMT16 = ("cs-en", "de-en", "fi-en", "ro-en", "ru-en", "tr-en")
NLI = f"premise={A}; hypothesis={B}; label=entailment"


@functools.cache
def files_of(name):
    """Path behind the address of a set → content."""
    if name.startswith("wmt") and name[3:5] in ("18", "19", "20", "21", "22"):
        return {"train.csv": HUB}
    return MADE[name]()


SICK = tsv(
    ("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score", "SemEval_set"),
    ("1", A, B, "NEUTRAL", "3.2", "TEST"),
    ("2", B, A, "NEUTRAL", "4", "TRAIN"),
)
COLA = {
    f"CoLA/original/raw/{one}.tsv": tsv(("gj04", "0", "*", 'Cat the "sat.'))
    for one in ("in_domain_train", "in_domain_dev", "out_of_domain_dev")
}
QQP = b'id,qid1,qid2,question1,question2,is_duplicate\n7,1,2,"Who, me?",Which?,1\n'
PAWS = tsv(("id", "sentence1", "sentence2", "label"), ("1", A, B, "0"))
PAWS_X = lines("id,error,source,ref,r,hyp_para", *["0,add,Katze,The cat,x,A cat"] * 2)
SNLI = tsv(("gold_label", "sentence1_parse", "sentence1", "sentence2"), ("entailment", "(", A, B), ("-", "(", A, B))
SPLITS = ("train", "dev", "test")

MADE = {
    "wmt15-da": lambda: das(2015, "", WMT15),
    "wmt16-da": lambda: das(2016, "DAseg.", WMT16),
    "wmt17-da": wmt17,
    "wmt-news": lambda: das(2015, "", WMT15) | das(2016, "DAseg.", WMT16),
    "mlqe-pe": lambda: mlqe("et-en", "ne-en", "ro-en", "ru-en", "si-en"),
    "mlqe-pe-from-english": lambda: mlqe("en-de", "en-zh"),
    "sts12-16": sts,
    "stsb": lambda: {f"stsb-en-{split}.csv": b'"A cat, sitting",A dog.,2.500\n' for split in SPLITS},
    "sick": lambda: {"SICK.zip": zipped(**{"SICK.txt": SICK})},
    "mnli": lambda: glue(
        "MNLI.zip",
        "MNLI",
        ("index", "genre", "sentence1", "sentence2", "gold_label"),
        ("0", "fiction", A, B, "entailment"),
        files=("train", "dev_matched", "dev_mismatched"),
    ),
    "qnli": lambda: glue("QNLIv2.zip", "QNLI", ("index", "question", "sentence", "label"), ("0", A, B, "entailment")),
    "rte": lambda: glue("RTE.zip", "RTE", ("index", "sentence1", "sentence2", "label"), ("0", A, B, "entailment")),
    "cola": lambda: {"CoLA.zip": zipped(**COLA)},
    "qqp": lambda: glue(
        "QQP-clean.zip",
        "QQP",
        ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        ("0", "1", "2", "Who?", "Which?", "1"),
        ("3", "4", "5", "cut off"),
    ),
    "qqp-positives": lambda: dict.fromkeys(("eval.csv", "test.csv"), QQP),
    "paws": lambda: {"paws_wiki_labeled_final.tar.gz": tarred({f"final/{one}.tsv": PAWS for one in SPLITS})},
    "paws-x": lambda: {f"{one}/data.csv": PAWS_X for one in ("de", "fr", "ja", "zh")},
    "snli": lambda: {"snli_1.0.zip": zipped(**{f"snli_1.0/snli_1.0_{one}.txt": SNLI for one in SPLITS})},
    "bagel-sfhotel-sfrest": d2t,
    "webnlg17": webnlg,
    "summeval": lambda: {"model_annotations.aligned.jsonl": lines(json.dumps(SUMMARY))},
    "ud-ewt": lambda: {f"en_ewt-ud-{one}.conllu": TREE for one in SPLITS},
    "tatoeba": lambda: {
        f"tatoeba.{one['language']}-eng.eng": lines("Hello.", f"In {one['language']}.") for one in tatoeba()
    },
}


def tatoeba():
    from textmover.readers.public_sets.catalogue import named_sets

    return named_sets()["tatoeba"].parts[""].each


def cells(text):
    return dict(one.split("=", 1) for one in text.split("; "))


DA = f"""
wmt15-da | 8 | -1 | year=2015; lp=ru-en; system=; seg_id=2; source=Pes; reference={B}; hypothesis=A dog .; score=-1
wmt16-da | 12 | 6 | year=2016; lp=ro-en; system=; seg_id=1; source=Kočka; reference={A}; hypothesis=The cat sit .; \
score=0.5
wmt17-da | 2 | 0 | year=2017; lp=cs-en; system=online-A.0+PJATK.4760; seg_id=2; source=zwei; reference={B}; \
hypothesis=second of online-A.0; score=0.25
"""
DA += "".join(
    f"wmt{year}-da | 1 | 0 | year=20{year}; lp=de-en; system=; seg_id=; source=Hund; reference=A dog.; "
    f"hypothesis=A dog, 20{year}; score=0.5\n"
    for year in range(18, 23)
)
POST_EDITED = (
    'source=Kass; hypothesis=The "cat"; reference=The man\'s "cat".; z_mean=1.0; da_mean=90.0; hter=0.400000; '
    'hypothesis_tokens=The " cat "; reference_tokens=The man \'s " cat " .; tags=OK OK OK'
)
OTHERS = f"""
wmt-news | 2 | 0 | year=2015; file=DAseg reference; sentence={A}
mlqe-pe | 10 | 1 | part=dev; lp=et-en; {POST_EDITED}
mlqe-pe-from-english | 4 | 1 | part=dev; lp=en-de; {POST_EDITED}
sts12-16 | 25 | 4 | year=2012; task=SMTeuroparl; split=train; sentence1={A}; sentence2={B}; score=4.5
stsb | 3 | 1 | split=dev; sentence1=A cat, sitting; sentence2=A dog.; score=2.500
sick | 2 | 1 | split=test; pair_id=1; sentence1={A}; sentence2={B}; relatedness=3.2; entailment=NEUTRAL
mnli-dev | 2 | 0 | {NLI}
mnli-train qnli-dev qnli-train rte-train rte-dev snli-dev snli-train snli-test | 1 | 0 | {NLI}
cola-train cola-in-domain-dev cola-out-of-domain-dev | 1 | 0 | \
source=gj04; label=0; original_mark=*; sentence=Cat the "sat.
qqp-train qqp-dev | 1 | 0 | question1=Who?; question2=Which?; is_duplicate=1
qqp-positives | 2 | 1 | file=test; id=7; question1=Who, me?; question2=Which?; is_duplicate=1
paws-train paws-dev paws-test | 1 | 0 | sentence1={A}; sentence2={B}; label=0
paws-x | 1 | 0 | sentence1=The cat; sentence2=A cat; label=1
"""
LINES = [line.split(" | ") for line in (DA + OTHERS.lstrip()).strip().splitlines()]
RATED = {"informativeness": 6.0, "naturalness": 4.0, "quality": 5.0}
D2T = cells(f"dataset=SFHOT; id=0; system=LOLS; mr=inform(a); hypothesis={A}") | {"references": [B, A]} | RATED
WEBNLG = cells("year=2017; system=adapt; triples=d | e | f; hypothesis=null") | {"references": ["s0", "s1", "s2"]}
WEBNLG |= {"sample": 2, "fluency": 1.0, "grammar": 1.0, "semantics": 1.0}
ROWS = {
    **{name: (int(n), int(at), cells(row)) for names, n, at, row in LINES for name in names.split()},
    "bagel-sfhotel-sfrest": (3, 1, D2T),
    "webnlg17": (17, 1, WEBNLG),
    "summeval": (1, 0, {key: value for key, value in SUMMARY.items() if key != "filepath"}),
    "ud-ewt-sentences": (3, 2, "The cat sat."),
    **dict.fromkeys(("ud-ewt-train", "ud-ewt-dev", "ud-ewt-test"), (4, 2, "1\tThe\tthe")),
    "tatoeba": (113, 112, "In zsm."),
}
"""Name → number of rows, the place of one of them, and that row."""
