#!/usr/bin/env bash
# make demo: translate with the trained models; then train the quickstart recipe (once), translate,
# plot attention, score.
set -euo pipefail
cd "$(dirname "$0")/.."
run=runs/quickstart
recipe=configs/quickstart.yaml
# The matrix products of this recipe are too small for threads; processes split the batches.
processes=$(($(nproc 2>/dev/null || echo 1) > 1 ? 2 : 1))

sentences_es='¿Por qué no me lo dijiste ayer?
Si mañana llueve, nos quedaremos en casa.
No sé dónde he puesto las llaves.'
sentences_en='Why did you not tell me yesterday?
My sister has lived in Madrid for three years.
I do not know where I put the keys.'

translate() { # RUN SENTENCES: print each sentence and, below it, its translation
    paste -d '\n' <(echo "$2") <(seq2seq translate "$1" <<<"$2" | sed 's/^/    /')
}

echo "== Translating with the trained models es-en and en-es =="
translate es-en "$sentences_es"
translate en-es "$sentences_en"
mkdir -p runs
seq2seq plot attention es-en 'Mi hermana mayor vive en una casa blanca cerca del río.' -o runs/attention.png

echo
if [ -f "$run/finished" ]; then
    echo "== $run is already trained (delete it to train again) =="
elif compgen -G "$run/checkpoints/step-*" >/dev/null; then
    echo "== Resuming $run, processes: $processes =="
    seq2seq train "$recipe" --processes "$processes" --resume
else
    echo "== Training $recipe on the sample corpus, processes: $processes =="
    seq2seq train "$recipe" --processes "$processes" --overwrite
fi
touch "$run/finished"

echo
echo "== Translating =="
# All words are frequent in the sample corpus: with rarer ones, some seeds make a mistake.
translate "$run" '¿Dónde está el perro?
A mi hermana le gustan los libros.
Mi hermano no come carne.'

echo
echo "== Attention =="
seq2seq plot attention "$run" 'A mi hermana le gustan los libros.' -o "$run/attention.png"

echo
echo "== Scoring data/sample/test.tsv =="
seq2seq evaluate "$run" data/sample/test.tsv | tee "$run/scores.txt"
sed -n 's/^\(BLEU = [0-9.]*\).*/\1/p' "$run/scores.txt"
