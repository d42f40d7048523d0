"""Runs on the Hugging Face hub: pushed, downloaded, checked, and read from the cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import ToyCorpus
from hub_server import TOKEN, Hub, Repository, serve
from huggingface_hub import constants
from safetensors import safe_open

from seq2seq import cli, hub
from seq2seq.analysis import publishing
from seq2seq.data.casing import mark_case
from seq2seq.data.tokenizer import EOS, Tokenizer, normalize_line
from seq2seq.errors import CheckpointError
from seq2seq.hub import download
from seq2seq.inference.translator import Translator
from seq2seq.packaged import CARD, MODELS, find_run, is_read_only, read_card
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory, find_checkpoint
from seq2seq.serving.served_models import load_models

NAME = "hf:user/toy"
LINES = "gato come pan\nperro ve agua. él quiere casa\n\nniño\n"


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Return a hub that the library uses, with an empty cache and an empty current folder."""
    with serve() as found:
        monkeypatch.setattr(constants, "ENDPOINT", found.url)
        template = f"{found.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        # Pictures take most of the time of a push; those of `folder` are real.
        monkeypatch.setattr(publishing, "_draw", lambda *_: ["training", "attention"])
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
        Path("lines.txt").write_text(LINES)
        download.cache_clear()
        yield found
        download.cache_clear()


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that is pushed of a run."""
    path = tmp_path_factory.mktemp("pushed") / "toy"
    assert run("push", trained, "user/toy", "-o", path) == 0
    return path


@pytest.fixture
def pushed(server: Hub, folder: Path) -> Repository:
    """Return a repository of the hub with that folder."""
    found = server.repositories["user/toy"] = Repository()
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    found.commit("main", files)
    return found


def translated(path: object, *options: str) -> bytes:
    out = Path("out.txt")
    assert run("translate", path, "-i", "lines.txt", "-o", out, *options) == 0
    return out.read_bytes()


def is_weights(path: str) -> bool:
    return path.endswith("/model.safetensors")


# --- there and back


def test_round_trip_translates_the_same_bytes(
    server: Hub, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("push", trained, "user/toy") == 0
    assert capsys.readouterr().out == (
        f"{server.url}/user/toy\ntranslate with: seq2seq translate {NAME}\n"
    )
    for how in (
        ["--format", "jsonl", "--attention"],
        ["--precision", "auto"],
        ["--backend", "torch", "--samples", "3", "--seed", "1"],
    ):
        assert translated(NAME, *how) == translated(trained, *how)
    assert not server.repositories["user/toy"].private
    assert download(NAME).parent.name == "snapshots"


def test_command_in_an_empty_folder_translates(pushed: Repository, server: Hub) -> None:
    environment = {
        **os.environ,
        "HF_ENDPOINT": server.url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(Path("home").absolute()),
    }
    command = [sys.executable, "-m", "seq2seq", "translate", NAME]
    for change in ({}, {"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}):
        done = subprocess.run(
            command, input="gato come\n", capture_output=True, encoding="utf-8",
            env=environment | change,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "cat eats\n"), done.stderr
        assert "HTTP Request" not in done.stderr
        assert ("using the copy in the cache" in done.stderr) == bool(change)


def test_private_repository_and_branch(server: Hub, trained: Path, other: Path) -> None:
    assert run("push", trained, "user/toy", "--private") == 0
    assert run("push", other, "user/toy", "--revision", "small") == 0
    found = server.repositories["user/toy"]
    assert (found.private, set(found.branches)) == (True, {"main", "small"})
    assert translated(f"{NAME}@small") == translated(other)
    assert translated(f"{NAME}@{found.branches['main']}") == translated(trained)
    assert translated(NAME) == translated(trained)


def test_private_push_to_a_public_repository_is_refused(
    server: Hub, pushed: Repository, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(pushed.branches)
    assert run("push", folder, "user/toy", "--private") == 2
    assert "user/toy: is public; make it private first" in capsys.readouterr().err
    assert pushed.branches == before


def test_next_push_replaces_the_run_and_no_other_file(
    server: Hub, trained: Path, other: Path
) -> None:
    run("push", trained, "user/toy")
    found = server.repositories["user/toy"]
    found.commit("main", found.commits[found.branches["main"]] | {"LICENSE": b"MIT"})
    assert run("push", other, "user/toy") == 0
    files = found.commits[found.branches["main"]]
    assert [path.split("/")[1] for path in files if is_weights(path)] == ["step-000012"]
    assert files["LICENSE"] == b"MIT"
    assert translated(NAME) == translated(other)


def test_name_is_accepted_wherever_a_run_is(
    pushed: Repository, trained: Path, toy: ToyCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    test = toy.folder / "test.tsv"
    before = {path: path.stat().st_mtime_ns for path in download(NAME).rglob("*")}
    assert run("evaluate", NAME, test) == 0
    assert Path("test.hypotheses.txt").exists()
    for command in (
        ["export", NAME, "-o", "copy", "--compact"],
        ["explain", NAME, "gato come"],
        ["plot", "attention", NAME, "gato come"],
        ["plot", "training", NAME],
        ["compare", NAME, trained, test],
        ["translate", NAME, trained, "-i", "lines.txt", "-o", "both.txt"],
        ["distill", NAME, test, "-o", "distilled.tsv"],
        ["push", NAME, "user/again", "-o", "again"],
    ):
        assert run(*command) == 0, command
    assert load_models([NAME], Translator.load).by_name.keys() == {"toy"}
    recipe = toy.recipe(Path("tuned")).partition("model:")[0].partition("  tokenizer:")
    keys = "training: {max_steps: 2, device: cpu}\n"
    Path("recipe.yaml").write_text(f"{recipe[0]}{keys}")
    assert run("train", "recipe.yaml", "--from", NAME) == 0
    assert RunDirectory(Path("tuned")).config().training.initial.run == NAME
    assert before == {path: path.stat().st_mtime_ns for path in download(NAME).rglob("*")}


def test_graphs_in_a_repository_are_ignored_and_replaced(
    pushed: Repository, trained: Path, folder: Path
) -> None:
    files = pushed.commits[pushed.branches["main"]]
    pushed.commit("main", files | {"graph/graph.json": b"{", "graph/step.fp32.onnx": b"?"})
    assert translated(NAME) == translated(trained)
    assert is_read_only(find_run(NAME))
    assert not (find_run(NAME) / "graph").exists()
    assert run("push", folder, "user/toy") == 0
    assert pushed.commits[pushed.branches["main"]].keys() == files.keys()


# --- what is pushed


def test_folder(folder: Path, trained: Path) -> None:
    checkpoint = find_checkpoint(trained)
    step = f"checkpoints/{checkpoint.path.name}"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "config.yaml", "source.model", "target.model", "metrics.jsonl",
        *(f"{step}/{name}" for name in ("model.safetensors", "state.json", "SHA256SUMS")),
        "config.json", "model.safetensors.index.json", "tokenizer_config.json",
        "source.spm", "vocab.json", "target.spm", "target_vocab.json",
        "README.md", "images/attention.png", "images/training.png",
    }  # fmt: skip
    with safe_open(folder / step / "model.safetensors", framework="np") as weights:
        assert weights.metadata() == {"format": "pt"}
        names = set(weights.keys())
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == dict.fromkeys(names, f"{step}/model.safetensors")
    about, config = json.loads((folder / "config.json").read_text()), RunDirectory(folder).config()
    assert (about["model_type"], about["architectures"]) == ("seq2seq", ["TranslationModel"])
    assert about["attention"]["score"] == config.model.attention.score
    assert config.run_dir == "runs/toy"
    assert str(trained) not in (folder / "config.yaml").read_text()


def test_resuming_a_pushed_run_is_refused(folder: Path, tmp_path: Path, toy: ToyCorpus) -> None:
    path = shutil.copytree(folder, tmp_path / "toy")
    config = RunDirectory(path).config().model_copy(update={"run_dir": str(path)})
    with pytest.raises(CheckpointError, match="exported, so --resume cannot continue it"):
        train(config, resume=True)


def test_card_of_a_run(folder: Path, trained: Path) -> None:
    card, text = read_card(folder), (folder / CARD).read_text(encoding="utf-8")
    validation = find_checkpoint(trained).state["validation"]
    assert (card.language, card.pipeline_tag, card.data) == (
        ("es", "en"),
        "translation",
        "train.tsv",
    )
    [result] = card.index[0]["results"]
    assert result["dataset"]["name"] == "the validation set, beam 1"
    for metric in result["metrics"]:
        assert metric["value"] == pytest.approx(validation[metric["type"]], abs=0.006)
        assert "args" not in metric
    assert "seq2seq translate hf:user/toy" in text
    assert "mark_case" not in text
    for name in ("training", "attention"):
        assert f"(images/{name}.png)" in text
        assert (folder / f"images/{name}.png").read_bytes().startswith(b"\x89PNG")


def test_card_has_scores_with_signatures(trained: Path, toy: ToyCorpus, tmp_path: Path) -> None:
    test = f'The "toy" set={toy.folder / "test.tsv"}'
    options = ["-o", tmp_path / "toy", "--evaluate", test, "--license", "cc-by-4.0"]
    assert run("push", trained, "user/toy", *options) == 0
    text = (tmp_path / "toy" / CARD).read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---\n")[1])
    assert (head["language"], head["license"]) == (["es", "en"], "cc-by-4.0")
    [index] = head["model-index"]
    [result] = index["results"]
    assert result["dataset"]["name"] == '20 pairs of The "toy" set, one reference, beam 3'
    assert [(m["type"], m["args"]["signature"][:8]) for m in result["metrics"]] == [
        ("bleu", "nrefs:1|"),
        ("chrf", "nrefs:1|"),
    ]
    assert re.search(r'^\| The "toy" set \| 20 \| [\d.]+ \| [\d.]+ \|$', text, re.M)
    assert read_card(tmp_path / "toy").license == "cc-by-4.0"


def test_card_that_was_edited_is_kept(
    folder: Path, server: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shutil.copytree(folder, tmp_path / "edited")
    text = (path / CARD).read_text(encoding="utf-8")
    edited = text.replace("## Training", "## Use\n\nAs you like.\n\n## How it came about")
    (path / CARD).write_text(edited)
    assert run("push", path, "user/other") == 0
    files = server.repositories["user/other"].commits
    card = list(files.values())[-1][CARD].decode()
    assert card.replace("user/other", "user/toy") == edited != text
    assert run("push", path, "user/other", "--license", "mit") == 2
    assert "pushed as it is; remove --evaluate and --license" in capsys.readouterr().err


def test_card_of_a_packaged_model_is_its_own(tmp_path: Path) -> None:
    assert run("push", "es-en", "user/es-en", "-o", tmp_path / "es-en") == 0
    text = (tmp_path / "es-en" / CARD).read_text(encoding="utf-8")
    assert text.startswith((MODELS / "es-en" / CARD).read_text(encoding="utf-8"))
    assert "seq2seq translate hf:user/es-en" in text
    assert 'mark_case("¿Dónde está el perro?")' in text
    pushed, packaged = find_checkpoint(tmp_path / "es-en"), find_checkpoint(MODELS / "es-en")
    assert pushed.weights_sum == packaged.weights_sum  # int8 as before


@pytest.mark.parametrize("name", ["toy", "es-en"])
def test_transformers_gives_the_same_ids(name: str, folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    if name == "es-en":
        folder = tmp_path / name
        assert run("push", name, f"user/{name}", "-o", folder) == 0
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    root = Path(__file__).parents[1]
    rows = (root / "data/sample/test.tsv").read_text(encoding="utf-8").splitlines()[:300]
    pairs = [row.split("\t")[:2] for row in rows]
    pairs.append(["¡HOLA A TODOS, Iñaki! 27 gatos 🐱", "Hi EVERYBODY, the CAT №5 İ"])
    tokenizers = [Tokenizer.load(folder / f"{side}.model") for side in ("source", "target")]
    for tokenizer, keyword, texts in zip(
        tokenizers, ("text", "text_target"), zip(*pairs, strict=True), strict=True
    ):
        assert tokenizer.marks_case == (name == "es-en")
        for text in texts:
            given = mark_case(normalize_line(text)) if tokenizer.marks_case else text
            assert loaded(**{keyword: given}).input_ids == [*tokenizer.encode(text), EOS], text
    decoded = loaded.decode(tokenizers[1].encode(pairs[0][1]), skip_special_tokens=True)
    assert tokenizers[1].restore(decoded) == pairs[0][1]


# --- what comes from a hub


def test_altered_weights_are_refused(
    pushed: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pushed.commits[pushed.branches["main"]]
    [path] = filter(is_weights, files)
    altered = files[path][:-1] + bytes([files[path][-1] ^ 1])
    pushed.commit("main", files | {path: altered})
    for backend in ("torch", "onnx"):
        assert run("translate", NAME, "--backend", backend, "-i", "lines.txt") == 2
        assert "damaged, model.safetensors does not match its checksum" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["config.yaml", "source.model"])
def test_files_that_are_not_of_a_run_are_refused(
    pushed: Repository, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pushed.commits[pushed.branches["main"]]
    pushed.commit("main", files | {name: b"\0" * 100})
    assert run("translate", NAME, "-i", "lines.txt") == 2
    assert name in capsys.readouterr().err.splitlines()[-1]


def test_transfer_that_ends_too_early_is_refused(
    pushed: Repository, server: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pushed.commits[pushed.branches["main"]]
    [path] = filter(is_weights, files)
    server.sent[path] = files[path][:1000]
    assert run("translate", NAME, "-i", "lines.txt") == 2
    [line] = [each for each in capsys.readouterr().err.splitlines() if "seq2seq: " in each]
    assert line.startswith(f"seq2seq: {NAME}: ")
    del server.sent[path]
    download.cache_clear()
    assert run("translate", NAME, "-i", "lines.txt", "-o", "out.txt") == 0


def test_run_that_is_too_large_is_refused_before_it_is_downloaded(
    pushed: Repository, server: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    server.sizes["source.model"] = hub.MAX_BYTES
    assert run("translate", NAME, "-i", "lines.txt") == 2
    assert f"more than the limits of {hub.MAX_BYTES} and 100; this is not a run" in (
        capsys.readouterr().err
    )
    server.sizes.clear()
    files = pushed.commits[pushed.branches["main"]]
    pushed.commit(
        "main", files | {f"checkpoints/{n}/state.json": b"" for n in range(hub.MAX_FILES)}
    )
    assert run("translate", NAME, "-i", "lines.txt") == 2
    assert "this is not a run" in capsys.readouterr().err
    assert not [asked for asked in server.requests if "/resolve/" in asked]
    server.sizes["images/attention.png"] = hub.MAX_BYTES  # not downloaded
    pushed.commit("main", files)
    assert run("translate", NAME, "-i", "lines.txt", "-o", "out.txt") == 0


def test_nothing_but_a_run_is_downloaded(pushed: Repository, server: Hub) -> None:
    files = pushed.commits[pushed.branches["main"]]
    pushed.commit("main", files | {"code.py": b"raise", "checkpoints/pickle.bin": b""})
    found = {p.name for p in download(NAME).rglob("*") if p.is_file()}
    assert {"config.yaml", "config.json", "source.model", "state.json", "SHA256SUMS"} < found
    others = {"README.md", "vocab.json", "source.spm", "attention.png", "code.py", "pickle.bin"}
    assert not others & found


def test_path_out_of_the_repository_is_refused(pushed: Repository, tmp_path: Path) -> None:
    files = pushed.commits[pushed.branches["main"]]
    pushed.commit("main", files | {"checkpoints/../../../../../state.json": b"{}"})
    with pytest.raises(CheckpointError, match=NAME):
        download(NAME)
    assert not list(tmp_path.glob("*.json"))


def test_link_out_of_the_cache_is_refused(pushed: Repository, folder: Path) -> None:
    path = download(NAME) / "source.model"
    assert path.is_symlink()
    path.unlink()
    path.symlink_to(folder / "source.model")
    with pytest.raises(CheckpointError, match="a link that leads out of the run"):
        Translator.load(NAME)


def test_cache_of_someone_else_gives_links_no_way_out(pushed: Repository, tmp_path: Path) -> None:
    """Only in the user's own cache may links lead out of the folder of a run."""
    Translator.load(NAME)
    copied = shutil.copytree(tmp_path / "hub", tmp_path / "sent", symlinks=True)
    run_path = copied / download(NAME).relative_to(tmp_path / "hub")
    with pytest.raises(CheckpointError, match="a link that leads out of the run"):
        Translator.load(run_path)


