import logging
import pickle
import random

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from properties import examples

from seq2seq.config import TokenizerConfig
from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, train_tokenizer
from seq2seq.errors import DataError

STEMS = ["niñ", "gat", "perr", "cas", "árbol", "corazón", "mañan", "camin", "grand", "com", "corr"]
ENDINGS = ["o", "a", "os", "as", "é", "ía", "emos", "aron", "ando", "ito"]


def sentences(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(
            generator.choice(STEMS) + generator.choice(ENDINGS)
            for _ in range(generator.randint(2, 9))
        )
        + generator.choice(".!?…")
        for _ in range(count)
    ]


TEXTS = sentences(400)


def train(texts: list[str] = TEXTS, size: int = 340, name: str = "source", **config) -> Tokenizer:
    return train_tokenizer(texts, config=TokenizerConfig(**config), vocab_size=size, name=name)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request) -> Tokenizer:
    return train(type=request.param)


def test_special_ids_and_size(tokenizer):
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.vocab_size == 340
    ids = tokenizer.encode("gatos com.")
    assert ids
    assert min(ids) > EOS
    assert max(ids) < tokenizer.vocab_size
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "gatos com."
    assert "".join(tokenizer.pieces(ids)) == "▁gatos▁com."


@given(text=st.text())
@example("«¿Qué?» — 1.º, 2ª … ½ ﬁn Ａ漢字")
@example("😀 👩‍👩‍👧 \N{COMBINING ACUTE ACCENT}e\u0301")
@example("<s> </s> <unk> <pad> <0x41>")
@example("a\0b\tc\u00a0d\u200be\nf")
@example("\ufffd\ufeff")
@example("▁a▁▁b▁")
@examples(300)
def test_any_text_round_trips(tokenizer, text):
    expected = normalize(text.replace("▁", " "))
    assert tokenizer.decode(tokenizer.encode(text)) == expected


def test_corpus_texts_round_trip(tokenizer):
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(TEXTS)] == TEXTS


