// Draws attention and the steps of an explanation. The page of `seq2seq explain --html` includes this
// file, that of `seq2seq serve` imports it.
export const texts = {}; // of the page, in another language than English: texts by the English ones
export const say = (text, values = {}) =>
  (texts[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => values[name]);
const NAMES = {"</s>": "(end)", "<s>": "(start)", "<pad>": "(padding)"};
export const LIGHT = 0.005; // rounds to zero in two digits
// Marks for capitals (seq2seq/data/casing.py) are shown as the keys of a keyboard.
export const named = piece =>
  NAMES[piece] ? say(NAMES[piece]) : piece.replaceAll("ↄ", "⇧").replaceAll("Ↄ", "⇪");
const hasHeads = data => Boolean(data.steps[0].weights) && data.steps[0].weights.shape.length > 1;

// Everything from the data enters the page as text, never as markup.
export function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== null && text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
export function append(parent, ...children) {
  parent.append(...children);
  return parent;
}

// What a table of words shows. An attribution is {method, meaning}; null stands for attention.
const WORDS =
  "Rows are target words, columns source words: sums over the pieces of a source word, means over those of a target word.";
export const scale = attribution =>
  attribution
    ? say("Shown is {meaning}; each row is divided by the sum of its absolute values.", attribution)
    : say("Each row sums to 1.");
export const rule = attribution => `${say(WORDS)} ${scale(attribution)}`;

// Draws words or pieces as buttons and their weights as a table, all of which highlight each other.
// `places` are the elements to fill: targets, sources, map (a table), description (a status). `view` has
// sourceNames, targetNames, matrix (target rows), languages (source, target), and perhaps attribution,
// if the matrix is one, and onHighlight, which gets what is highlighted: {side, index} or null. The
// matrix that is returned is the one that is shown.
export function drawAttention(places, view) {
  const {sourceNames, targetNames, attribution} = view;
  const sum = row => row.reduce((total, value) => total + Math.abs(value), 0) || 1;
  const matrix = view.matrix.map(row => (attribution ? row.map(value => value / sum(row)) : row));
  let pinned = null;

  function chip(side, name, index) {
    const button = make("button", name, {
      type: "button",
      "aria-pressed": "false",
      lang: view.languages[side === "target" ? 1 : 0],
    });
    const place = {side, index};
    button.addEventListener("pointerenter", () => highlight(place));
    button.addEventListener("pointerleave", () => highlight(pinned));
    button.addEventListener("focus", () => highlight(place));
    button.addEventListener("blur", () => highlight(pinned));
    button.addEventListener("click", () => {
      const same = pinned && pinned.side === side && pinned.index === index;
      pinned = same ? null : place;
      highlight(pinned);
    });
    return button;
  }

  // Highlight what the chosen target word attends to, or what attends to the chosen source word.
  function highlight(place) {
    const targets = [...places.targets.children];
    const sources = [...places.sources.children];
    const chosen = (side, index) => Boolean(place) && place.side === side && place.index === index;
    const shade = (buttons, weights) => {
      const most = Math.max(...weights, 1e-9);
      buttons.forEach((button, n) => {
        const share = weights.length ? weights[n] / most : 0;
        button.style.setProperty("--light", share);
        button.dataset.weight = weights.length && weights[n] >= LIGHT ? weights[n].toFixed(2) : "";
      });
    };
    const fromTarget = place && place.side === "target";
    shade(sources, fromTarget ? matrix[place.index] : []);
    shade(targets, place && !fromTarget ? matrix.map(row => row[place.index]) : []);
    for (const [side, buttons] of [
      ["target", targets],
      ["source", sources],
    ])
      buttons.forEach((button, n) => {
        button.classList.toggle("chosen", chosen(side, n));
        const held = Boolean(pinned) && pinned.side === side && pinned.index === n;
        button.setAttribute("aria-pressed", String(held));
      });
    [...places.map.querySelectorAll("tbody tr")].forEach((row, t) => {
      row.classList.toggle("chosen", chosen("target", t));
      row.firstChild.classList.toggle("chosen", chosen("target", t));
      [...row.querySelectorAll("td")].forEach((cell, s) =>
        cell.classList.toggle("chosen", chosen("source", s)),
      );
    });
    [...places.map.querySelectorAll("th[scope=col]")].forEach((head, s) =>
      head.classList.toggle("chosen", chosen("source", s) || (Boolean(place) && place.other === s)),
    );
    places.description.textContent = place ? describe(place) : "";
    view.onHighlight?.(place);
  }

  function describe(place) {
    const fromTarget = place.side === "target";
    const weights = fromTarget ? matrix[place.index] : matrix.map(row => row[place.index]);
    const others = fromTarget ? sourceNames : targetNames;
    const heaviest =
      weights
        .map((weight, n) => [weight, n])
        .filter(([weight]) => weight >= LIGHT)
        .sort((a, b) => b[0] - a[0])
        .slice(0, 4)
        .map(([weight, n]) => `${others[n]} ${weight.toFixed(2)}`)
        .join(", ") || say("nothing");
    const name = (fromTarget ? targetNames : sourceNames)[place.index];
    const [ofTarget, ofSource] = attribution
      ? ["By {method}, “{name}” is due to: {heaviest}", "By {method}, “{name}” contributes to: {heaviest}"]
      : [
          "When writing “{name}”, the model attends to: {heaviest}",
          "“{name}” is attended to when writing: {heaviest}",
        ];
    return say(fromTarget ? ofTarget : ofSource, {method: attribution?.method, name, heaviest});
  }

  places.targets.replaceChildren(...targetNames.map((name, t) => chip("target", name, t)));
  places.sources.replaceChildren(...sourceNames.map((name, s) => chip("source", name, s)));
  const head = append(make("tr"), make("td", "", {class: "corner"}));
  sourceNames.forEach(name => append(head, append(make("th", null, {scope: "col"}), make("span", name))));
  const rows = matrix.map((weights, t) => {
    const row = append(make("tr"), make("th", targetNames[t], {scope: "row"}));
    weights.forEach((weight, s) => {
      const shown = Math.abs(weight) >= LIGHT ? weight.toFixed(2).replace("0.", ".") : "";
      const cell = make("td", shown);
      cell.style.setProperty("--light", weight);
      cell.title = `${targetNames[t]} ← ${sourceNames[s]}: ${weight.toFixed(4)}`;
      cell.dataset.weight = weight;
      cell.addEventListener("pointerenter", () => highlight({side: "target", index: t, other: s}));
      cell.addEventListener("pointerleave", () => highlight(pinned));
      append(row, cell);
    });
    return row;
  });
  places.map.replaceChildren(append(make("thead"), head), append(make("tbody"), ...rows));
  highlight(null);
  return {
    matrix,
    release: () => {
      pinned = null;
      highlight(null);
    },
  };
}

// A part of the page that is drawn when it is opened.
function drawnLater(summary, draw, attributes) {
  const details = append(make("details", null, attributes), append(make("summary"), summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) append(details, draw());
  });
  return details;
}

