"""Texts that a metric reads badly are flagged, counted, told of once and written; plain English is not."""

import csv
import errno
import functools
import itertools
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from textmover.modules.encoder.known_encoders import languages_of
from textmover.modules.tokens import text_flags as text_flags_module
from textmover.modules.tokens.text_flags import (
    MIN_SAME,
    MIN_UNITS,
    SCRIPT_LANGUAGES,
    _identifier,
    _loaded_identifier,
    is_english,
    is_foreign,
    other_script,
    repeats_phrase,
    same_outputs,
    side_flags,
    text_flags,
)
from textmover.presets import build_metric, preset_config
from textmover.report.explanation.parts import FLAGS, flag_notes
from textmover.scoring import Scorer
from textmover.scoring.engine.pair_results import READERS, WARNINGS, unusual
from textmover.types import InputError, SourcedReferences

UNKNOWN, SCRIPT, LANGUAGE, REPETITION, LOOK_ALIKES = "unknown", "script", "language", "repetition", "look-alikes"
TEXTS = {
    "Доброе утро, как дела?": {SCRIPT},
    "Сегодня хорошая погода.": {SCRIPT},
    "今天天气很好。": {UNKNOWN, SCRIPT},
    "我喜欢喝茶": {UNKNOWN, SCRIPT},
    "今日はいい天気です。": {UNKNOWN, SCRIPT},
    "オレンジとリンゴ": {SCRIPT},
    "오늘 날씨가 좋아요": {SCRIPT},
    "저는 차를 좋아해요": {SCRIPT},
    "الطقس جميل اليوم": {SCRIPT},
    "أحب الشاي": {SCRIPT},
    "מזג האוויר יפה היום": {SCRIPT},
    "आज मौसम अच्छा है": {UNKNOWN, SCRIPT},
    "मुझे चाय पसंद है": {UNKNOWN, SCRIPT},
    "วันนี้อากาศดี": {UNKNOWN, SCRIPT},
    "ฉันชอบชา": {UNKNOWN, SCRIPT},
    "Ο καιρός είναι καλός σήμερα": {SCRIPT},
    "დღეს კარგი ამინდია": {SCRIPT},
    "այսօր լավ եղանակ է": {UNKNOWN, SCRIPT},
    "ዛሬ አየሩ ጥሩ ነው": {UNKNOWN, SCRIPT},
    "😀": {UNKNOWN},
    "🎉 🎂": {UNKNOWN},
    "Great job 🎉": {UNKNOWN},
    "We met at the station, had tea and went home 🎉": set(),
    "I love 北京烤鸭 and 饺子 very much": {UNKNOWN, SCRIPT},
    "The old teacher wrote the word чай on the board.": set(),
    "def area(x): return 3.14 * x ** 2": set(),
    '<p class="a">Tea &amp; cake</p>': set(),
    "Zoë's café serves crème brûlée für Größen, 25 m²": set(),
    "It costs 5 € - or £4.50 … “cheap”": set(),
    "I do not know. I do not know. I do not know. I do not know.": {REPETITION},
    "我不知道。我不知道。我不知道。我不知道。": {UNKNOWN, SCRIPT, REPETITION},
    "Thank you so much!!!!!!!!!!!!!!!!!!!!": set(),
    "": set(),
    "Ich weiß nicht, wo meine Schlüssel sind.": {LANGUAGE},
    "Mon frère veut acheter une nouvelle voiture.": {LANGUAGE},
    "Mi hermano compró ayer un coche nuevo.": {LANGUAGE},
    "Kardeşim dün yeni bir araba aldı.": {LANGUAGE},
    "Il treno arriva alla stazione alle otto e il gatto dorme su una sedia di legno in casa mia da ieri": {LANGUAGE},
    "Il treno arriva alle otto": {LANGUAGE},
    "Hund und Katze": {LANGUAGE},
    "two dogs": set(),
    "Café Zoë serves cheap Italian food.": set(),
    "John van den Brom plays for ADO Den Haag.": set(),
    "Thank you. Thank you. Thank you.": {REPETITION},
    "The company said on Monday that it would raise the wages of all its workers by ten percent. " * 3: {REPETITION},
    "The o\ufb03ce is closed, and the \ufb01rst \ufb02oor too.": {LOOK_ALIKES},
    "\uff34\uff48\uff45 office is closed today, as the sign on its door says.": {LOOK_ALIKES},
    "Th\u0435 office is closed today.": {LOOK_ALIKES},
    "The \U0001d41b\U0001d428\U0001d425\U0001d41d word is new, and all the other words are old.": {LOOK_ALIKES},
    "The cat sat \u03bfn the mat.": {LOOK_ALIKES},
    "The hall is 2πr long, and the Δx is 3 µm.": set(),
    "Renée's brother Jürgen bought a new car yesterday.": set(),
}
"""Flags of texts with the embedded encoder, which was made for English: 13 scripts, emoji, code, mixed texts, loops."""