def test_encode_batch_matches_encode(tokenizer):
    texts = [*TEXTS[:20], "", "  ", "😀"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode_batch([]) == []


def test_decoding_stays_on_one_line(tokenizer):
    newline, space = (tokenizer._processor.PieceToId(piece) for piece in ("<0x0A>", "▁"))
    word = tokenizer.encode("gato")
    assert tokenizer.decode([space, *word, newline, *word, space, space]) == "gato gato"
    assert tokenizer.decode([tokenizer._processor.PieceToId("<0xF0>")]) == "\ufffd"


def test_long_text_without_spaces(tokenizer):
    text = "".join(random.Random(1).choices("abcdeíñ¿😀漢", k=100_000))
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_training_is_deterministic(kind):
    assert train(type=kind)._model_proto == train(type=kind)._model_proto


def test_training_uses_the_first_sentences_only(monkeypatch):
    config = {"max_sentences": 100, "size": 330}
    assert train(TEXTS, **config)._model_proto == train(TEXTS[:100], size=330)._model_proto
    monkeypatch.setattr("seq2seq.data.tokenizer._MAX_TEXTS", sum(map(len, TEXTS[:100])))
    assert train(TEXTS, size=330)._model_proto == train(TEXTS[:100], size=330)._model_proto
    assert train(TEXTS[1:], **config)._model_proto != train(TEXTS, **config)._model_proto


def test_unseen_characters_without_byte_fallback_are_unknown():
    tokenizer = train(size=120, byte_fallback=False)
    assert tokenizer.vocab_size == 120
    ids = tokenizer.encode("gato 😀")
    assert UNK in ids
    assert tokenizer.decode(ids) == "gato"


def test_joint_vocabulary_covers_both_languages():
    english = ["the cat sleeps", "the white house would know why"] * 20
    tokenizer = train([*TEXTS, *english], size=450, name="joint")
    for text in (TEXTS[0], english[1]):
        pieces = tokenizer.pieces(tokenizer.encode(text))
        assert not any(piece.startswith("<0x") for piece in pieces)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_vocabulary_too_large_for_the_text_is_lowered(kind, caplog):
    with caplog.at_level(logging.WARNING):
        tokenizer = train(size=30_000, type=kind)
    assert tokenizer.vocab_size < 30_000
    assert f"fills {tokenizer.vocab_size} pieces, not 30000" in caplog.text
    assert "data.tokenizer.source_vocab_size" in caplog.text
    with pytest.raises(DataError, match=f"target_vocab_size={tokenizer.vocab_size} or less"):
        train(size=30_000, type=kind, name="target", lower_vocab_size=False)


@pytest.mark.parametrize(
    ("name", "key"),
    [("source", "source_vocab_size"), ("target", "target_vocab_size"), ("joint", "source_vocab")],
)
def test_vocabulary_too_small_is_refused(name, key):
    with pytest.raises(DataError, match=rf"{name} tokenizer: data\.tokenizer\.{key}.*256 bytes"):
        train(size=100, name=name)
    with pytest.raises(DataError, match="or more") as caught:
        train(size=20, byte_fallback=False)
    assert "bytes" not in str(caught.value)
    needed = int(str(caught.value).split("vocab_size=")[2].split()[0])
    assert train(size=needed, byte_fallback=False).vocab_size == needed


@pytest.mark.parametrize("texts", [[], ["", " \t\u200b"]])
def test_no_text_is_refused(texts):
    with pytest.raises(DataError, match="no text"):
        train(texts)


def test_training_truncates_long_texts():
    tokenizer = train(["gato " * 10_000], size=270)
    assert "gato" in tokenizer.pieces(tokenizer.encode("gato"))[-1]


def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "source.model"
    path.write_bytes(b"old")
    tokenizer.save(path)
    assert Tokenizer.load(path).encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert [file.name for file in tmp_path.iterdir()] == ["source.model"]


@pytest.mark.parametrize("damage", [lambda m: b"", lambda m: m[: len(m) // 2], lambda m: b"x" * 99])
def test_damaged_files_are_refused_by_name(tokenizer, tmp_path, damage):
    path = tmp_path / "source.model"
    path.write_bytes(damage(tokenizer._model_proto))
    with pytest.raises(DataError, match=r"source\.model.*damaged"):
        Tokenizer.load(path)


def test_pieces_that_are_not_utf8_are_refused():
    proto = train()._model_proto
    assert "ñ".encode() in proto
    with pytest.raises(DataError, match="not a SentencePiece model, or damaged"):
        Tokenizer(proto.replace("ñ".encode(), b"\xff\xfe"))
    with pytest.raises(DataError, match="not a SentencePiece model, or damaged"):
        Tokenizer(proto.replace(b"<0x41>", b"<0x\xff1>"))


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.model"):
        Tokenizer.load(tmp_path / "nowhere.model")
    path = tmp_path / "foreign.model"
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(TEXTS), model_writer=file, vocab_size=60, minloglevel=2
        )
    with pytest.raises(DataError, match=r"foreign\.model.*\(-1, 0, 1, 2\)"):
        Tokenizer.load(path)


def test_tokenizers_can_be_sent_to_other_processes():
    tokenizer = train(size=330)
    tokenizer.pieces(tokenizer.encode(TEXTS[0]))
    assert pickle.loads(pickle.dumps(tokenizer)).encode_batch(TEXTS) == tokenizer.encode_batch(
        TEXTS
    )


def test_letters_are_the_texts_of_pieces(tokenizer):
    texts = {tokenizer.decode([number]) for number in range(tokenizer.vocab_size)}
    assert set(tokenizer.letters) == {
        text.lower() for text in texts if len(text) > 1 and text.isalpha()
    }
    assert len(tokenizer.letters) > 20


def test_training_is_silent(capfd):
    train(size=330)
    assert capfd.readouterr() == ("", "")