# --- what the hub refuses, and no network


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "hf:user/none",
            "no such repository, or one that you may not use; check its name, or log ",
        ),
        ("hf:user/secret", "log in with 'hf auth login' or HF_TOKEN"),
        ("hf:user/toy@none", "no such revision; name a branch, a tag or a commit"),
        ("hf:user/toy/more", "not the name of a repository; expected user/name"),
        ("hf:", "not the name of a repository; expected user/name"),
    ],
)
def test_what_is_not_there_is_one_line(
    pushed: Repository,
    server: Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: str,
) -> None:
    server.repositories["user/secret"] = Repository(private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert run("translate", name, "-i", "lines.txt") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"seq2seq: {name}: ")
    assert words in line


def test_without_a_network(
    pushed: Repository,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = translated(f"{NAME}@main")
    pushed.commit("main", {"config.yaml": b"newer"})
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    download.cache_clear()
    capsys.readouterr()
    for name in (NAME, f"{NAME}@main", f"{NAME}@{next(iter(pushed.commits))}"):
        assert translated(name) == expected == translated(trained)
        assert "http://127.0.0.1:9 cannot be used (ConnectError" in capsys.readouterr().err
    for name in ("hf:user/none", f"{NAME}@other"):
        assert run("translate", name, "-i", "lines.txt") == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"seq2seq: {name}: not in the cache, and http://127.0.0.1:9 cannot ")


def test_push_without_a_login_or_a_network(
    server: Hub,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert run("push", folder, "user/toy") == 2
    assert "log in with 'hf auth login' or HF_TOKEN" in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert run("push", folder, "user/toy") == 2
    assert "http://127.0.0.1:9 cannot be used" in capsys.readouterr().err.splitlines()[-1]
    assert not server.repositories


def test_a_process_stays_with_one_commit(pushed: Repository, server: Hub) -> None:
    first = download(NAME)
    pushed.commit("main", {"config.yaml": b"newer"})
    assert download(NAME) == first
    download.cache_clear()
    assert download(NAME) != first
    asked = len(server.requests)
    download.cache_clear()
    download(NAME)
    assert len(server.requests) == asked + 1  # whether there is anything new