@pytest.fixture(scope="module")
def metric(embedded):
    return build_metric(preset_config("twmd")).eval()


def flags_of(metric, texts):
    found = text_flags(metric.tokenize(texts), metric.languages)
    return [{name for name, marked in found.items() if marked[row]} for row in range(len(texts))]


def test_texts_in_many_scripts(metric):
    assert len(TEXTS) > 30
    assert dict(zip(TEXTS, flags_of(metric, list(TEXTS)), strict=True)) == TEXTS


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("The ca\u00adt sat on the ma\u00adt.", True),
        ("The c\u200dat sat on the mat.", True),
        ("\u0412\u043e\u0301\u0442 \u043c\u043e\u0439 \u0434\u043e\u043c", True),
        ("Т\u0336h\u0336e", True),
        ("\u0422h\u0435 c\u0430t", True),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", False),  # Persian, which is written with it
        ("\U0001f469\u200d\U0001f680 flies", False),
        ("The o\ufb03ce; й and ё; IT-отдел", False),
        ("\U0001d413\U0001d421\U0001d41e \U0001d41c\U0001d41a\U0001d42d", False),  # read as plain letters
    ],
)
def test_signs_that_many_languages_do_not_have(metric, text, flagged):
    found = text_flags(metric.tokenize([text]), languages_of("multilingual-e5-small"))
    assert found[LOOK_ALIKES].tolist() == [flagged]
    assert not found[SCRIPT].any()


def test_separators_that_nobody_sees_are_spaces(metric):
    for sign in "\x0b\x0c\x1c\x85\u200b\u2028\u2029":
        assert metric.tokenize([f"The{sign}cat sat."]).texts == ("The cat sat.",)


def test_plain_english_is_not_flagged(metric, shared_folder):
    folder = shared_folder / "data" / "english_sentences"
    with (folder / "wmt_newstest_english.tsv").open(encoding="utf-8") as stream:
        texts = [row[-1] for row in csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    texts += (folder / "ud_ewt_sentences.txt").read_text(encoding="utf-8").splitlines()[: 10_000 - len(texts)]
    found = [text_flags(metric.tokenize(texts[at : at + 64]), metric.languages) for at in range(0, len(texts), 64)]
    flagged = sum(flags[name].sum() for flags in found for name in (UNKNOWN, SCRIPT, LANGUAGE, REPETITION, LOOK_ALIKES))
    assert len(texts) == 10_000
    assert flagged < 0.001 * len(texts)


def test_languages_are_those_of_the_encoder(tiny_metric):
    assert languages_of("all-MiniLM-L6-v2+9b0a8fc4@53aa5117") == languages_of("org/roberta-large@1") == ("en",)
    assert languages_of("xlm-roberta-base@1") == tiny_metric().languages == ()
    assert (other_script("Доброе утро", ()), other_script("Доброе утро", ("en", "ru"))) == ("", "")
    assert (other_script("Good morning", ("zh",)), other_script("早上好 OK", ("zh",))) == ("Latin", "Latin")
    assert other_script("გამარჯობა", ("en",)) == "Georgian"


def sentences_by_language(name="twenty_languages.tsv"):
    path = Path(__file__).parents[1] / "data" / name
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return {code: [text for one, text in rows if one == code] for code, _ in rows}


def pairs_of_languages(name="twenty_languages.tsv"):
    """Two texts of each language, which share most sentences, and all pairs of languages."""
    texts = {code: (" ".join(one[:4]), " ".join(one[1:])) for code, one in sentences_by_language(name).items()}
    return texts, list(itertools.product(texts, texts))


def test_a_multilingual_encoder_reads_a_hundred_languages_but_not_all():
    read = languages_of("multilingual-e5-small@1aabcf17")
    assert len(read) == len(set(read)) >= 90
    texts = sentences_by_language()
    assert set(texts) <= set(read)
    assert not any(other_script(one, read) for found in texts.values() for one in found)
    for codes in map(str.split, SCRIPT_LANGUAGES.values()):
        others = tuple(one for one in read if one not in codes)
        assert all(other_script(one, others) for code in codes for one in texts.get(code, ()))
    assert other_script("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", read) == "Cherokee"
    for kind in (UNKNOWN, SCRIPT):  # there is no better metric to name
        assert unusual(kind, 1, (), read).endswith(": such results mean little")
        assert "--model textmover-multilingual" in unusual(kind, 1, (), ("en",))


SYMBOLS, LETTERS = READERS["symbols"], READERS["letters"]


@pytest.mark.parametrize(
    ("example", "ways_out"),
    [
        ("早上好", [LETTERS]),
        ("שלום", [LETTERS]),
        ("ᏣᎳᎩ", []),  # which textmover-multilingual does not read
        ("😀", [SYMBOLS]),
        ("∮", [SYMBOLS]),
    ],
)
def test_the_way_out_reads_the_examples(example, ways_out):
    said = unusual(UNKNOWN, 1, [repr(example)], ("en",))
    assert [one for one in (LETTERS, SYMBOLS) if one in said] == ways_out
    assert (LETTERS in unusual(UNKNOWN, 1, [repr(example)], languages_of("multilingual-e5-small"))) is False


def test_the_identifier_of_the_cache_is_that_of_the_package():
    package = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    package.set_languages([code for code in package.labels if len(code) == 2])
    for text in TEXTS:
        assert _identifier().rank(text) == package.rank(text)


def test_threads_load_the_identifier_once(monkeypatch):
    calls = []
    monkeypatch.setattr(
        text_flags_module, "_loaded_identifier", functools.cache(lambda: (time.sleep(0.1), calls.append(1)))
    )
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _identifier(), range(4)))
    assert calls == [1]


