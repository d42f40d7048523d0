// Sentences that show what a model has to solve, by the code of the language they are in.
export const examples = {
  es: [
    ["agreement", "Las casas blancas son muy pequeñas."],
    ["agreement over a distance", "Las llaves que perdió mi hermano estaban en el jardín."],
    ["reordering", "El coche rojo de mi hermana no funciona."],
    ["dropped subject", "No sé dónde vive, pero nunca habla de su familia."],
    ["one word, several readings", "Lo vio con el telescopio."],
    [
      "a long sentence",
      "Cuando llegamos a la estación, el tren ya se había ido, así que esperamos " +
        "dos horas en un café pequeño, donde mi hermano leyó un libro y yo escribí una carta a mis " +
        "padres.",
    ],
  ],
  en: [
    ["agreement", "The white houses are very small."],
    ["agreement over a distance", "The keys that my brother lost were in the garden."],
    ["reordering", "My sister's red car does not work."],
    ["dropped subject", "I do not know where she lives, but she never talks about her family."],
    ["one word, several readings", "I saw her duck."],
    [
      "a long sentence",
      "When we arrived at the station, the train had already left, so we waited " +
        "two hours in a small café, where my brother read a book and I wrote a letter to my parents.",
    ],
  ],
};
