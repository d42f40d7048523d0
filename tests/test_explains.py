"""scripts/studies/explains.py: its measures against plain computations of the same."""

from __future__ import annotations

import functools
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from explaining import every_model, with_model

from seq2seq.config import ModelConfig
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import EOS
from seq2seq.inference.translator import Translator
from studies import explains
from studies.explains import PERMUTATIONS, SHARES, Forced, Steps

PAIR = Pair("gato come pan rojo", "cat eats red bread", alignment="0-0 1-1 2-3 3-2")


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, backend="torch")


def forced(translator: Translator) -> Forced:
    return explains.forced_pair(translator, PAIR, np.random.default_rng(1))


def test_kendall_is_that_of_concordant_pairs() -> None:
    one, other = np.array([[3.0, 1.0, 2.0, 2.0]]), np.array([[9.0, 1.0, 1.0, 4.0]])
    pairs = [*itertools.combinations(range(4), 2)]
    signs = [(np.sign(one[0, i] - one[0, j]), np.sign(other[0, i] - other[0, j])) for i, j in pairs]
    product = sum(a * b for a, b in signs)
    sizes = [sum(abs(pair[side]) for pair in signs) for side in (0, 1)]
    assert explains.kendall(one, other)[0] == pytest.approx(
        product / math.sqrt(sizes[0] * sizes[1])
    )
    assert explains.kendall(one, one) == pytest.approx(1)
    assert explains.kendall(one, -one) == pytest.approx(-1)
    assert len(explains.kendall(one, np.ones((1, 4)))) == 0


@every_model
def test_erasure_is_force_scoring_what_is_left(translator: Translator, config: ModelConfig) -> None:
    found = forced(with_model(translator, config))
    changed = with_model(translator, config)
    words = PAIR.source.split()

    @functools.cache  # measures of different explanations leave out the same words
    def p(left: frozenset[int]) -> list[float]:
        text = " ".join(word for n, word in enumerate(words) if n not in left)
        [part] = changed.force_decode([text], [PAIR.target])
        assert part.log_probs is not None
        return [math.exp(log_prob) for log_prob in part.log_probs]

    assert ("attention" in found.values) == (config.attention.score != "none")
    measured = explains.erasure(found)
    assert measured.keys() == found.values.keys()
    for name, values_TS in found.values.items():
        expected: tuple[list[float], list[float]] = [], []
        for t, row in enumerate(found.of_words(values_TS)):
            order = sorted(range(len(words)), key=lambda word: -row[word])
            for share in SHARES:
                top = frozenset(order[: max(1, round(share * len(words)))])
                for place, left in enumerate((top, frozenset(range(len(words))) - top)):
                    expected[place].append(p(frozenset())[t] - p(left)[t])
        np.testing.assert_allclose(measured[name], expected, atol=1e-5)


@every_model
def test_changed_weights(
    translator: Translator, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explains, "UPDATES", 5)
    found = forced(with_model(translator, config))
    if config.attention.score == "none":
        return
    for parameter in found.model.parameters():
        parameter.requires_grad_(False)
    steps = Steps(found)
    p_T = steps.p_TV.gather(1, torch.tensor([[*found.target, EOS]]).t())[:, 0]
    np.testing.assert_allclose(p_T.log(), found.part.log_probs, atol=1e-4)
    assert float(steps.moved(lambda weights: weights, 3).abs().max()) < 1e-5
    generator = torch.Generator().manual_seed(1)
    order_RS = steps.permutations(PERMUTATIONS, generator)
    assert (order_RS.sort(1).values == torch.arange(order_RS.shape[1])).all()
    assert 0 < explains.permuted(steps, generator).mean() <= 1
    diverged_T = explains.adversarial(steps, generator)
    assert len(diverged_T) == len(found.target) + 1
    assert (diverged_T >= 0).all()
    assert (diverged_T <= math.log(2) + 1e-6).all()


def test_adversary_keeps_to_its_limit(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that may move the output by anything diverge further."""
    found = forced(with_model(translator, translator.config.model))
    steps = Steps(found)
    generator = torch.Generator().manual_seed(1)
    used = explains.adversarial(steps, generator).mean()
    monkeypatch.setattr(explains, "EPSILON", 1.0)
    unused = explains.adversarial(steps, generator).mean()
    assert 0.1 < unused <= math.log(2)
    assert used < unused


def test_divergence() -> None:
    apart = explains.divergence(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    assert float(apart) == pytest.approx(math.log(2))
    same = torch.tensor([[0.25, 0.75]])
    assert float(explains.divergence(same, same)) == 0


def test_command(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out"
    row = f"{PAIR.source}\t{PAIR.target}\t{PAIR.alignment}\n"
    pairs.write_text(row * 3, encoding="utf-8")
    arguments = ["--pairs", str(pairs), "--sentences", "2", "--searched", "1", "--out", str(out)]
    explains.main([str(trained), *arguments])
    [found] = json.loads((out / "results.json").read_text(encoding="utf-8"))["runs"].values()
    assert [*found["aer"]] == ["attention", "gradient", "integrated", "occlusion", "random"]
    assert found["aer"]["occlusion"] <= 0.5  # the toy language is learned
    assert found["comprehensiveness"]["occlusion"] > found["comprehensiveness"]["random"]
    assert found["sufficiency"]["occlusion"] < found["sufficiency"]["random"]
    page = capsys.readouterr().out
    assert page.strip() == (out / "results.md").read_text(encoding="utf-8").strip()
    aers = " | ".join(f"{value:.2f}" for value in found["aer"].values())
    assert f"{found['decoder']} | 1 | {aers} |" in page
    changed = f"{found['changed']['permuted']:.2f} | {found['changed']['adversarial']:.2f}"
    assert f"| 1 | {changed} |" in page


def test_command_continues_and_refuses_other_settings(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out"
    pairs.write_text(f"{PAIR.source}\t{PAIR.target}\n", encoding="utf-8")
    out.mkdir()
    study = {"name": "explains", "pairs": str(pairs), "sentences": 1, "searched": 1}
    old = {"decoder": "luong, dot", "tau": {"random": 0.25}}
    runs = {str(trained): old, "another": {**old, "tau": {"random": 0.75}}}
    (out / "results.json").write_text(json.dumps({"study": study, "runs": runs}))
    arguments = [str(trained), "--pairs", str(pairs), "--searched", "1", "--out", str(out)]
    explains.main([*arguments, "--sentences", "1"])
    assert "| luong, dot | 2 | 0.50 ± 0.35 |" in capsys.readouterr().out
    assert explains.main([*arguments, "--pairs", "none.tsv"]) == 2
    assert "explains.py: none.tsv: no such file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"results\.json: has results of other settings"):
        explains.main([*arguments, "--sentences", "2"])
