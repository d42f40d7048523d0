"""The sample corpus generator: tables, morphology, agreement, alignments and shipped files."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, islice
from pathlib import Path

import pytest

from corpora.sample import MAX_WORDS, MIN_WORDS, Pair, english, generate, lexicon, spanish
from corpora.sample.tables import read_table
from corpora.sample.tokens import Phrase, finish
from prepare_data import main
from seq2seq.errors import DataError
from seq2seq.inference.words import words

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample"
SPLITS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def shipped() -> dict[str, list[list[str]]]:
    return {
        split: [
            line.split("\t")
            for line in (SAMPLE / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        ]
        for split in SPLITS
    }


@pytest.fixture(scope="module")
def pairs(shipped: dict[str, list[list[str]]]) -> list[Pair]:
    """Return 50,000 new pairs, and then those of the shipped files."""
    generated = list(islice(generate(7), 50_000))
    for source, target, links in chain(*shipped.values()):
        alignment = (link.split("-") for link in links.split())
        generated.append(Pair(source, target, tuple((int(i), int(j)) for i, j in alignment)))
    return generated


# --- The tables of the lexicon ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("es\ten\n", "t.tsv:1: wrong header; expected the columns word number"),
        ("# a comment\nword\tnumber\nuno\t1\textra\n", "t.tsv:3: 3 columns; the header has 2"),
        ("word\tnumber\n\nuno\tx\n", "t.tsv:3: invalid literal"),
        ("word\tnumber\ntres\t3\n", "t.tsv:2: unknown name 'tres'"),
    ],
)
def test_table_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    known = {"uno": "one"}
    (tmp_path / "t.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_table("t", "word number", lambda es, n: (known[es], int(n)), folder=tmp_path)


def test_table_rows_may_leave_out_empty_columns(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("# a comment\na\tb\nuno\tone\ndos\n", encoding="utf-8")
    rows = read_table("t", "a b", lambda *fields: fields, folder=tmp_path)
    assert rows == (("uno", "one"), ("dos", ""))


# --- Spanish morphology ----------------------------------------------------------------------

# verb, tense, yo tú él nosotros vosotros ellos
CONJUGATIONS = """
hablar pres hablo hablas habla hablamos habláis hablan
hablar pret hablé hablaste habló hablamos hablasteis hablaron
hablar imp hablaba hablabas hablaba hablábamos hablabais hablaban
hablar fut hablaré hablarás hablará hablaremos hablaréis hablarán
hablar subj hable hables hable hablemos habléis hablen
comer pres como comes come comemos coméis comen
comer pret comí comiste comió comimos comisteis comieron
comer imp comía comías comía comíamos comíais comían
vivir pres vivo vives vive vivimos vivís viven
vivir subj viva vivas viva vivamos viváis vivan
ser pres soy eres es somos sois son
ser imp era eras era éramos erais eran
estar pres estoy estás está estamos estáis están
estar pret estuve estuviste estuvo estuvimos estuvisteis estuvieron
ir pres voy vas va vamos vais van
ir pret fui fuiste fue fuimos fuisteis fueron
ir imp iba ibas iba íbamos ibais iban
ir subj vaya vayas vaya vayamos vayáis vayan
tener pres tengo tienes tiene tenemos tenéis tienen
tener pret tuve tuviste tuvo tuvimos tuvisteis tuvieron
tener fut tendré tendrás tendrá tendremos tendréis tendrán
tener subj tenga tengas tenga tengamos tengáis tengan
hacer pret hice hiciste hizo hicimos hicisteis hicieron
hacer fut haré harás hará haremos haréis harán
decir pres digo dices dice decimos decís dicen
decir pret dije dijiste dijo dijimos dijisteis dijeron
venir pres vengo vienes viene venimos venís vienen
venir pret vine viniste vino vinimos vinisteis vinieron
poner fut pondré pondrás pondrá pondremos pondréis pondrán
poner subj ponga pongas ponga pongamos pongáis pongan
salir pres salgo sales sale salimos salís salen
saber pres sé sabes sabe sabemos sabéis saben
saber subj sepa sepas sepa sepamos sepáis sepan
querer pres quiero quieres quiere queremos queréis quieren
poder pres puedo puedes puede podemos podéis pueden
poder cond podría podrías podría podríamos podríais podrían
dar pret di diste dio dimos disteis dieron
ver imp veía veías veía veíamos veíais veían
ver subj vea veas vea veamos veáis vean
oír pres oigo oyes oye oímos oís oyen
oír pret oí oíste oyó oímos oísteis oyeron
oír fut oiré oirás oirá oiremos oiréis oirán
leer pret leí leíste leyó leímos leísteis leyeron
traer pret traje trajiste trajo trajimos trajisteis trajeron
conducir pres conduzco conduces conduce conducimos conducís conducen
conducir pret conduje condujiste condujo condujimos condujisteis condujeron
conocer pres conozco conoces conoce conocemos conocéis conocen
conocer subj conozca conozcas conozca conozcamos conozcáis conozcan
dormir pres duermo duermes duerme dormimos dormís duermen
dormir pret dormí dormiste durmió dormimos dormisteis durmieron
dormir subj duerma duermas duerma durmamos durmáis duerman
pedir pres pido pides pide pedimos pedís piden
pedir pret pedí pediste pidió pedimos pedisteis pidieron
preferir pret preferí preferiste prefirió preferimos preferisteis prefirieron
jugar pres juego juegas juega jugamos jugáis juegan
jugar pret jugué jugaste jugó jugamos jugasteis jugaron
buscar pret busqué buscaste buscó buscamos buscasteis buscaron
buscar subj busque busques busque busquemos busquéis busquen
pagar pret pagué pagaste pagó pagamos pagasteis pagaron
empezar pret empecé empezaste empezó empezamos empezasteis empezaron
empezar subj empiece empieces empiece empecemos empecéis empiecen
cruzar subj cruce cruces cruce crucemos crucéis crucen
coger pres cojo coges coge cogemos cogéis cogen
coger subj coja cojas coja cojamos cojáis cojan
elegir pres elijo eliges elige elegimos elegís eligen
seguir pres sigo sigues sigue seguimos seguís siguen
construir pres construyo construyes construye construimos construís construyen
construir pret construí construiste construyó construimos construisteis construyeron
enviar pres envío envías envía enviamos enviáis envían
volver pres vuelvo vuelves vuelve volvemos volvéis vuelven
cerrar subj cierre cierres cierre cerremos cerréis cierren
haber pres he has ha hemos habéis han
""".strip().splitlines()

PARTICIPLES = {
    "abrir": "abierto", "escribir": "escrito", "romper": "roto", "ver": "visto", "poner": "puesto",
    "hacer": "hecho", "decir": "dicho", "volver": "vuelto", "devolver": "devuelto",
    "resolver": "resuelto", "descubrir": "descubierto", "leer": "leído", "oír": "oído",
    "traer": "traído", "construir": "construido", "ir": "ido", "comer": "comido",
}  # fmt: skip
GERUNDS = {
    "leer": "leyendo", "oír": "oyendo", "ir": "yendo", "dormir": "durmiendo", "pedir": "pidiendo",
    "decir": "diciendo", "venir": "viniendo", "construir": "construyendo", "traer": "trayendo",
    "hablar": "hablando", "vivir": "viviendo", "ver": "viendo", "servir": "sirviendo",
    "vestir": "vistiendo", "poder": "pudiendo",
}  # fmt: skip
COMMANDS = {
    "poner": "pon", "venir": "ven", "salir": "sal", "hacer": "haz", "decir": "di", "tener": "ten",
    "ir": "ve", "cerrar": "cierra", "dormir": "duerme", "pedir": "pide", "leer": "lee",
}  # fmt: skip


@pytest.mark.parametrize("row", CONJUGATIONS)
def test_conjugation(row: str) -> None:
    verb, tense, *forms = row.split()
    assert list(spanish.paradigm(verb).rows[tense]) == forms


def test_nonfinite_forms_and_commands() -> None:
    for verb, form in PARTICIPLES.items():
        assert spanish.paradigm(verb).participle == form
    for verb, form in GERUNDS.items():
        assert spanish.paradigm(verb).gerund == form
    for verb, form in COMMANDS.items():
        assert spanish.paradigm(verb).imperative == form


def test_spanish_plurals_and_adjectives() -> None:
    plurals = {
        "libro": "libros", "flor": "flores", "luz": "luces", "pez": "peces", "lápiz": "lápices",
        "canción": "canciones", "jardín": "jardines", "inglés": "ingleses", "lunes": "lunes",
        "paraguas": "paraguas", "autobús": "autobuses", "país": "países", "mes": "meses",
        "café": "cafés", "sofá": "sofás", "rey": "reyes", "tren": "trenes", "árbol": "árboles",
    }  # fmt: skip
    assert {word: spanish.plural(word) for word in plurals} == plurals
    adjectives = {
        "rojo": ("rojo", "roja", "rojos", "rojas"),
        "verde": ("verde", "verde", "verdes", "verdes"),
        "azul": ("azul", "azul", "azules", "azules"),
        "español": ("español", "española", "españoles", "españolas"),
        "alemán": ("alemán", "alemana", "alemanes", "alemanas"),
        "trabajador": ("trabajador", "trabajadora", "trabajadores", "trabajadoras"),
    }
    assert {word: spanish.adjective_forms(word) for word in adjectives} == adjectives


def test_spanish_contractions_and_clitics() -> None:
    assert spanish.enclitic("comprar", ("lo",)) == "comprarlo"
    assert spanish.enclitic("dar", ("me", "lo")) == "dármelo"
    assert [spanish.conjunction("y", w) for w in ("Irene", "hijo", "hielo", "Ana")] == [
        "e", "e", "y", "y",
    ]  # fmt: skip
    assert [spanish.conjunction("o", w) for w in ("ocho", "hotel", "uno")] == ["u", "u", "o"]
    pair = finish(Phrase([("de", 1), ("el", 2), ("hotel", 4)], [("of", 1), ("the", 2), ("old", 8)]))
    assert pair == Pair("Del hotel", "Of the old", ((0, 0), (0, 1)))


# --- English morphology ----------------------------------------------------------------------


def test_english_verbs() -> None:
    known = """
    go goes went gone going|be is was been being|have has had had having|do does did done doing
    write writes wrote written writing|run runs ran run running|stop stops stopped stopped stopping
    cry cries cried cried crying|play plays played played playing|study studies studied studied
    visit visits visited visited visiting|put puts put put putting|wash washes washed washed washing
    open opens opened opened opening|prefer prefers preferred preferred preferring
    begin begins began begun beginning|drive drives drove driven driving|fix fixes fixed fixed
    cook cooks cooked cooked cooking|clean cleans cleaned cleaned cleaning
    hug hugs hugged hugged hugging|wear wears wore worn wearing|lose loses lost lost losing
    """
    for row in known.strip().replace("\n", "|").split("|"):
        base, *forms = row.split()
        assert list(english.verb(base)[1:5])[: len(forms)] == forms
    assert english.verb("look for").particle == ("for",)


def test_english_nouns_adjectives_and_articles() -> None:
    plurals = {
        "box": "boxes", "city": "cities", "knife": "knives", "child": "children", "foot": "feet",
        "tooth": "teeth", "mouse": "mice", "sheep": "sheep", "man": "men", "potato": "potatoes",
        "day": "days", "church": "churches", "bus": "buses", "wolf": "wolves",
        "stomach": "stomachs",
        "police officer": "police officers", "photo": "photos", "shelf": "shelves",
    }  # fmt: skip
    assert {noun: english.plural(noun) for noun in plurals} == plurals
    grades = {
        "tall": ("taller", "tallest"), "big": ("bigger", "biggest"),
        "happy": ("happier", "happiest"),
        "nice": ("nicer", "nicest"), "good": ("better", "best"), "quiet": ("quieter", "quietest"),
        "famous": None, "interesting": None, "tired": None, "beautiful": None,
        "young": ("younger", "youngest"),
    }  # fmt: skip
    assert {adjective: english.grades(adjective) for adjective in grades} == grades
    an = {"apple": True, "hour": True, "honest": True, "university": False, "useful": False,
          "European": False, "one": False, "umbrella": True, "house": False}  # fmt: skip
    assert {word: english.takes_an(word) for word in an} == an


# --- The sentences ---------------------------------------------------------------------------

# Gender and number of some words, written down independently of the lexicon.
NOUNS = {
    "coche": "ms", "coches": "mp", "mesa": "fs", "mesas": "fp", "mapa": "ms", "mapas": "mp",
    "foto": "fs", "fotos": "fp", "flor": "fs", "flores": "fp", "tren": "ms", "trenes": "mp",
    "problema": "ms", "problemas": "mp", "ciudad": "fs", "ciudades": "fp", "lápiz": "ms",
    "lápices": "mp", "actriz": "fs", "actrices": "fp", "león": "ms", "leones": "mp", "camisa": "fs",
    "camisas": "fp", "vestido": "ms", "moto": "fs", "motos": "fp", "radio": "fs", "jardín": "ms",
    "jardines": "mp", "examen": "ms", "exámenes": "mp", "pantalones": "mp", "gafas": "fp",
    "leche": "fs", "café": "ms", "mujer": "fs", "hombre": "ms", "mujeres": "fp", "hombres": "mp",
}  # fmt: skip
DETERMINERS = {
    "el": "ms", "la": "fs", "los": "mp", "las": "fp", "un": "ms", "una": "fs", "este": "ms",
    "esta": "fs", "estos": "mp", "estas": "fp", "ese": "ms", "esa": "fs", "esos": "mp",
    "esas": "fp", "aquel": "ms", "aquella": "fs", "aquellos": "mp", "aquellas": "fp",
    "nuestro": "ms", "nuestra": "fs", "nuestros": "mp", "nuestras": "fp", "muchos": "mp",
    "muchas": "fp", "otro": "ms", "otra": "fs", "otros": "mp", "otras": "fp", "al": "ms",
    "del": "ms", "mi": "?s", "mis": "?p", "tu": "?s", "tus": "?p", "su": "?s", "sus": "?p",
}  # fmt: skip
ADJECTIVES = {
    "rojo": "ms", "roja": "fs", "rojos": "mp", "rojas": "fp", "blanco": "ms", "blanca": "fs",
    "blancos": "mp", "blancas": "fp", "negro": "ms", "negra": "fs", "negros": "mp",
    "negras": "fp", "amarillo": "ms", "amarilla": "fs", "amarillos": "mp", "amarillas": "fp",
    "francés": "ms", "francesa": "fs", "franceses": "mp", "francesas": "fp", "alemán": "ms",
    "alemana": "fs", "alemanes": "mp", "alemanas": "fp", "verde": "?s", "verdes": "?p",
    "azul": "?s", "azules": "?p",
}  # fmt: skip


def _agree(one: str, other: str) -> bool:
    return all(a == b or "?" in (a, b) for a, b in zip(one, other, strict=True))


def test_determiners_and_adjectives_agree_with_their_noun(pairs: list[Pair]) -> None:
    checked: Counter[str] = Counter()
    for pair in pairs:
        tokens = words(pair.source.lower())
        for before, noun, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
            features = NOUNS.get(noun)
            if features is None:
                continue
            if before in DETERMINERS:
                checked["determiner"] += 1
                assert _agree(DETERMINERS[before], features), pair.source
            if after in ADJECTIVES:
                checked["adjective"] += 1
                assert _agree(ADJECTIVES[after], features), pair.source
    assert checked["determiner"] > 5_000
    assert checked["adjective"] > 300


def test_agua_takes_el(pairs: list[Pair]) -> None:
    found = Counter(
        match for pair in pairs for match in re.findall(r"\b\w+ agua\b", pair.source.lower())
    )
    assert found["el agua"] > 50
    assert found["la agua"] == 0


def test_articles_contractions_and_capitals(pairs: list[Pair]) -> None:
    vowels = re.compile(r"\ba (?:apple|egg|old|orange|umbrella|engineer|artist|interesting)\b")
    consonants = re.compile(r"\ban (?:book|university|useful|car|house)\b")
    for pair in pairs:
        assert not re.search(r"\b(?:de|a) el\b", pair.source), pair.source
        assert not vowels.search(pair.target.lower()), pair.target
        assert not consonants.search(pair.target.lower()), pair.target
        first = next(word for word in words(pair.source) if word[0].isalnum())
        assert not first[0].islower()
        assert not pair.target[0].islower()
        assert not re.search(r"\b(?:monday|friday|january|spanish)\b", pair.target)
        assert pair.source.startswith("¿") == pair.source.endswith("?")
        assert pair.source[-1] == pair.target[-1]


def test_alignments_link_every_word(pairs: list[Pair]) -> None:
    for pair in pairs[:30_000]:
        source, target = words(pair.source), words(pair.target)
        assert {i for i, _ in pair.alignment} == set(range(len(source))), pair
        assert {j for _, j in pair.alignment} == set(range(len(target))), pair
        assert list(pair.alignment) == sorted(set(pair.alignment))


def test_punctuation_names_and_digits_link_to_themselves(pairs: list[Pair]) -> None:
    names = {*lexicon.MEN, *lexicon.WOMEN}
    counterpart = {"¿": "?", "¡": "!"}
    for pair in pairs[:30_000]:
        source, target = words(pair.source), words(pair.target)
        for i, j in pair.alignment:
            mark = not source[i][0].isalnum()
            assert mark == (not target[j][0].isalnum()), pair
            if mark:
                assert counterpart.get(source[i], source[i]) == target[j], pair
            if source[i].isdigit():
                assert source[i] == target[j], pair
        linked = {(source[i], target[j]) for i, j in pair.alignment}
        for word in names.intersection(source):
            assert (word, word) in linked or (word, word + "'s") in linked, pair


def test_sentence_lengths(pairs: list[Pair]) -> None:
    lengths = [len(words(pair.source)) for pair in pairs[:50_000]]
    assert min(lengths) == MIN_WORDS
    assert 40 < max(lengths) <= MAX_WORDS
    assert max(len(words(pair.target)) for pair in pairs[:50_000]) <= MAX_WORDS
    assert 8.5 < sum(lengths) / len(lengths) < 10.5
    assert 0.03 < sum(length > 20 for length in lengths) / len(lengths) < 0.1


def test_source_determines_target(pairs: list[Pair]) -> None:
    meant: dict[str, str] = {}
    other = sum(meant.setdefault(pair.source, pair.target) != pair.target for pair in pairs)
    assert other / len(pairs) < 1e-4


def test_lexicon_sizes() -> None:
    assert len({(n.es[0], n.feminine) for n in lexicon.NOUNS}) >= 250
    assert len({v.es.infinitive for v in lexicon.VERBS}) >= 120
    assert len(lexicon.ADJECTIVES) >= 80


def test_grammar_covers_its_phenomena(pairs: list[Pair]) -> None:
    text = "\n".join(f"{pair.source}\t{pair.target}" for pair in pairs[:40_000])
    for pattern in (
        r"¿Qué .*\tWhat (?:do|does|did|will)\b",
        r"\bdoes not\b",
        r"\bused to\b",
        r"\bhas been\b|\bhave been\b|\bhave \w+ed\b",
        r"\bme gusta[n]? .*\bI like\b",
        r"\bse la \w+ a .*\bit to\b",
        r"\bmás \w+ que\b.*\bthan\b",
        r"\bel \w+ más \w+ de\b.*\bthe most \w+|the \w+est",
        r"\bnunca\b.*\bnever\b",
        r"\bnadie\b|Nadie\b",
        r"\bhace \w+ años\b.*years ago\b",
        r"\bvosotros\b|\w+áis\b",
        r"\b(?:gran|buen|mal|primer|tercer) \w+\b",
        r" e I\w+",
        r"\bquiere que\b.*\bto\b",
        r"\bmientras\b.*\bwhile\b.*ing\b",
        r"\w+'s\b",
    ):
        assert re.search(pattern, text), pattern


# --- Sampling and the shipped files ----------------------------------------------------------


def test_generation_is_deterministic() -> None:
    assert list(islice(generate(3), 2_000)) == list(islice(generate(3), 2_000))
    assert list(islice(generate(3), 50)) != list(islice(generate(4), 50))


def test_command_regenerates_the_shipped_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for split, pairs in (("test", 1_000), ("valid", 1_000), ("train", 48_000)):
        assert f"{split}: {pairs} pairs," in printed
    for split in SPLITS:
        assert (tmp_path / f"{split}.tsv").read_bytes() == (SAMPLE / f"{split}.tsv").read_bytes()


def _fold(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold()).strip()


def test_shipped_sentences_are_unique(shipped: dict[str, list[list[str]]]) -> None:
    for side in (0, 1):
        folded = [_fold(row[side]) for split in SPLITS for row in shipped[split]]
        assert len(set(folded)) == len(folded) == 50_000


def test_shipped_rows_are_well_formed(shipped: dict[str, list[list[str]]]) -> None:
    for split in SPLITS:
        for source, target, links in shipped[split]:
            sizes = len(words(source)), len(words(target))
            for link in links.split():
                i, j = map(int, link.split("-"))
                assert i < sizes[0]
                assert j < sizes[1]


def test_every_lexeme_occurs_15_times_in_training(shipped: dict[str, list[list[str]]]) -> None:
    seen = Counter(word for row in shipped["train"] for word in words(row[0].lower()))
    entries = [*lexicon.CITIES, *lexicon.COUNTRIES, *lexicon.WEEKDAYS, *lexicon.MONTHS]
    lexemes = [
        *(set(noun.es) for noun in lexicon.NOUNS),
        *(set(adjective.forms) for adjective in lexicon.ADJECTIVES),
        *({name.lower()} for name in (*lexicon.MEN, *lexicon.WOMEN)),
        *({entry.es.lower()} for entry in entries),
    ]
    for verb in lexicon.VERBS:
        forms = {form for row in verb.es.rows.values() for form in row}
        lexemes.append(forms | {verb.es.infinitive, verb.es.gerund, verb.es.participle})
    rare = {tuple(sorted(forms)) for forms in lexemes if sum(seen[f] for f in forms) < 15}
    assert not rare
