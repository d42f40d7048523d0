"""Models, recipes and the sample corpus by name, wherever the program runs."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from conftest import ToyCorpus

from release import average, ship_model, widen
from seq2seq import Translator, cli, packaged
from seq2seq.analysis.doctor import diagnose
from seq2seq.config import load_config
from seq2seq.config.loading import changed_keys, dump_config, parse_config
from seq2seq.data.corpus import read_corpus
from seq2seq.data.sources import checksum_sources
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.export import export
from seq2seq.model.translation_model import TranslationModel
from seq2seq.packaged import (
    CARD,
    MODELS,
    find_recipe,
    find_run,
    is_read_only,
    model_names,
    read_card,
)
from seq2seq.runs.checkpoint import load_weights, save_checkpoint
from seq2seq.runs.directory import RunDirectory, find_checkpoint

ROOT = Path(__file__).parents[1]
TESTS = [("Tatoeba", "test"), ("Valid", "valid")]
HEAD = """---
language: [toy, en]
model-index:
- name: toy-en
  results:
  - task: {type: translation, name: Toy to English}
    dataset: {type: toys, name: 20 pairs}
    metrics:
    - {type: bleu, name: BLEU, value: 99.0, args: {signature: a}}
    - {type: chrf, name: chrF, value: 98.5, args: {signature: b}}
data: toys
data_license: none
---
"""
SENTENCES = {
    "es": ["Tengo un libro.", "Ella come pan."],
    "en": ["I have a book.", "She eats bread."],
}


@pytest.fixture
def models(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of models with one, named toy-en, in an empty current folder."""
    folder = tmp_path / "models"
    export(trained, folder / "toy-en", compact=True)
    (folder / "toy-en" / CARD).write_text(f"{HEAD}\n# A toy\n", encoding="utf-8")
    monkeypatch.setattr(packaged, "MODELS", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_name_translates_with_graphs_in_the_cache(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"gato come\n")))
    assert run("translate", "toy-en") == 0
    assert capsys.readouterr().out == "cat eats\n"
    assert not (models / "toy-en/graph").exists()
    assert list((models.parent / "cache/seq2seq").glob("graphs-*/step.onnx"))
    assert Translator.load("toy-en", backend="torch").translate(["perro"])[0][0].text == "dog"


def test_hypotheses_are_written_to_the_current_folder(models: Path, toy: ToyCorpus) -> None:
    assert run("evaluate", "toy-en", toy.folder / "test.tsv") == 0
    assert [path.name for path in Path().iterdir()] == ["test.hypotheses.txt"]


def write_recipe_to_start_from_a_run(toy: ToyCorpus, training: str) -> None:
    """Write recipe.yaml, which leaves model and tokenizers to the run that it starts from."""
    recipe = toy.recipe(Path("tuned")).partition("model:")[0]
    recipe = recipe.replace("  tokenizer: {source_vocab_size: 330, target_vocab_size: 330}\n", "")
    Path("recipe.yaml").write_text(f"{recipe}training: {training}\n")


def test_training_starts_from_a_name(models: Path, toy: ToyCorpus) -> None:
    write_recipe_to_start_from_a_run(toy, "{max_steps: 2, device: cpu}")
    assert run("train", "recipe.yaml", "--from", "toy-en") == 0
    assert Translator.load("tuned").translate(["gato"])[0][0].text == "cat"


def test_name_is_exported(models: Path) -> None:
    assert run("export", "toy-en", "-o", "copy", "--precision", "fp32") == 0
    assert not (models / "toy-en/graph").exists()


def test_existing_path_wins(models: Path, other: Path) -> None:
    shutil.copytree(other, "toy-en")
    assert find_run("toy-en") == Path("toy-en")
    assert not is_read_only(find_run("toy-en"))
    assert find_run("./toy-en") == Path("toy-en")


def test_unknown_names_are_refused_with_those_that_exist(models: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"toy-es: .* the name of a model \(toy-en\); did you mean toy-en\?"
    ):
        Translator.load("toy-es")
    with pytest.raises(CheckpointError, match=r"model \(toy-en\); train"):
        Translator.load("xyz")
    with pytest.raises(CheckpointError, match="runs/none: not a run directory"):
        Translator.load("runs/none")
    with pytest.raises(ConfigError, match=r"quikstart: .*; did you mean quickstart\?"):
        find_recipe("quikstart")
    with pytest.raises(ConfigError, match=r"configs/none.yaml: no such file"):
        load_config(find_recipe("configs/none.yaml"))


