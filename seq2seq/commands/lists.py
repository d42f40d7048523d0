"""Commands that print lists: trained models, the keys of a recipe, words to complete."""

from __future__ import annotations

import argparse
import json

from seq2seq.commands import options


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "models", _models)
    options.add_arguments(parser, "--json")
    options.add_command(commands, "reference", _reference)
    parser = options.add_command(commands, "completion", _completion)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _models(arguments: argparse.Namespace) -> int:
    """List the trained models that come with the program; every command takes them by name.

    examples:
      seq2seq models
      echo '¿Dónde está el perro?' | seq2seq translate es-en
    """
    from seq2seq import packaged

    found = {}
    for name in packaged.model_names():
        path = packaged.MODELS / name
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        card = packaged.read_card(path)
        found[name] = {**card.model_dump(by_alias=True), "path": str(path), "bytes": size}
        if not arguments.json:
            print(f"{name}  {card.languages}, {size / 1e6:.1f} MB")
            for result in [each for index in card.index for each in index["results"]][:1]:
                scores = (f"{each['name']} {each['value']:.1f}" for each in result["metrics"])
                print(f"  {', '.join(scores)} on {result['dataset']['name']}")
            print(f"  trained on {card.data} ({card.data_license}); {path / packaged.CARD}")
    if arguments.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    elif not found:
        print("no models come with this installation")
    return 0


def _reference(arguments: argparse.Namespace) -> int:
    """Print every key of the configuration with its default, as Markdown.

    examples:
      seq2seq reference > docs/configuration.md
    """
    from seq2seq.config.reference import reference

    print(reference(), end="")
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    """Print a script with which a shell completes commands, options and file names.

    examples:
      eval "$(seq2seq completion bash)"         (in ~/.bashrc; in ~/.zshrc with zsh)
      seq2seq completion fish > ~/.config/fish/completions/seq2seq.fish
    """
    from argcomplete.shell_integration import shellcode

    print(shellcode(["seq2seq"], True, arguments.shell))
    return 0
