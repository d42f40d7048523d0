// Follows drawing.js in one script.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const real = data.memory.length;
let shown = null;

function choose() {
  const view = document.querySelector("input[name=view]:checked").value;
  const head = byId("heads");
  const attribution = byId("shown").value ? data.attribution : null;
  head.disabled = view === "words" || Boolean(attribution);
  let names, matrix;
  if (view === "words") {
    const words = attribution ? data.attributed_words : data.words;
    [names, matrix] = [[words.source.map(named), words.target], words.weights];
  } else {
    names = [
      data.memory.pieces.slice(0, real).map(p => named(p.piece)),
      data.steps.map(step => named(step.writes.piece)),
    ];
    const of = step =>
      attribution
        ? step.attribution.data
        : head.value === ""
          ? step.mean_weights.data
          : step.weights.data[Number(head.value)];
    matrix = data.steps.map(step => of(step).slice(0, real));
  }
  const marks = /[⇧⇪]/.test(names) ? ", ⇧ a capital, ⇪ a word in capitals" : "";
  byId("rule").textContent =
    view === "words"
      ? rule(attribution)
      : `Rows are target pieces, columns source pieces; ▁ begins a word${marks}. ` +
        `${attribution ? "" : "The softmax is over a row. "}${scale(attribution)}`;
  const places = {
    targets: byId("targets"),
    sources: byId("sources"),
    map: byId("map"),
    description: byId("description"),
  };
  shown = drawAttention(places, {
    sourceNames: names[0],
    targetNames: names[1],
    matrix,
    attribution,
    languages: [data.source_language, data.target_language],
  });
}

document.querySelector(".controls").addEventListener("change", choose);
document.addEventListener("keydown", event => {
  if (event.key === "Escape") shown.release();
});
byId("steps").append(...data.steps.map(step => stepDetails(data, step)));
byId("memory").replaceChildren(memoryDetails(data));
choose();