export function vector(tensor) {
  const first = tensor.data
    .slice(0, 4)
    .map(x => x.toFixed(3))
    .join(", ");
  const all = () => make("pre", tensor.data.map(x => x.toFixed(4)).join("  "));
  return drawnLater(make("code", `[${tensor.shape}] (${first}, …)`), all, {class: "vector"});
}

export function facts(entries) {
  const list = make("dl");
  for (const [name, ...parts] of entries) append(list, make("dt", name), append(make("dd"), ...parts));
  return list;
}

export function table(headings, rows) {
  const head = append(
    make("tr"),
    ...headings.map(text => (text ? make("th", text, {scope: "col"}) : make("td"))),
  );
  const body = rows.map(({cells, padding}) => {
    const row = make("tr", null, {class: padding ? "padding" : ""});
    return append(
      row,
      ...cells.map(cell =>
        typeof cell === "number"
          ? make("td", cell.toFixed(4), {class: "number"})
          : cell === null
            ? make("td", "−∞", {class: "number"})
            : make("td", cell),
      ),
    );
  });
  const made = append(
    make("table", null, {class: "numbers"}),
    append(make("thead"), head),
    append(make("tbody"), ...body),
  );
  // The keyboard scrolls what can have the focus.
  return append(make("div", null, {class: "scroll", tabindex: "0"}), made);
}

