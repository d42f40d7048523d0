"""Minimal pairs: sentences with their translations, right and with one error, by phenomenon.

A model that knows a phenomenon finds the right translation more probable than the wrong one, as in
LingEval97 (Sennrich 2017) and in Burlot and Yvon (2017). All words occur in the training
sentences of the sample corpus, but for unseen names; no sentence does.

A builder returns a sentence, and the same with an error in one or both languages, or None where
what it drew has no such error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from corpora.publishing import publish_files
from seq2seq.inference.words import words

from . import copulas, linking, questions, spanish
from .actions import HABIT, MAIN, PAST, Request, action, verbs_of
from .clauses import ESTAR, SER, Clause
from .generate import MAX_WORDS, MIN_WORDS, fold
from .lexicon import ADJECTIVES, MEN, NOUNS, NUMBERS, VERBS, WOMEN, entries, tagged
from .linking import NOW, TAKING, clause
from .noun_phrases import NounPhrase, elided, noun_phrase, person_subject
from .sentences import SUBJECT_PRONOUNS, calendar, independent
from .tokens import Draw, Pair, Phrase, Token, Tokens, finish

FILES = {"es-en": "challenge-es-en.tsv", "en-es": "challenge-en-es.tsv"}
PAIRS = 100  # of a phenomenon
_SHORT = 22  # most words of a sentence that is not to be long
_LONGEST = 75

Contrast = tuple[Phrase, Phrase]  # right and wrong
Found = Contrast | None


def _swapped(*pairs: tuple[str, str]) -> dict[str, str]:
    """Return a mapping between the words of pairs, in both directions."""
    return dict([*pairs, *((two, one) for one, two in pairs)])


_BE_AND_HAVE = (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"))
_OTHER_NUMBER_EN = _swapped(*((verb.en.third, verb.en.base) for verb in VERBS), *_BE_AND_HAVE)
_OTHER_NUMBER_ES = _swapped(*(
    (verb.form(tense, spanish.EL), verb.form(tense, spanish.ELLOS))
    for tense in ("pret", "imp", "pres")
    for verb in (*(verb.es for verb in VERBS), SER.es, ESTAR.es)
))  # fmt: skip
_OTHER_GENDER = _swapped(
    *((a.forms[at], a.forms[at + 1]) for a in ADJECTIVES for at in (0, 2) if len(set(a.forms)) == 4)
)
_SINGULAR = {noun.en[0].split()[-1] for noun in NOUNS if not noun.plural_only} | {*MEN, *WOMEN}
_PLURAL = {noun.en[1].split()[-1] for noun in NOUNS if not noun.mass}


def _replaced(tokens: Tokens, old: Token, new: str) -> Tokens:
    return [(new, old[1]) if token == old else token for token in tokens]


def _statement(phrase: Phrase) -> Phrase:
    return Phrase([*phrase.es, (".", 0)], [*phrase.en, (".", 0)])


def _third(d: Draw) -> NounPhrase:
    """Return someone whose number shows in the verbs of both languages."""
    subject = person_subject(d)
    while not (subject.es and subject.person == subject.en_person and subject.person in (2, 5)):
        subject = person_subject(d)
    return subject


def _disagreeing(phrase: Phrase, verb: Clause) -> Found:
    """Return a phrase, and the same with the finite verb of a clause in the other number."""
    es = verb.group.es[0]
    en = (verb.group.marked if verb.en_not else verb.group.plain)[0]
    if es[0] not in _OTHER_NUMBER_ES or en[0] not in _OTHER_NUMBER_EN or verb.experiencer:
        return None
    wrong = (
        _replaced(phrase.es, es, _OTHER_NUMBER_ES[es[0]]),
        _replaced(phrase.en, en, _OTHER_NUMBER_EN[en[0]]),
    )
    return _statement(phrase), _statement(Phrase(*wrong))


# --- Agreement and relative clauses --------------------------------------------------------------


def _head(d: Draw, *tags: str) -> NounPhrase:
    noun = d.pick(tagged(*tags))
    return noun_phrase(d, noun, kind=d.pick(("def", "def", "dem")), modify=0)


def _described(d: Draw, head: NounPhrase, modifier: Phrase, main: Clause) -> Phrase:
    """Return the statement of a clause, whose subject is a head with a modifier."""
    longer = replace(head, es=head.es + modifier.es, en=head.en + modifier.en)
    return replace(main, subject=longer, es_subject=longer.es).statement()


def _quality(d: Draw, head: NounPhrase) -> Clause:
    return copulas.adjective(d, Request(NOW, head, extras=0.0, negation=0.1), "pres")


def _is_attracted(head: NounPhrase, modifier: Phrase) -> bool:
    """Return whether the last noun of a modifier has another number than the head."""
    near, far = (_SINGULAR, _PLURAL) if head.plural else (_PLURAL, _SINGULAR)
    last = next((word for word, _ in reversed(modifier.en) if word in _SINGULAR | _PLURAL), "")
    return last in near - far and len(modifier.en) >= 3


def _distant_number(d: Draw) -> Found:
    """The books that Ana bought are (is) red."""
    head = _head(d, "job", "person", "animal", "vehicle", "read", "thing", "cloth")
    acts = verbs_of(head) and d.chance(0.5)
    main = action(d, Request(HABIT, head, 0.3, negation=0.1)) if acts else _quality(d, head)
    modifier = linking.relative(d, head, main.verb)
    if not _is_attracted(head, modifier):
        return None
    return _disagreeing(_described(d, head, modifier, main), main)


def _distant_gender(d: Draw) -> Found:
    """La casa que compró Juan es blanca (blanco). English has no such error."""
    head = _head(d, "vehicle", "read", "thing", "cloth", "animal")
    main = _quality(d, head)
    form = main.es_after[-1]
    if form[0] not in _OTHER_GENDER:
        return None
    right = _described(d, head, linking.relative(d, head, main.verb), main)
    wrong = right._replace(es=_replaced(right.es, form, _OTHER_GENDER[form[0]]))
    return _statement(right), _statement(wrong)


def _relative_agreement(d: Draw) -> Found:
    """The boys who live (lives) in Lima are tall."""
    head = _head(d, "job", "person", "animal", "vehicle")
    inner = linking.subject_relative(d, head, HABIT)
    return _disagreeing(_described(d, head, inner.statement(), _quality(d, head)), inner)


def _relative_roles(d: Draw) -> Found:
    """The book that Ana bought (that bought Ana) is expensive. In Spanish order says little."""
    head = _head(d, "read", "cloth", "vehicle", "thing", "animal")
    verbs = TAKING.get(head.noun.es[0] if head.noun else "", ())
    subject = _third(d)
    if not verbs or len(subject.en) > 2 or subject.pronoun("subject") == subject.en[0][0]:
        return None
    request = Request(PAST, subject, 0.0, negation=0.0, gap=True, verbs=(d.pick(verbs),))
    inner, that = action(d, request), d.link()
    if inner.en_adverb or inner.es_before:
        return None
    main, es = _quality(d, head), [("que", that), *inner.inverted()]
    orders = ([*subject.en, *inner.group.plain], [*inner.group.plain, *subject.en])
    right, wrong = (
        _described(d, head, Phrase(es, [("that", that), *order, *inner.en_after]), main)
        for order in orders
    )
    return _statement(right), _statement(wrong)


# --- Clitics and word order ----------------------------------------------------------------------

_OTHER_OBJECT = {"it": "them", "him": "them", "her": "them", "them": "it"}
_OTHER_CLITIC = _swapped(("lo", "la"), ("los", "las"))
_OTHER_PERSON_ES = {"me": "nos", "nos": "me", "te": "me"}
_OTHER_PERSON_EN = {"me": "us", "us": "me", "you": "me"}


def _linked(phrase: Phrase, es: Iterable[str], en: Iterable[str]) -> tuple[Token, Token] | None:
    """Return the last Spanish token of some words whose link an English one of others has."""
    for token in reversed(phrase.es):
        if token[0] in es:
            for other in phrase.en:
                if other[0] in en and other[1] == token[1]:
                    return token, other
    return None


def _clitic(d: Draw) -> Found:
    """Ana bought the table and painted it (them); la pintó (lo pintó)."""
    right = linking.with_clitic(d)
    found = _linked(right, _OTHER_CLITIC, _OTHER_OBJECT)
    if found is None or {"every", "cada"} & {word for word, _ in right.en}:
        return None
    es, en = found
    return _statement(right), _statement(Phrase(
        _replaced(right.es, es, _OTHER_CLITIC[es[0]]), _replaced(right.en, en, _OTHER_OBJECT[en[0]])
    ))  # fmt: skip


_TO_PEOPLE = tuple(v for v in VERBS if (v.human or v.recipient) and "noclit" not in v.tags)


def _clitic_person(d: Draw) -> Found:
    """Ana visits me (us)."""
    found = action(d, Request(MAIN, _third(d), 0.4, negation=0.1, verbs=_TO_PEOPLE))
    right = found.statement()
    tokens = _linked(right, _OTHER_PERSON_ES, _OTHER_PERSON_EN)
    if tokens is None or tokens[0] not in found.es_before:
        return None
    es, en = tokens
    return _statement(right), _statement(Phrase(
        _replaced(right.es, es, _OTHER_PERSON_ES[es[0]]),
        _replaced(right.en, en, _OTHER_PERSON_EN[en[0]]),
    ))  # fmt: skip


def _clitic_order(d: Draw) -> Found:
    """Ana bought the table and painted it (it painted); la pintó (pintó la)."""
    right = linking.with_clitic(d)
    found = _linked(right, _OTHER_CLITIC, _OTHER_OBJECT)
    if found is None:
        return None
    at = right.es.index(found[0])
    es = [*right.es[:at], right.es[at + 1], found[0], *right.es[at + 2 :]]
    end = right.en.index(found[1])
    start = max(n for n, (word, _) in enumerate(right.en[:end]) if word == "and") + 1
    en = [*right.en[:start], found[1], *right.en[start:end], *right.en[end + 1 :]]
    return _statement(right), _statement(Phrase(es, en))


# With these verbs an adjective behind the object is a result or a condition: paint it white.
_RESULTATIVE = frozenset({"pintar", "preferir", "querer", "hacer", "encontrar", "cortar", "tener"})
_LASTING = {adjective.en for adjective in ADJECTIVES if adjective.ser and adjective.en != "alone"}


def _adjective_order(d: Draw) -> Found:
    """The white house (the house white)."""
    found = action(d, Request(d.pick((MAIN, PAST)), None, 0.2, negation=0.05))
    right, thing = found.statement(), found.object
    if thing is None or found.verb is None or found.verb.es.infinitive in _RESULTATIVE:
        return None
    adjectives = [token for token in thing.en if token[0] in _LASTING]
    head = [token for token in right.en if token[1] == thing.link]
    if len(adjectives) != 1 or not head or adjectives[0] not in right.en:
        return None
    at = right.en.index(adjectives[0])
    after = [mask for _, mask in right.es].index(thing.link)
    behind = adjectives[0][1] in [mask for _, mask in right.es[after:]]
    rest = right.en[at + 1 + len(head) :]
    is_before = right.en[at + 1 : at + 1 + len(head)] == head
    if not behind or not is_before or "to" in [word for word, _ in rest[:1]]:
        return None  # "a lesson interesting to him" is right
    en = [*right.en[:at], *head, adjectives[0], *rest]
    return _statement(right), _statement(right._replace(en=en))


def _fronted_object(d: Draw) -> Found:
    """Este libro lo compró Ana: Ana bought this book (this book bought Ana)."""
    right = linking.fronted_object(d)
    clitic = next(n for n, (word, _) in enumerate(right.es) if word in _OTHER_CLITIC)
    thing = {mask for _, mask in right.es[:clitic]}
    verb = next(n for n, (_, mask) in enumerate(right.en) if mask & right.es[clitic + 1][1])
    start = next(n for n, (_, mask) in enumerate(right.en) if mask in thing)
    end = start + sum(mask in thing for _, mask in right.en)
    if right.en[verb - 1][0] in SUBJECT_PRONOUNS:
        return None
    parts = right.en[start:end], right.en[verb:start], right.en[:verb], right.en[end:]
    return _statement(right), _statement(right._replace(en=sum(parts, Tokens())))


def _question_order(d: Draw) -> Found:
    """What does Ana build (what Ana builds)?"""
    word, asked = questions.ASKABLE[d.pick(tuple(questions.ASKABLE))](d, False)
    es = [("¿", 0), *word.es, *questions.verb_first(asked), ("?", 0)]
    orders = asked.asked(), asked.statement().en
    right, wrong = (Phrase(es, [*word.en, *order, ("?", 0)]) for order in orders)
    return right, wrong


# --- Negation, coordination, numbers -------------------------------------------------------------

# Words that a negation changes or makes unclear.
_INDEFINITE = {
    *("a", "all", "each", "every", "few", "little", "lot", "many", "several"),
    *("also", "only", "other", "so", "some", "someone", "something", "too", "very"),
}


def _negated(d: Draw) -> Found:
    """Return a statement with its negation."""
    found = clause(d, Request(MAIN, person_subject(d), 0.3, negation=0.0), 0.4)
    unclear = _INDEFINITE & {word for word, _ in found.statement().en}
    if found.subject.vague or found.tense in ("imp", "was") or found.en_adverb or unclear:
        return None
    negated = replace(found, es_before=list(found.es_before))
    negated.negate(d)
    return _statement(negated.statement()), _statement(found.statement())


def _negation_added(d: Draw) -> Found:
    found = _negated(d)
    return found and found[::-1]


def _shared_subject(d: Draw) -> Found:
    """The boys eat bread and drink (drinks) water."""
    first = clause(d, Request(HABIT, _third(d), 0.3, 0.05, passing=True), 0.15)
    second = action(d, Request(HABIT, elided(first.subject), 0.3, 0.05))
    if second.verb is first.verb or first.experiencer:
        return None
    return _disagreeing(first.statement() + d.word("y", "and") + second.statement(), second)


def _two_subjects(d: Draw) -> Found:
    """Ana and Juan sing (sings)."""
    pair = _third(d)
    while "and" not in [word for word, _ in pair.en]:
        pair = _third(d)
    found = _quality(d, pair) if d.chance(0.3) else action(d, Request(HABIT, pair, 0.5, 0.1))
    return _disagreeing(found.statement(), found)


_NUMBERS = tuple(number for number in NUMBERS if " " not in number.en)


def _number(d: Draw) -> Found:
    """Seven farmers (eight farmers)."""
    simple = clause(d, Request(MAIN, None, 0.5, negation=0.1), 0.3)
    right = calendar(d) if d.chance(0.005) else simple.statement()
    tokens = _linked(right, [number.es for number in _NUMBERS], [one.en for one in _NUMBERS])
    if tokens is None or sum(word in [one.en for one in _NUMBERS] for word, _ in right.en) > 1:
        return None
    es, en = tokens
    at = [number.es for number in _NUMBERS].index(es[0])
    other = _NUMBERS[at + 1 if at == 0 or (d.chance(0.5) and at + 1 < len(_NUMBERS)) else at - 1]
    wrong = Phrase(_replaced(right.es, es, other.es), _replaced(right.en, en, other.en))
    return _statement(right), _statement(wrong)


# --- Long sentences and unseen names -------------------------------------------------------------


def _long(d: Draw) -> tuple[list[Phrase], Contrast]:
    """Return clauses of more words than a sentence of the corpus has, the last one negated."""
    end = _negated(d)
    while end is None or end[0].en[0][0] in SUBJECT_PRONOUNS:
        end = _negated(d)
    parts = [independent(d)]
    while min(sum(len(side[n]) for side in [*parts, end[1]]) for n in (0, 1)) <= MAX_WORDS:
        parts.append(d.word(",", ",") + d.word(*d.pick(entries("chain"))) + independent(d))
    joint = d.word(",", ",") + d.word(*d.pick(entries("chain")))
    return parts, (joint + end[0], joint + end[1])


def _joined(parts: Iterable[Phrase]) -> Phrase:
    return sum(parts, Phrase([], []))


def _long_end(d: Draw) -> Found:
    """A long sentence, whose last clause is negated or not."""
    parts, end = _long(d)
    right, wrong = (_joined([*parts, last]) for last in end)
    return (right, wrong) if d.chance(0.5) else (wrong, right)


def _long_gap(d: Draw) -> Found:
    """A long sentence (with one of its clauses left out)."""
    parts, (end, _) = _long(d)
    if len(parts) < 3:
        return None
    gap = 1 + int(d.random() * (len(parts) - 1))
    return _joined([*parts, end]), _joined([*parts[:gap], *parts[gap + 1 :], end])


UNSEEN_NAMES = {kind: entries(f"unseen {kind}") for kind in ("man", "woman")}


def _named(d: Draw, wrong: Callable[[Draw, str, str], str]) -> Found:
    """Return a sentence about someone with an unseen name, and with a wrong one."""
    phrase = clause(d, Request(MAIN, None, 0.5, negation=0.1), 0.3).statement()
    known = [token for token in phrase.es if token[0] in {*MEN, *WOMEN}]
    if len(known) != 1 or known[0] not in phrase.en:
        return None
    name = d.pick(UNSEEN_NAMES["woman" if known[0][0] in WOMEN else "man"]).es
    other = wrong(d, name, known[0][0])
    right, false = (
        Phrase(*(_replaced(side, known[0], text) for side in phrase)) for text in (name, other)
    )
    return _statement(right), _statement(false)


def _misspelled(d: Draw, name: str, _: str) -> str:
    places = [n for n in range(1, len(name) - 1) if name[n] != name[n + 1]]
    at = d.pick(places)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def _misspelled_name(d: Draw) -> Found:
    """Ingrid sings (Inrgid sings)."""
    return _named(d, _misspelled)


def _other_name(d: Draw) -> Found:
    """Ingrid sings (Ana sings)."""
    return _named(d, lambda _, __, known: known)


PHENOMENA: dict[str, Callable[[Draw], Found]] = {
    "agreement at a distance: number": _distant_number,
    "agreement at a distance: gender": _distant_gender,
    "relative clause: agreement": _relative_agreement,
    "relative clause: who did it": _relative_roles,
    "clitic: number or gender": _clitic,
    "clitic: person": _clitic_person,
    "word order: clitic": _clitic_order,
    "word order: adjective": _adjective_order,
    "word order: fronted object": _fronted_object,
    "word order: question": _question_order,
    "negation: left out": _negated,
    "negation: added": _negation_added,
    "coordination: shared subject": _shared_subject,
    "coordination: two subjects": _two_subjects,
    "number: another one": _number,
    "long sentence: negation at its end": _long_end,
    "long sentence: clause left out": _long_gap,
    "unseen name: misspelled": _misspelled_name,
    "unseen name: another one": _other_name,
}

Row = tuple[str, str, str, str]  # phenomenon, source, right and wrong translation


def minimal_pairs(sample: Path) -> dict[str, list[Row]]:
    """Return the rows of each direction, as in FILES: PAIRS of each phenomenon.

    `sample` is the folder of the sample corpus. Spanish and English differ in what can be wrong: a
    direction has the phenomena that its target language has.
    """
    known, seen = _corpus(sample)
    rows: dict[str, list[Row]] = {direction: [] for direction in FILES}
    for name, build in PHENOMENA.items():
        found: dict[str, list[Row]] = {direction: [] for direction in FILES}
        for right, wrong in _draws(name, build):
            sides = tuple(zip(right[:2], wrong[:2], strict=True))
            if not _fits(name, sides, known) or any(
                fold(side[0]) in texts for side, texts in zip(sides, seen, strict=True)
            ):
                continue
            (es, bad_es), (en, bad_en) = sides
            if en != bad_en and len(found["es-en"]) < PAIRS:
                found["es-en"].append((name, es, en, bad_en))
            if es != bad_es and len(found["en-es"]) < PAIRS:
                found["en-es"].append((name, en, es, bad_es))
            for text, texts in zip((es, en), seen, strict=True):
                texts.add(fold(text))
            # The errors of a phenomenon are in the same languages in all sentences.
            if all(len(some) in (0, PAIRS) for some in found.values()):
                break
        for direction, some in found.items():
            rows[direction] += some
    return rows


def _draws(name: str, build: Callable[[Draw], Found]) -> Iterator[tuple[Pair, Pair]]:
    d = Draw(random.Random(f"challenge: {name}"))
    while True:
        d.restart()
        found = build(d)
        if found is not None:
            right, wrong = map(finish, found)
            yield right, wrong


def _fits(name: str, sides: Iterable[tuple[str, str]], known: tuple[set[str], ...]) -> bool:
    """Return whether both languages have known words only, and as many as they should."""
    least, most = (MAX_WORDS + 1, _LONGEST) if name.startswith("long") else (MIN_WORDS, _SHORT)
    for (right, wrong), vocabulary in zip(sides, known, strict=True):
        both = words(right), words(wrong)
        new = {word.casefold() for text in both for word in text} - vocabulary
        if (new and not name.startswith("unseen")) or not least <= len(both[0]) <= most:
            return False
    return True


def _corpus(sample: Path) -> tuple[tuple[set[str], ...], tuple[set[str], ...]]:
    """Return, of Spanish and English, the words for training and the sentences of all splits."""
    known: tuple[set[str], ...] = (set(), set())
    seen: tuple[set[str], ...] = (set(), set())
    for split in ("train", "valid", "test"):
        for line in (sample / f"{split}.tsv").read_text(encoding="utf-8").splitlines():
            for side, text in enumerate(line.split("\t")[:2]):
                seen[side].add(fold(text))
                if split == "train":
                    known[side].update(words(text.casefold()))
    return known, seen


def write_challenge(sample: Path) -> str:
    """Write FILES into the folder of the sample corpus.

    Returns the number of pairs, a line per file.
    """
    counts = []
    with publish_files(sample) as aside:
        for direction, rows in minimal_pairs(sample).items():
            name, text = FILES[direction], "".join("\t".join(row) + "\n" for row in rows)
            (aside / name).write_bytes(text.encode())
            counts.append(f"{name}: {len(rows)} pairs of {len({row[0] for row in rows})} phenomena")
    return "\n".join(counts)
