"""The tree of a beam search, against a plain search that ranks the same hypotheses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import ANY, length_limit, log_prob, pieces_after, plain_score
from prefix_model import BOS, EOS, PrefixModel, prefix_model
from properties import examples

from seq2seq.cli import main
from seq2seq.inference.protocol import BeamNode
from seq2seq.inference.search import SearchOptions, search
from seq2seq.inference.translator import Translator

any_options = st.builds(
    SearchOptions,
    beam_size=st.integers(1, 5),
    length_penalty=st.sampled_from([0.0, 0.6, 1.7]),
    coverage_penalty=st.sampled_from([0.0, 0.2]),
    max_length_factor=st.sampled_from([0.01, 1.0]),
    max_length_offset=st.integers(1, 4),
    no_repeat_ngram=st.integers(0, 2),
)


def plain_tree(
    model: PrefixModel, sentence: int, length: int, options: SearchOptions, depth: int
) -> list[tuple[tuple[int, ...], str]]:
    """Return hypotheses with what became of them, step by step, if the search ends at a depth."""
    limit = length_limit(length, options, ANY)
    found: dict[tuple[int, ...], str] = {(): "unfinished"}
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished = 0
    for _ in range(depth):
        ranked = sorted(
            (
                (total + log_prob(model, sentence, tokens, piece), (*tokens, piece))
                for total, tokens in beam
                for piece in pieces_after(tokens, options, limit, ANY)
            ),
            reverse=True,
        )[: options.beam_size]
        taken = [each for rank, each in enumerate(ranked) if rank < options.beam_size - finished]
        extended = {tokens[:-1] for _, tokens in taken}
        found |= {y: "extended" if y in extended else "pruned" for _, y in beam}
        found |= {y: "pruned" for _, y in ranked}
        found |= {y: "finished" if y[-1] == EOS else "unfinished" for _, y in taken}
        beam = [each for each in taken if each[1][-1] != EOS]
        finished += len(taken) - len(beam)
    return list(found.items())


def path(tree: list[BeamNode], node: BeamNode) -> tuple[int, ...]:
    return () if node.parent is None else (*path(tree, tree[node.parent]), node.token)


@examples(80)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.booleans(),
    any_options,
    st.data(),
)
def test_tree_matches_plain_search(
    seed: int, lengths: list[int], shortens: bool, options: SearchOptions, data: st.DataObject
) -> None:
    model = prefix_model(seed, lengths, shortens=shortens, eos_bias=0.5)
    nbest = data.draw(st.integers(1, options.beam_size))
    options = dataclasses.replace(options, nbest=nbest, keep_tree=True)
    without = dataclasses.replace(options, keep_tree=False)
    for sentence, (found, plain, length) in enumerate(
        zip(search(model, options), search(model, without), lengths, strict=True)
    ):
        assert [dataclasses.replace(each, tree=None) for each in found] == plain
        assert found[0].tree is not None
        tree = list(found[0].tree)
        paths = [path(tree, node) for node in tree]
        depth = max(map(len, paths))
        expected = plain_tree(model, sentence, length, options, depth)
        assert [(y, n.status) for y, n in zip(paths, tree, strict=True)] == expected
        assert tree[0].token == BOS
        for tokens, node in zip(paths, tree, strict=True):
            total = sum(log_prob(model, sentence, tokens[:i], p) for i, p in enumerate(tokens))
            assert node.log_prob == pytest.approx(total, abs=1e-5)
            if node.status == "finished":
                score = plain_score(model, sentence, length, tokens[:-1], options)
                assert node.score == pytest.approx(score, abs=1e-5)
        leaves = [n for n, node in enumerate(tree) if node.status == "finished"]
        best = max(leaves, key=lambda n: tree[n].score)
        assert paths[best] == (*found[0].tokens, EOS)
        assert tree[best].score == found[0].score
        assert tree[best].log_prob == found[0].log_prob


def test_best_leaf_is_the_translation(trained: Path) -> None:
    translator = Translator.load(trained)
    options = translator.options(beam_size=4, keep_tree=True)
    lines = ["gato come pan", "perro " * 40, ""]
    for [best] in translator.translate(lines, options, prefixes=["", "", "do"]):
        for part in best.parts:
            assert part.tree is not None
            leaf = max((n for n in part.tree if n.status == "finished"), key=lambda n: n.score)
            assert (leaf.score, leaf.log_prob) == (part.score, part.log_prob)
            pieces = []
            while leaf.parent is not None:
                pieces.append(leaf.piece)
                leaf = part.tree[leaf.parent]
            assert pieces[::-1] == part.target_pieces
    [[plain]] = translator.translate(["gato"])
    assert plain.parts[0].tree is None


def test_command(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("gato come pan\n", encoding="utf-8")
    arguments = ["translate", str(trained), "-i", str(tmp_path / "in"), "--tree"]
    assert main([*arguments, "--format", "jsonl", "--nbest", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"][0]["tree"][0]["parent"] is None
    assert "tree" not in found["nbest"][1]["parts"][0]
    assert main(arguments) == 2
    assert "--tree requires --format jsonl" in capsys.readouterr().err
    assert main([*arguments, "--format", "jsonl", "--samples", "2"]) == 2
    assert "--tree requires beam search" in capsys.readouterr().err
