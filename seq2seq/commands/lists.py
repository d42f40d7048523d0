"""Commands that list what there is: trained models, and the keys of a recipe."""

from __future__ import annotations

import argparse
import json

from seq2seq.commands import options


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "models", _models)
    options.add_arguments(parser, "--json")
    options.add_command(commands, "reference", _reference)


def _models(arguments: argparse.Namespace) -> int:
    """List the trained models that come with the program, which every command takes by name.

    examples:
      seq2seq models
      echo '¿Dónde está el perro?' | seq2seq translate es-en
    """
    from seq2seq import packaged

    names = packaged.model_names()
    cards = {name: packaged.read_card(packaged.MODELS / name) for name in names}
    sizes = {
        name: sum(
            path.stat().st_size for path in (packaged.MODELS / name).rglob("*") if path.is_file()
        )
        for name in names
    }
    if arguments.json:
        found = {
            name: {**card.model_dump(), "path": str(packaged.MODELS / name), "bytes": sizes[name]}
            for name, card in cards.items()
        }
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    for name, card in cards.items():
        print(
            f"{name}  {card.source_language} to {card.target_language}, "
            f"{sizes[name] / 1e6:.1f} MB\n"
            f"  BLEU {card.bleu:.1f}, chrF {card.chrf:.1f} on {card.test_set}\n"
            f"  trained on {card.data} ({card.data_license}); "
            f"{packaged.MODELS / name / 'README.md'}"
        )
    if not names:
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