function positions(data, step) {
  const several = hasHeads(data);
  const byHead = tensor => (several ? tensor.data : [tensor.data]);
  const columns = []; // the heading and the values of each
  for (const [head, weights] of (step.weights ? byHead(step.weights) : []).entries()) {
    const which = several ? ` ${head + 1}` : "";
    columns.push(
      [`${say("score")}${which}`, byHead(step.scores)[head]],
      [`${say("after mask")}${which}`, byHead(step.masked_scores)[head]],
      [`${say("weight")}${which}`, weights],
    );
  }
  if (several) columns.push([say("mean weight"), step.mean_weights.data]);
  if (step.attribution) columns.push([data.attribution.method, step.attribution.data]);
  const rows = data.memory.pieces.map((piece, s) => ({
    padding: !data.memory.mask.data[s],
    cells: [String(s + 1), named(piece.piece), ...columns.map(([, values]) => values[s])],
  }));
  return table([say("place"), say("piece"), ...columns.map(([heading]) => heading)], rows);
}

// One step of an explanation, drawn when it is opened.
export function stepDetails(data, step) {
  const summary = say("{number}.  reads {reads}, writes {writes}   (p = {probability})", {
    number: step.number,
    reads: named(step.reads.piece),
    writes: named(step.writes.piece),
    probability: Math.exp(step.log_prob).toFixed(3),
  });
  return drawnLater(summary, () => {
    const formula = data.model.formula;
    const total = data.memory.pieces.length;
    const real = data.memory.length;
    const several = hasHeads(data);
    const scale = formula.scale === null ? `${say("none")}: ` : `× ${formula.scale.toPrecision(6)}: `;
    const sums = !step.weights ? [] : several ? step.weights.data : [step.weights.data];
    const attended = sums.length || step.attribution ? [positions(data, step)] : [];
    const sum = sums.map(row => row.reduce((a, b) => a + b, 0).toFixed(6)).join(", ");
    const top = step.candidates.map(c => ({
      cells: [named(c.piece), c.probability, c.id === step.writes.id ? say("written") : ""],
    }));
    const rest = step.residual === null ? [] : [vector(step.residual)];
    return append(
      make("div"),
      facts([
        [say("query"), vector(step.query), ` ${data.model.query}`],
        [say("score"), `${formula.text}   (${formula.source})`],
        ...(sums.length
          ? [
              [say("scale"), scale + formula.scale_reason],
              step.looked
                ? [say("weights"), say("given: they are not the softmax of the scores")]
                : [
                    "softmax",
                    say("over the {total} source positions, of which {padding} are padding", {
                      total,
                      padding: total - real,
                    }),
                  ],
            ]
          : [[say("weights"), say("none: the model has no attention")]]),
      ]),
      ...attended,
      facts([
        ...(sums.length
          ? [
              [say("sum of weights"), sum],
              [
                say("context"),
                vector(step.context),
                data.model.heads === 1
                  ? ` ${say("c_i, the weights' sum of values")}`
                  : ` ${say("c_i: each head's sum of its part of the values, side by side, by output.weight and output.bias")}`,
              ],
            ]
          : []),
        [say("residual"), `${data.model.residual} `, ...rest],
        [say("output"), vector(step.output), ` ${say("a_i, what the decoder receives")}`],
        [say("then"), data.model.output_use],
      ]),
      table([say("next piece"), say("probability"), ""], top),
    );
  });
}

// What is computed once per sentence: a table, and a sentence about the padding.
export function memoryDetails(data) {
  const memory = data.memory;
  const rows = [
    ["H", memory.states, say("encoder states")],
    ["K", memory.keys, say("keys, which a query is compared with")],
    ["", memory.remembered, `${say("projected keys")}: ${data.model.formula.remembered}`],
    ["V", memory.values, say("values, which the context sums")],
    [say("mask"), memory.mask, say("true at pieces, false at padding")],
    ["Q", data.steps[0].query, `${say("query, one per step")}: ${data.model.query}`],
    ...Object.entries(data.model.formula.letters).map(([letter, name]) => [
      letter,
      data.parameters[name],
      name,
    ]),
  ]
    .filter(([, tensor]) => tensor)
    .map(([name, tensor, text]) => ({cells: [name, tensor.shape.join(" × "), text]}));
  const padding = memory.pieces.length - memory.length;
  return append(
    make("div"),
    table([say("name"), say("shape"), say("what it is")], rows),
    make(
      "p",
      say(
        "A longer neighbor in the batch adds {padding} positions of padding; run alone, the sentence gets the same weights and probabilities to {difference}.",
        {padding, difference: data.padding_difference.toExponential(1)},
      ),
      {class: "small soft"},
    ),
  );
}