def test_a_full_disk_is_told(monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("py3langid.langid.LanguageIdentifier.from_model_file", full)
    with pytest.raises(InputError, match=r"No space left on device\. .*TMPDIR"):
        _loaded_identifier.__wrapped__()


def test_english_is_told_from_other_languages_by_the_words_of_its_grammar():
    found = {code: is_english(4 * texts) for code, texts in sentences_by_language().items()}
    assert [code for code, english in found.items() if english] == ["en"]
    assert is_english([])
    assert is_english(
        ["Der Bahnhof", "Los Angeles and Las Vegas, San Jose", "Die hard fans die young"]
    )  # of no language
    for foreign in (
        "Hund und Katze",
        "Dwóch żołnierzy zostało rannych.",
        "İki asker yaralandı.",
        "Két katona sebesült.",
    ):
        assert not is_english([foreign])


def test_a_hypothesis_in_the_language_of_its_source_is_told_from_a_translation():
    named = {
        "twenty_languages.tsv": {"en", "de", "es", "fr", "ro"},
        "short_sentences.tsv": {"de", "fr", "es", "pt", "it", "sv"},
    }
    for name, codes in named.items():
        texts, pairs = pairs_of_languages(name)
        beside = [SourcedReferences((), texts[other][1]) for _, other in pairs]
        found = side_flags([texts[one][0] for one, _ in pairs], beside)
        flagged = {pair for pair, mark in zip(pairs, found["untranslated"], strict=True) if mark}
        assert all(one == other for one, other in flagged)
        assert {one for one, _ in flagged} >= codes
        assert not found["copied"].any()


def test_other_forms_of_the_same_letters_are_a_copy():
    copies = [
        "Cafe\u0301  ist gut.",
        "Caf\u00e9 ist gut.\u200b",
        "\ufeffCaf\u00e9 ist gut\uff0e",
        "Ca\u00adf\u00e9\u200bist gut.",
    ]
    found = side_flags([*copies, "Cafe ist gut."], [SourcedReferences((), "Caf\u00e9 ist gut.")] * 5)
    assert found["copied"].tolist() == [True] * 4 + [False]


def test_a_hypothesis_in_another_language_than_its_reference_is_told():
    texts, pairs = pairs_of_languages()

    def flagged(languages=()):
        beside = [SourcedReferences([texts[other][1]]) for _, other in pairs]
        metric = SimpleNamespace(languages=languages)
        found = side_flags([texts[one][0] for one, _ in pairs], beside, metric)["off target"]
        return {pair for pair, mark in zip(pairs, found, strict=True) if mark}

    latin = {"cs", "de", "en", "es", "et", "fi", "fr", "ro", "sw", "tr"}
    scripts = {code: "Latin" if code in latin else code for code in texts} | {"ja": "zh"}  # which share Han
    assert flagged() >= {(one, other) for one, other in pairs if scripts[one] != scripts[other]}
    assert flagged() >= set(itertools.permutations(("de", "en", "es", "fr"), 2))
    assert all(one != other for one, other in flagged())
    assert flagged(("en",)) == set()  # whose flags tell which texts are not English


@pytest.mark.parametrize(
    ("text", "references", "off"),
    [
        ("Он идёт в школу.", ["He goes to school."], True),
        ("Er geht in die Schule und ist nicht da.", ["He goes to school and is not there."], True),
        ("He goes to school.", ["Er geht in die Schule.", "He walks to school."], False),  # one of them is enough
        ("据《滚石》(The Rolling Stones) 报道", ["据《滚石》主唱米克报道"], False),  # names in Latin letters
        ("1,000 €", ["Я в зале."], False),
        ("Я в зале.", [], False),
    ],
)
def test_names_and_numbers_are_of_no_language(text, references, off):
    assert side_flags([text], [SourcedReferences(references)])["off target"].tolist() == [off]


def test_a_text_is_foreign_to_every_language_but_its_own():
    texts = {code: " ".join(sentences) for code, sentences in sentences_by_language().items()}
    for code, text in texts.items():
        assert [other for other in texts if not is_foreign(text, other)] == [code]


@pytest.mark.parametrize(
    ("text", "language", "foreign"),
    [
        ("", "en", False),
        ("1,000 €", "zh", False),
        ("Los Angeles", "de", False),  # a name may be of any language
        ("iPhone 15 Pro", "zh", False),
        ("据《滚石》(The Rolling Stones) 报道", "zh", False),
        ("Да", "en", True),  # by its letters alone
        ("Да", "bg", False),
        ("Да", "zh", True),
        ("Jeg har ikke sett dem siden i går.", "no", False),
        ("Jeg har ikke sett dem siden i går.", "nb", False),  # a code that the identifier does not use
        ("Der Zug kommt um acht Uhr an.", "nb", True),
        ("Jeg har ikke sett dem siden i går.", "de", True),
        ("Мин ачкычларымның кайда икәнен белмим.", "tt", False),  # in Cyrillic letters
        ("Мин асҡыстарымдың ҡайҙа икәнен белмәйем.", "ba", False),
        ("Ман намедонам, ки калидҳои ман дар куҷоянд.", "tg", False),
        ("Да", "tt", False),
        ("Менинг калитларим қаерда эканлигини билмайман.", "uz", False),  # in two scripts
        ("Не знам гдје су ми кључеви.", "bs", False),
        ("Mera naam Rahul hai aur main Dilli mein rehta hoon.", "hi", False),  # romanised
        ("Tokyo (東京)", "en", False),
        ("Its name in Greek is γαμμάδιον.", "en", False),
        ("See https://www.tagesschau.de/inland/bundestag-wahl-ergebnis-101.html", "en", False),
        ("Siehe www.tagesschau.de/inland/bundestag-wahl-ergebnis-101.html", "fr", False),
        ("Volkswagen Aktiengesellschaft, Wolfsburg, Germany", "en", False),
        ("Marcus Cornelius M. f. Maluginensis, Konsul 436 v. Chr.", "de", False),
        ("Rowe Mores gründete 1762 die Society for Equitable Assurances on Lives and Survivorship.", "de", False),
        ("KANNST DU MIR BITTE SAGEN, WO DER BAHNHOF IST?", "en", True),
        ("Killarney号轮船于4月26日抵达曼谷，船上有很多旅客。", "en", True),
    ],
)
def test_names_are_of_any_language_and_letters_of_some(text, language, foreign):
    assert is_foreign(text, language) == foreign


def test_a_warning_shared_by_metrics_names_the_target_language():
    ending = "or than the target language if one is set (then it scores as an empty text): such results mean little"
    assert unusual("off target", 2).endswith(ending)
    assert "target" not in unusual("off target", 2, metric=SimpleNamespace())


@pytest.mark.parametrize("name", ["twenty_languages.tsv", "short_sentences.tsv"])
@pytest.mark.parametrize("cased", [str, str.upper, str.lower])
def test_no_sentence_is_foreign_to_its_own_language(name, cased):
    for code, sentences in sentences_by_language(name).items():
        assert [text for text in sentences if is_foreign(cased(text), code)] == []
        assert sum(is_foreign(cased(text), "fr") for text in sentences) >= 4 or code == "fr"


def test_a_quotation_at_either_end_or_both_leaves_a_text_in_its_language():
    german, english = "Der Zug kommt heute erst um acht Uhr an. ", "The train will not arrive before eight today. "
    for text in (5 * english + 5 * german, 5 * german + 5 * english, 5 * english + 5 * german + 5 * english):
        assert (is_foreign(text, "de"), is_foreign(text, "fr")) == (False, True)
    assert is_foreign(9 * english + "Berlin.", "de")


def test_a_language_that_cannot_be_told_is_refused_before_any_text(tiny_metric):
    with pytest.raises(InputError, match=r"Expected `target_language` to be one of af, am, .*, but got 'xx'"):
        tiny_metric(target_language="xx")


@pytest.mark.parametrize(("code", "texts"), sentences_by_language("short_sentences.tsv").items())
def test_sets_of_short_sentences_are_warned_of(metric, code, texts, caplog):
    """Four words and more, most without a letter that English lacks: too few for the share of English words."""
    found = Scorer(metric).score(texts, texts[::-1])
    assert found.counts[LANGUAGE] >= 0.5 * len(texts)
    assert sum(WARNINGS[LANGUAGE] in one.message for one in caplog.records) == 1


def test_short_english_sentences_are_not_flagged(shared_folder):
    path = shared_folder / "data" / "english_sentences" / "tatoeba_laser_eng.txt"
    texts = path.read_text(encoding="utf-8").splitlines()
    assert len(texts) > 60_000
    flagged = [not is_english([text]) for text in texts]
    assert sum(flagged) < 0.0001 * len(texts)
    assert all(sum(flagged[start : start + 20]) <= 2 for start in range(0, len(texts), 20))  # as a set of sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the " * MIN_UNITS, True),
        ("the " * 3, False),
        ("He said that " + "the the " * 6, True),
        ("one two three four five six seven eight nine ten eleven twelve", False),
        ("the cat sat on the mat " * 2, False),
        ("the cat sat on the mat " * 3, True),
        ("=" * 80, False),
    ],
)
def test_loops(text, expected):
    assert repeats_phrase(text) is expected


