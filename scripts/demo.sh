#!/usr/bin/env bash
# make demo: train the sample translator (once), score it, use it, draw its attention.
set -euo pipefail
cd "$(dirname "$0")/.."
run=runs/quickstart

if [ -f "$run/finished" ]; then
    echo "== $run is trained; remove it to train again =="
elif [ -f "$run/config.yaml" ]; then
    echo "== Going on with $run =="
    seq2seq train configs/quickstart.yaml --resume
else
    echo "== Training configs/quickstart.yaml on the sample corpus =="
    seq2seq train configs/quickstart.yaml
fi
touch "$run/finished"

echo
echo "== Translating =="
while IFS= read -r sentence; do
    printf '  %s\n    -> %s\n' "$sentence" "$(seq2seq translate "$run" <<<"$sentence")"
done <<'SENTENCES'
¿Dónde está el perro?
A mi hermana le gustan los libros viejos.
No lo veo porque la puerta está cerrada.
SENTENCES

echo
echo "== Attention =="
seq2seq plot attention "$run" 'A mi hermana le gustan los libros viejos.' -o "$run/attention.png"

echo
echo "== Scoring data/sample/test.tsv =="
seq2seq evaluate "$run" data/sample/test.tsv | tee "$run/test-scores.txt"
sed -n 's/^\(BLEU = [0-9.]*\).*/\1/p' "$run/test-scores.txt"