def test_models_are_listed(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("models") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("toy-en  toy to English, 0.")
    assert "BLEU 99.0, chrF 98.5 on 20 pairs" in printed
    assert "toys (none)" in printed
    assert run("models", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    [index] = found["toy-en"]["model-index"]
    assert [each["value"] for each in index["results"][0]["metrics"]] == [99.0, 98.5]
    assert found["toy-en"]["bytes"] > 1000
    shutil.rmtree(models)
    assert run("models") == 0
    assert "no models come with this installation" in capsys.readouterr().out


def test_model_is_made_of_a_run(
    models: Path, trained: Path, toy: ToyCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship_model, "MODELS", models)
    for _ in range(2):  # the second replaces the first
        tests = [f"{test}={toy.folder / file}.tsv" for test, file in TESTS]
        ship_model.ship(str(trained), "es-en", tests, "a machine", None, ["general", "tatoeba"])
    card, text = read_card(models / "es-en"), (models / "es-en" / CARD).read_text(encoding="utf-8")
    assert card.languages == "Spanish to English"
    [result, _] = card.index[0]["results"]
    bleu, chrf = result["metrics"]
    assert (bleu["type"], chrf["type"]) == ("bleu", "chrf")
    assert bleu["value"] > 50
    assert bleu["args"]["signature"].startswith("nrefs:1|case:mixed")
    assert result["dataset"]["name"] == "20 pairs of Tatoeba, one reference, beam 3"
    assert card.data.startswith("sentence pairs of Tatoeba; textbooks")
    assert card.data_license.startswith("CC BY 2.0 FR; CC BY 4.0, translations CC0")
    tested, chosen_on = (line for line in text.splitlines() if line.startswith(("| Tat", "| Val")))
    assert re.fullmatch(r"\| Tatoeba \| 20 \| \d+ \| [\d.]+ \| [\d.]+ \|", tested)
    assert re.search(r"\| Valid \| (\d+) \| \1 \|", chosen_on)
    for words in ("manythings.org", "php/doc-es cf903492, php/doc-en", "python/python-docs-es"):
        assert words in text
    assert "xquad" not in text
    assert "minutes on a machine. `config.yaml` is the complete recipe." in text
    assert "{" not in text.partition("\n---\n")[2]
    assert Translator.load("es-en").translate(["gato"])[0][0].text == "cat"


def test_card_of_a_model_that_started_from_another(
    models: Path, toy: ToyCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship_model, "MODELS", models)
    write_recipe_to_start_from_a_run(toy, "{max_steps: 2, device: cpu, initial: {run: runs/x}}")
    assert run("train", "recipe.yaml", "--from", "toy-en", "training.seed=7") == 0
    tests = [f"Tatoeba={toy.folder / 'test.tsv'}"]
    ship_model.ship("tuned", "es-en", tests, "a machine", "recipe.yaml", ["tatoeba"])
    text = (models / "es-en" / CARD).read_text(encoding="utf-8")
    weights = find_checkpoint(models / "toy-en").weights_sum[:12]
    assert "with the recipe `recipe.yaml` with `training.seed=7`. It started from" in text
    assert f"the weights of `toy-en` at that time (SHA-256 `{weights}`). `config.yaml`" in text


def test_weights_of_trainings_are_averaged(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = find_checkpoint(trained)
    other, mean = RunDirectory(tmp_path / "other"), tmp_path / "mean"
    export(trained, other.path, ())
    path = other.checkpoint_path(best.step + 5)
    save_checkpoint(path, {k: 3 * tensor for k, tensor in best.weights().items()}, {}, {"step": 5})
    assert average.main([str(best.path), str(path), "-o", str(mean)]) == 0
    made = find_checkpoint(mean)
    assert capsys.readouterr().out == f"{made.path}\n"
    assert made.step == best.step + 5
    for name, tensor in made.weights().items():
        torch.testing.assert_close(tensor, 2 * best.weights()[name])
    assert average.main([str(trained), str(trained), "-o", str(mean)]) == 0
    assert Translator.load(mean).translate(["gato"])[0][0].text == "cat"
    [name, tensor] = next(iter(best.weights().items()))
    save_checkpoint(path, {name: tensor[:1]}, {}, {"step": 5})
    assert average.main([str(trained), str(path), "-o", str(mean)]) == 2
    assert f"{path}: weights of other shapes than those of {trained}" in capsys.readouterr().err


@pytest.fixture
def conditional(trained: Path, tmp_path: Path) -> Path:
    """Return a run of random weights whose model can be widened."""
    run = RunDirectory(tmp_path / "conditional")
    export(trained, run.path, ())
    config = parse_config(
        dump_config(run.config()),
        ["model.style=conditional", "model.tie_target=true", "model.encoder_layers=3",
         "model.lexical=true", "model.decoder_layers=3"],
    )  # fmt: skip
    run.config_path.write_text(dump_config(config), encoding="utf-8")
    best = find_checkpoint(run.path)
    vocabularies = (tokenizer.vocab_size for tokenizer in run.tokenizers())
    model = TranslationModel(config.model, *vocabularies)
    save_checkpoint(best.path, dict(model.named_parameters()), {}, best.state)
    return run.path


def test_a_wider_model_translates_the_same_and_learns_with_all_units(
    conditional: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide, sizes = tmp_path / "wide", ["model.encoder_size=40", "model.decoder_size=30"]
    assert widen.main([str(conditional), "-o", str(wide), *sizes]) == 0
    checkpoint = find_checkpoint(wide)
    assert capsys.readouterr().out == f"{checkpoint.path}\n"
    narrow_config, config = (
        load_config(path / "config.yaml").model for path in (conditional, wide)
    )
    assert (config.encoder_size, config.decoder_size) == (40, 30)
    models = []
    for each, weights in (
        (narrow_config, find_checkpoint(conditional).weights()),
        (config, checkpoint.weights()),
    ):
        outputs, sources = len(weights["output_bias"]), len(weights["source_embedding.weight"])
        models.append(TranslationModel(each, sources, outputs).double().eval())
        load_weights(models[-1], weights, origin=wide)
    generator = torch.Generator().manual_seed(1)
    pieces, inputs = torch.randint(4, 280, (2, 3, 7), generator=generator).unbind()
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    (old, _), (new, _) = (model(pieces, mask, inputs) for model in models)
    torch.testing.assert_close(new, old)
    # What reads new units learns at once, and the new units with it, one update later.
    for _ in range(2):
        models[1](pieces, mask, inputs)[0].square().sum().backward()
        torch.optim.SGD(models[1].parameters(), lr=1e-3).step()
        gradients = {name: parameter.grad for name, parameter in models[1].named_parameters()}
    for name, gradient in gradients.items():
        if "embedding" not in name and "output" not in name:
            assert gradient is not None
            assert (gradient.abs().sum(-1) > 0).all(), name


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model.encoder_size=12"], "only model.encoder_size and model.decoder_size can grow"),
        (["model.embedding_size=48"], "only model.encoder_size and model.decoder_size can grow"),
    ],
)
def test_only_some_sizes_can_grow(
    conditional: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    overrides: list[str],
    words: str,
) -> None:
    assert widen.main([str(conditional), "-o", str(tmp_path / "wide"), *overrides]) == 2
    assert words in capsys.readouterr().err


def test_other_decoders_are_not_widened(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert widen.main([str(trained), "-o", str(tmp_path / "w"), "model.encoder_size=40"]) == 2
    assert "only conditional decoders with additive attention" in capsys.readouterr().err


def test_card_needs_names_of_test_sets_and_corpora(
    models: Path, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ship_model, "MODELS", models)
    (models / "es-en").mkdir()
    (models / "es-en" / CARD).write_text("the card", encoding="utf-8")
    for more, words in (
        (["--evaluate", "test.tsv", "--data", "tatoeba"], "expected NAME=FILE, such as Tatoeba="),
        (["--evaluate", "Toys=test.tsv"], "whose licence is unknown; pass --data"),
        (["--evaluate", "Toys=none.tsv", "--data", "tatoeba"], "none.tsv: no such file"),
    ):
        monkeypatch.setattr("sys.argv", ["ship_model.py", str(trained), "es-en", *more])
        assert ship_model.main() == 2
        assert words in capsys.readouterr().err
        assert (models / "es-en" / CARD).read_text(encoding="utf-8") == "the card"


def test_corpora_are_those_of_the_folders_of_a_recipe() -> None:
    for recipe, data in (("tatoeba", ["tatoeba"]), ("general", ["data", "tatoeba", "general"])):
        config = load_config(ROOT / f"configs/{recipe}.yaml").data
        expected = [ship_model.CORPORA[name] for name in data]
        assert ship_model.find_corpora(config, []) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no lines of YAML between"),
        ("# A toy\n", "no lines of YAML between"),
        (HEAD.removesuffix("---\n"), "no lines of YAML between"),
        (HEAD.replace("data:", "date:"), "date: unknown key"),
        (HEAD.replace("[toy, en]", "[toy]"), "language.1: missing required key"),
    ],
)
def test_card_that_cannot_be_read_is_refused(
    models: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "toy-en" / CARD).write_text(text, encoding="utf-8")
    assert run("models") == 2
    assert words in capsys.readouterr().err


def test_packaged_recipe_and_corpus_are_found_anywhere(models: Path) -> None:
    config = load_config(find_recipe("quickstart"))
    assert config == load_config(ROOT / "configs/quickstart.yaml")
    assert len(list(read_corpus(config.data.valid))) == 1000
    assert set(checksum_sources(config.data)) == {"data.train.0.path", "data.valid.path"}
    Path("data/sample").mkdir(parents=True)
    Path("data/sample/valid.tsv").write_text("gato\tcat\t0-0\n")
    assert [pair.source for pair in read_corpus(config.data.valid)] == ["gato"]


@pytest.mark.parametrize("name", ["tatoeba", "general"])
def test_recipes_of_both_directions_are_equal(name: str) -> None:
    one, other = (load_config(ROOT / f"configs/{n}.yaml") for n in (name, f"{name}-en-es"))
    changed = changed_keys(one, other)
    corpora = ["valid", "test", *(f"train.{n}" for n in range(len(one.data.train)))]
    references = {
        f"data.{n}.references" for n in ("valid", "test") if getattr(one.data, n).references
    }
    sides = {f"data.{corpus}.{side}" for corpus in corpora for side in ("source", "target")}
    assert changed.keys() == {
        "run_dir", "data.source_language", "data.target_language", *references, *sides,
    }  # fmt: skip
    for corpus in corpora:
        assert changed[f"data.{corpus}.source"] == (None, 1)
        assert changed[f"data.{corpus}.target"] == (None, 0)


# --- the models of the package


@pytest.mark.parametrize("name", ["en-es", "es-en"])
def test_committed_model_translates_and_has_a_card(name: str, tmp_path: Path) -> None:
    card, checkpoint = read_card(MODELS / name), find_checkpoint(MODELS / name)
    assert RunDirectory(MODELS / name).config().run_dir == f"runs/{name}"
    bleu, chrf = card.index[0]["results"][0]["metrics"]
    assert (bleu["value"] > 30, chrf["value"] > 50) == (True, True)
    assert isinstance(checkpoint.state["compact_bleu_loss"], float)
    assert not (checkpoint.path / "training.safetensors").exists()
    translator = Translator.load(name)
    source, target = name.split("-")
    assert translator.config.data.source_language == source
    assert translator.config.data.target_language == target
    found = [best.text for [best] in translator.translate(SENTENCES[source])]
    assert all(text.endswith(".") and len(text.split()) in (3, 4, 2) for text in found), found


def test_committed_models_are_small() -> None:
    assert model_names() == ["en-es", "es-en"]
    for name in model_names():
        files = [path for path in (MODELS / name).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= ship_model.MOST_BYTES
        assert {path.suffix for path in files} <= {".yaml", ".model", ".safetensors", ".json",
                                                  ".md", ""}  # fmt: skip


def test_a_file_is_no_run(trained: Path) -> None:
    weights = next(trained.glob("checkpoints/*/model.safetensors"))
    with pytest.raises(CheckpointError, match=rf"{weights.name}: a file .* give {trained}$"):
        Translator.load(weights)
    with pytest.raises(CheckpointError, match=r"a file where .* give a run directory"):
        Translator.load(__file__)


def test_diagnosis_takes_the_name_of_a_model(models: Path, trained: Path, toy: ToyCorpus) -> None:
    test = toy.folder / "test.tsv"
    found, of_the_run = (diagnose(each, str(test)) for each in ("toy-en", trained))
    assert found["checksums"].passed
    assert {n: f.passed for n, f in found.items()} == {n: f.passed for n, f in of_the_run.items()}
    assert run("faults", "toy-en", "--test", test, "--sentences", "2", "--out", "faults") == 0
    assert "toy-en" in Path("faults/faults.html").read_text(encoding="utf-8")
