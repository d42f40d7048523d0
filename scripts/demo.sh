#!/usr/bin/env bash
# make demo: train the quickstart recipe (once), translate, plot attention, score.
set -euo pipefail
cd "$(dirname "$0")/.."
run=runs/quickstart
recipe=configs/quickstart.yaml
# The matrix products of this recipe are too small for threads; processes split the batches.
processes=$(($(nproc 2>/dev/null || echo 1) > 1 ? 2 : 1))

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
sentences='¿Dónde está el perro?
A mi hermana le gustan los libros viejos.
¿Por qué no lo compraste?'
paste -d '\n' <(echo "$sentences") <(seq2seq translate "$run" <<<"$sentences" | sed 's/^/    /')

echo
echo "== Attention =="
seq2seq plot attention "$run" 'A mi hermana le gustan los libros viejos.' -o "$run/attention.png"

echo
echo "== Scoring data/sample/test.tsv =="
seq2seq evaluate "$run" data/sample/test.tsv | tee "$run/scores.txt"
sed -n 's/^\(BLEU = [0-9.]*\).*/\1/p' "$run/scores.txt"