def test_a_reference_may_repeat_what_it_likes_and_a_hypothesis_stand_for_the_same_reference(metric):
    loop, plain = "I do not know. " * 4, "What shall we do?"
    found = Scorer(metric).score([plain, loop], [loop, plain])
    assert found.flags[REPETITION].tolist() == [False, True]
    assert found.counts == {REPETITION: 1}
    assert not same_outputs(["yes"] * 9, [["a", "b"]] * 9).any()
    assert not same_outputs([""] * 9, [[str(number)] for number in range(9)]).any()
    for size, flagged in ((100, 5), (101, 0)):  # sentences that are in several pairs of a large set are usual
        rows = [str(number) for number in range(size)]
        assert same_outputs([*["yes"] * 5, *rows[5:]], [[one] for one in rows]).sum() == flagged
    for number in (49, 50):  # in a set however large
        rows = [str(one) for one in range(2_000)]
        found = same_outputs([*["yes"] * number, *rows[number:]], [[one] for one in rows])
        assert found.sum() == (number if number >= 50 else 0)


def test_flags_are_counted_and_told_of_once_with_examples_and_the_way_out(metric, caplog):
    hypotheses = ["Привет, мир", "😀", *["yes"] * MIN_SAME, "yes yes " * 6, "A cat sat."]
    references = ["Доброе утро", "🎉", *"abcde", "no", "A cat sat."]
    scorer = Scorer(metric)
    with caplog.at_level(logging.WARNING):
        found = scorer.score(hypotheses, references)
        scorer.score(hypotheses, references)
    assert found.counts == {"empty": 1, UNKNOWN: 1, SCRIPT: 1, REPETITION: 1, "same output": MIN_SAME}
    assert {name: int(marked.sum()) for name, marked in found.flags.items()} == found.counts
    assert np.flatnonzero(found.flags["same output"]).tolist() == [2, 3, 4, 5, 6]
    assert set(found.counts) <= set(WARNINGS)
    told = {kind: [one.message for one in caplog.records if WARNINGS[kind] in one.message] for kind in found.counts}
    assert {kind: len(messages) for kind, messages in told.items()} == dict.fromkeys(found.counts, 1)
    for kind, example in (
        (UNKNOWN, "'😀', '🎉'"),
        (SCRIPT, "(Cyrillic)"),
        (REPETITION, "'yes yes"),
        ("same output", "'yes'"),
    ):
        assert f", such as {example}" in told[kind][0] or example in told[kind][0]
    assert [sum(way in told[kind][0] for kind in (UNKNOWN, SCRIPT)) for way in (LETTERS, SYMBOLS)] == [1, 1]


def test_an_explanation_shows_them(metric):
    found = Scorer(metric).explain("Привет, мир", "утро 🎉")
    assert set(found.flags) == {UNKNOWN, SCRIPT}
    assert set(flag_notes(found)[:2]) == {FLAGS[UNKNOWN], FLAGS[SCRIPT]}
    assert flag_notes(found)[-1].endswith(": 🎉")
    assert str(found).splitlines()[1:4] == [f"note: {one}" for one in flag_notes(found)]
    assert FLAGS[SCRIPT] in super(type(found), found)._repr_html_()
