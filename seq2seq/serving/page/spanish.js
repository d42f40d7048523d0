// The texts of the page in Spanish, by the English ones. Numbers and formulas that the server explains stay
// in English.
export const spanish = {
  // The text and its translation
  "seq2seq: translate text": "seq2seq: traducir texto",
  "This page needs JavaScript, which it loads from this server alone.":
    "Esta página necesita JavaScript, que carga solo de este servidor.",
  "The page cannot start: {reason}": "La página no puede empezar: {reason}",
  Key: "Clave",
  "Translate text": "Traducir texto",
  "Translate from": "Idioma del texto",
  "Translate into": "Idioma de la traducción",
  "Swap languages": "Intercambiar los idiomas",
  "Detect language": "Detectar idioma",
  "{language} (detected)": "{language} (detectado)",
  "Text to translate": "Texto para traducir",
  "Type or paste a text": "Escribe o pega un texto",
  "Clear the text": "Borrar el texto",
  "Try an example": "Probar un ejemplo",
  "Translate from {language}": "Traducir del {language}",
  Translation: "Traducción",
  "Translated from {source} into {target}.": "Traducido del {source} al {target}.",
  "Copy the translation": "Copiar la traducción",
  "Copy a link to this translation": "Copiar un enlace a esta traducción",
  Copied: "Copiado",
  "This browser does not allow it": "Este navegador no lo permite",
  "This seems to be {language}, which no model here reads.":
    "Esto parece {language}, que ningún modelo de aquí entiende.",
  "The text is too long: {size} characters, of at most {limit} at a time.":
    "El texto es demasiado largo: {size} caracteres, de {limit} como máximo a la vez.",
  "Select what is too much": "Seleccionar lo que sobra",
  "The server does not answer. Your text stays here.": "El servidor no responde. Tu texto se queda aquí.",
  "Try again": "Intentar de nuevo",
  "There is no model “{wanted}” here; this is {name}.":
    "Aquí no hay ningún modelo «{wanted}»; este es {name}.",
  "“{other}” cannot be compared with {name}.": "«{other}» no se puede comparar con {name}.",

  // What may be wrong
  "Check these places": "Comprueba estas partes",
  "Sentence {number}: ": "Frase {number}: ",
  "the model itself finds this translation unlikely; it may be wrong.":
    "el propio modelo ve improbable esta traducción; puede estar mal.",
  "the translation ended at the length limit; it may be incomplete.":
    "la traducción acabó en el límite de longitud; puede estar incompleta.",
  "not in the translation: {texts}": "no está en la traducción: {texts}",

  // Words
  "The model is unsure of this word": "El modelo duda de esta palabra",
  "Instead of “{word}”": "En lugar de «{word}»",
  "Computing…": "Calculando…",
  "The model knows no other word here.": "El modelo no conoce otra palabra para este lugar.",
  "Choose a word to change it.": "Elige una palabra para cambiarla.",
  "The model is unsure of the dotted ones.": "El modelo duda de las que llevan puntos.",
  "Undo my choice of words": "Deshacer mis cambios",
  "Your words": "Tus palabras",
  "How a word or a phrase is always translated. You can also choose a word of a translation. The list stays in this browser.":
    "Cómo se traduce siempre una palabra o una expresión. También puedes elegir una palabra de una traducción. La lista se queda en este navegador.",
  "Words and phrases are translated as the server's list says. Your own list stays in this browser and is not used.":
    "Las palabras y expresiones se traducen como dice la lista del servidor. Tu propia lista se queda en este navegador y no se usa.",
  Use: "Usar",
  "the words below": "las palabras de abajo",
  Translate: "Traducir",
  "Always translate this word as…": "Traducir siempre esta palabra como…",
  as: "como",
  Add: "Añadir",
  Keep: "Guardar",
  "Remove “{term}”": "Quitar «{term}»",

  // Inside the model
  "Inside the model": "Dentro del modelo",
  "attention, scores, search": "atención, puntuaciones, búsqueda",
  Model: "Modelo",
  "Compare with": "Comparar con",
  "no other": "ningún otro",
  Example: "Ejemplo",
  "choose one": "elige uno",
  agreement: "concordancia",
  "agreement over a distance": "concordancia a distancia",
  reordering: "cambio de orden",
  "dropped subject": "sujeto omitido",
  "one word, several readings": "una palabra, varias lecturas",
  "a long sentence": "una frase larga",
  "{source} to {target}, style {style}, score {score}, beam {beam}":
    "{source} a {target}, estilo {style}, puntuación {score}, haz de {beam}",
  "{source} to {target}, style {style}, no attention, beam {beam}":
    "{source} a {target}, estilo {style}, sin atención, haz de {beam}",
  Sentence: "Frase",
  "Begin with": "Empezar con",
  "Links between words": "Relaciones entre palabras",
  Show: "Mostrar",
  attention: "atención",
  "nothing: the model has no attention": "nada: el modelo no tiene atención",
  "gradient × embedding": "gradiente × vector de entrada",
  "integrated gradients": "gradientes integrados",
  occlusion: "oclusión",
  "Point at a word, tap it or move to it with the arrow keys to see what it is linked to. Tap again or press Escape to release it.":
    "Señala o toca una palabra, o ve a ella con las flechas, para ver con qué se relaciona. Tócala otra vez o pulsa Escape para soltarla.",
  "source words": "palabras del texto",
  "target words": "palabras de la traducción",
  weights: "pesos",
  nothing: "nada",
  "When writing “{name}”, the model attends to: {heaviest}":
    "Al escribir «{name}», el modelo atiende a: {heaviest}",
  "“{name}” is attended to when writing: {heaviest}": "El modelo atiende a «{name}» al escribir: {heaviest}",
  "By {method}, “{name}” is due to: {heaviest}": "Según {method}, «{name}» se debe a: {heaviest}",
  "By {method}, “{name}” contributes to: {heaviest}": "Según {method}, «{name}» contribuye a: {heaviest}",
  "Rows are target words, columns source words: sums over the pieces of a source word, means over those of a target word.":
    "Las filas son palabras de la traducción y las columnas, palabras del texto: sumas de las piezas de una palabra del texto, medias de las de una de la traducción.",
  "Each row sums to 1.": "Cada fila suma 1.",
  "Shown is {meaning}; each row is divided by the sum of its absolute values.":
    "Se muestra {meaning}; cada fila está dividida por la suma de sus valores absolutos.",
  "Dashed lines are negative.": "Las líneas discontinuas son negativas.",
  "(end)": "(fin)",
  "(start)": "(inicio)",
  "(padding)": "(relleno)",

  // ... what if
  "What if it had attended to another word?": "¿Y si hubiera atendido a otra palabra?",
  "One step gets all its weight on the source piece that you choose, and the search goes on from there. You can also drag a target word above onto a source word.":
    "Un paso pone todo su peso en la pieza del texto que elijas, y la búsqueda sigue desde ahí. También puedes arrastrar arriba una palabra de la traducción hasta una del texto.",
  "when writing": "al escribir",
  "attend to": "atender a",
  Compute: "Calcular",
  "The translation stays the same.": "La traducción no cambia.",
  "The translation that follows.": "La traducción que resulta.",
  "next piece at step {number}": "pieza siguiente en el paso {number}",
  "probability before": "probabilidad antes",
  after: "después",
  "The context moves by {moved}; before it had the length {size}.":
    "El contexto se mueve {moved}; antes tenía la longitud {size}.",

  // ... step by step
  "Step by step: scores, mask, weights, context": "Paso a paso: puntuaciones, máscara, pesos, contexto",
  "Score: {text} ({source})": "Puntuación: {text} ({source})",
  "Computed once per sentence": "Lo que se calcula una vez por frase",
  "{number}.  reads {reads}, writes {writes}   (p = {probability})":
    "{number}.  lee {reads}, escribe {writes}   (p = {probability})",
  none: "ninguno",
  query: "consulta",
  score: "puntuación",
  scale: "escala",
  "over the {total} source positions, of which {padding} are padding":
    "sobre las {total} posiciones del texto, de las que {padding} son relleno",
  "given: they are not the softmax of the scores": "dados: no son el softmax de las puntuaciones",
  "none: the model has no attention": "ninguno: el modelo no tiene atención",
  place: "lugar",
  piece: "pieza",
  "after mask": "tras la máscara",
  weight: "peso",
  "mean weight": "peso medio",
  "sum of weights": "suma de los pesos",
  context: "contexto",
  "c_i, the weights' sum of values": "c_i, la suma de los valores según los pesos",
  "c_i: each head's sum of its part of the values, side by side, by output.weight and output.bias":
    "c_i: la suma de cada cabeza de su parte de los valores, una junto a otra, por output.weight y output.bias",
  residual: "residual",
  output: "salida",
  "a_i, what the decoder receives": "a_i, lo que recibe el decodificador",
  then: "después",
  "next piece": "pieza siguiente",
  probability: "probabilidad",
  written: "escrita",
  name: "nombre",
  shape: "forma",
  "what it is": "qué es",
  mask: "máscara",
  "encoder states": "estados del codificador",
  "keys, which a query is compared with": "claves, con las que se compara una consulta",
  "projected keys": "claves proyectadas",
  "values, which the context sums": "valores, que suma el contexto",
  "true at pieces, false at padding": "verdadera en las piezas, falsa en el relleno",
  "query, one per step": "consulta, una por paso",
  "A longer neighbor in the batch adds {padding} positions of padding; run alone, the sentence gets the same weights and probabilities to {difference}.":
    "Una vecina más larga en el lote añade {padding} posiciones de relleno; sola, la frase recibe los mismos pesos y probabilidades hasta {difference}.",

  // ... the search
  "The search: a tree of hypotheses": "La búsqueda: un árbol de hipótesis",
  "hypotheses that it keeps": "hipótesis que conserva",
  "{number} hypotheses in {steps} steps; the table below has those that were finished":
    "{number} hipótesis en {steps} pasos; la tabla de abajo tiene las que se acabaron",
  "{words}: log p = {logProb}, score {score}, {status}":
    "{words}: log p = {logProb}, puntuación {score}, {status}",
  "(empty)": "(vacía)",
  extended: "continuada",
  finished: "acabada",
  unfinished: "sin acabar",
  pruned: "descartada",
  steps: "pasos",
  "{shown} of {steps}": "{shown} de {steps}",
  Play: "Reproducir",
  "Each step keeps the most likely hypotheses of all that the step before leads to. The numbers are log probabilities. Thick: the translation; green: finished; dashed: pruned.":
    "Cada paso conserva las hipótesis más probables de todas a las que lleva el paso anterior. Los números son logaritmos de probabilidades. Gruesa: la traducción; verde: acabada; discontinua: descartada.",
  tree: "árbol",
  "finished hypothesis": "hipótesis acabada",
  "the translation": "la traducción",
};
